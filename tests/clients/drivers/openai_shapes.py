"""Reads replies that have the shape of OpenAI's Python objects into an outcome."""

from __future__ import annotations

from typing import Any

from telling import Outcome, gathered


def read_plain(reply: Any, outcome: Outcome) -> None:
    """A whole reply."""
    choice = reply.choices[0]
    outcome |= {"id": reply.id, "text": choice.message.content or "", "finish": choice.finish_reason}
    outcome["usage"] = [reply.usage.prompt_tokens, reply.usage.completion_tokens]
    outcome["report"] = getattr(reply, "contextShift", None)
    called = choice.message.tool_calls or []
    outcome["calls"] = gathered(
        (index, call.id, call.function.name, call.function.arguments) for index, call in enumerate(called)
    )


def read_stream(stream: Any, outcome: Outcome) -> None:
    """A stream, to its end."""
    pieces = []
    for chunk in stream:
        outcome["id"] = chunk.id
        outcome["report"] = outcome["report"] or getattr(chunk, "contextShift", None)
        if getattr(chunk, "usage", None):
            outcome["usage"] = [chunk.usage.prompt_tokens, chunk.usage.completion_tokens]
        for choice in chunk.choices:
            outcome["text"] += choice.delta.content or ""
            outcome["finish"] = choice.finish_reason or outcome["finish"]
            for call in choice.delta.tool_calls or []:
                pieces.append((call.index, call.id, call.function.name, call.function.arguments))
    outcome["calls"] = gathered(pieces)
