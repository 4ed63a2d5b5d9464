"""A JSON answer as a stream, a stream as a JSON answer: for an upstream that ignored what `stream` said.

Everything a message holds is carried over; nothing is invented.
"""

from __future__ import annotations

import json
from typing import Any

from gateway.providers.event_stream import EventReader
from gateway.providers.stream_rules import DONE

_PER_ANSWER = ("choices", "usage", "object")
_GROWING = {"content", "refusal", "reasoning", "reasoning_content", "arguments"}


def to_stream(completion: bytes) -> bytes:
    """One chunk with every message, one with the ends, one with the usage, [DONE]. The completion has choices."""
    answer = json.loads(completion.decode("utf-8", "replace"))
    head = {key: value for key, value in answer.items() if key not in _PER_ANSWER and key != "error"}
    head["object"] = "chat.completion.chunk"
    choices = [choice for choice in answer["choices"] if isinstance(choice, dict)]
    chunks = [
        {**head, "choices": [_opened(choice, position) for position, choice in enumerate(choices)]},
        {**head, "choices": [_closed(choice, position) for position, choice in enumerate(choices)]},
    ]
    if answer.get("usage") is not None:
        chunks.append({**head, "choices": [], "usage": answer["usage"]})
    return b"".join(b"data: " + _dumped(chunk) + b"\n\n" for chunk in chunks) + DONE


def to_completion(stream: bytes) -> bytes:
    """The completion that a legal, whole stream adds up to."""
    completion: dict[str, Any] = {}
    choices: dict[int, dict[str, Any]] = {}
    usage = None
    for event in EventReader().feed(stream):
        if event.data is None or event.data == b"[DONE]":
            continue
        chunk = json.loads(event.data.decode("utf-8", "replace"))
        for key, value in chunk.items():
            completion.setdefault(key, value)
        usage = chunk.get("usage") or usage
        for choice in chunk.get("choices") or ():
            _add(choices.setdefault(choice.get("index") or 0, {}), choice)
    completion["object"] = "chat.completion"
    completion["choices"] = [choices[index] for index in sorted(choices)]
    completion.pop("usage", None)
    return _dumped(completion | ({"usage": usage} if usage else {}))


def _opened(choice: dict[str, Any], position: int) -> dict[str, Any]:
    message = dict(choice.get("message") or {})
    calls = message.get("tool_calls")
    if isinstance(calls, list):
        message["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls) if isinstance(call, dict)]
    opened = {"index": choice.get("index", position), "delta": message, "finish_reason": None}
    return opened | ({"logprobs": choice["logprobs"]} if choice.get("logprobs") is not None else {})


def _closed(choice: dict[str, Any], position: int) -> dict[str, Any]:
    rest = {key: value for key, value in choice.items() if key not in ("index", "message", "logprobs", "finish_reason")}
    return {"index": choice.get("index", position), "delta": {}, "finish_reason": choice.get("finish_reason"), **rest}


def _add(choice: dict[str, Any], part: dict[str, Any]) -> None:
    message = choice.setdefault("message", {})
    choice.setdefault("index", part.get("index") or 0)
    choice.setdefault("finish_reason", None)
    for key, value in part.items():
        if key == "delta":
            _grow(message, value or {})
        elif key == "logprobs" and isinstance(value, dict):
            _grow(choice.setdefault("logprobs", {}), value)
        elif value is not None:
            choice[key] = value


def _grow(whole: dict[str, Any], part: dict[str, Any]) -> None:
    """Texts are joined, lists extended, tool calls matched by their index; anything else is set."""
    for key, value in part.items():
        if value is None:
            whole.setdefault(key, None)
        elif key == "tool_calls":
            _grow_calls(whole, value)
        elif isinstance(value, dict):
            _grow(_child(whole, key), value)
        elif isinstance(value, list) and isinstance(whole.get(key), list):
            whole[key] = whole[key] + value
        elif key in _GROWING and isinstance(whole.get(key), str) and isinstance(value, str):
            whole[key] += value
        else:
            whole[key] = value


def _grow_calls(message: dict[str, Any], parts: list[dict[str, Any]]) -> None:
    calls: list[dict[str, Any]] = message.get("tool_calls") or []
    message["tool_calls"] = calls
    for part in parts:
        index = part.get("index", len(calls))
        while len(calls) <= index < 1024:
            calls.append({})
        _grow(calls[index], {key: value for key, value in part.items() if key != "index"})


def _child(whole: dict[str, Any], key: str) -> dict[str, Any]:
    child = whole.get(key)
    if not isinstance(child, dict):
        child = whole[key] = {}
    return child


def _dumped(value: object) -> bytes:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":")).encode()
