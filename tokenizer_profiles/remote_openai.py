"""OpenAI's own count: a chat request as the input items of `POST /v1/responses/input_tokens`. Pure; knows no server.

Shapes after OpenAI's API reference (Responses: input items, function tools, text formats). Sounds have no place there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizer_profiles.base import Message, Request
from tokenizer_profiles.remote_chat import Chat, Media, Turn, read_chat, written
from tokenizer_profiles.remote_whole import PromptFormat, Question

_PATH = "/v1/responses/input_tokens"


def question(model: str, messages: Sequence[Message], request: Request) -> Question:
    """The request that counts a chat."""
    chat = read_chat(messages, request)
    body: dict[str, Any] = {"input": [item for turn in chat.turns for item in _items(turn, chat.rest)]}
    body |= {"model": model} if model else {}
    body |= _tools(chat)
    body |= {"text": {"format": _text_format(chat)}} if chat.schema is not None else {}
    effort = request.get("reasoning_effort")
    body |= {"reasoning": {"effort": effort}} if isinstance(effort, str) else {}
    return Question(_PATH, body, chat.rest)


OPENAI = PromptFormat(question, "input_tokens")


def _items(turn: Turn, rest: list[Message]) -> list[dict[str, Any]]:
    content = _content(turn, rest)
    if turn.role == "tool":
        return [{"type": "function_call_output", "call_id": turn.answers, "output": content}]
    calls = [{"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments} for call in turn.calls]
    return [*([{"role": turn.role, "content": content}] if content or not calls else []), *calls]


def _content(turn: Turn, rest: list[Message]) -> str | list[dict[str, Any]]:
    """A plain text stays one; the parts of an assistant's message are output, all others input."""
    texts = turn.texts
    if len(texts) == len(turn.parts) < 2:
        return "".join(texts)
    text_type = "output_text" if turn.role == "assistant" else "input_text"
    return written(turn.parts, lambda part: _part(part, text_type), rest) or ""


def _part(part: str | Media, text_type: str) -> dict[str, Any] | None:
    if isinstance(part, str):
        return {"type": text_type, "text": part}
    if part.kind == "image_url":
        holder = part.part["image_url"]
        detail = holder.get("detail") if isinstance(holder, Mapping) else None
        return {"type": "input_image", "image_url": part.url, "detail": detail or "auto"}
    if part.kind == "file":
        return {"type": "input_file", **part.part["file"]}
    return None


def _tools(chat: Chat) -> dict[str, Any]:
    if not chat.functions:
        return {}
    tools = [
        {"type": "function", "name": each.name, "parameters": each.parameters, "strict": each.strict}
        | ({"description": each.description} if each.description is not None else {})
        for each in chat.functions
    ]
    choice = {"type": "function", "name": chat.choice[0]} if isinstance(chat.choice, tuple) else chat.choice
    body: dict[str, Any] = {"tools": tools}
    body |= {"tool_choice": choice} if choice is not None else {}
    return body | ({"parallel_tool_calls": chat.parallel} if chat.parallel is not None else {})


def _text_format(chat: Chat) -> dict[str, Any]:
    return {"type": "json_schema", **chat.schema} if chat.schema else {"type": "json_object"}
