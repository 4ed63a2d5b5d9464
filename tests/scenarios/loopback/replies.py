"""What providers send, as bytes: plain answers, refusals, and the pieces of a stream."""

from __future__ import annotations

import json
from typing import Any

TEXT = "The Nile, the Rhine and the Po."
USAGE = {"prompt_tokens": 12, "completion_tokens": 9, "total_tokens": 21}
CREATED = {"id": "chatcmpl-1", "created": 1700000000, "model": "from-upstream"}
_REASONS = {200: "OK", 400: "Bad Request", 401: "Unauthorized", 429: "Too Many Requests"}

STREAM_HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
END = b"0\r\n\r\n"


def answer(body: bytes, status: int = 200, **headers: str) -> bytes:
    """A whole HTTP answer; header names with `_` for `-`."""
    named = {"content-type": "application/json", "content-length": str(len(body))}
    named |= {name.replace("_", "-"): value for name, value in headers.items()}
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status} {_REASONS.get(status, 'Status')}\r\n{head}\r\n".encode() + body


def refusal(status: int, message: str = "refused by the provider", *, code: str | None = None, **headers: str) -> bytes:
    """An HTTP answer with an error object."""
    error = {"message": message, "type": "some_error", "param": None, "code": code}
    return answer(json.dumps({"error": error}).encode(), status, **headers)


def completion(text: str = TEXT, **fields: Any) -> bytes:
    """The JSON of a chat completion."""
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return json.dumps({**CREATED, "object": "chat.completion", "choices": [choice], "usage": USAGE, **fields}).encode()


def plain(text: str = TEXT, **fields: Any) -> bytes:
    """A whole HTTP answer with a chat completion."""
    return answer(completion(text, **fields))


def event(data: dict[str, Any] | bytes) -> bytes:
    """One event of a stream, as a chunk of the HTTP body."""
    written = b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\n\n"
    return chunked(written)


def chunked(data: bytes) -> bytes:
    """Bytes as a chunk of an HTTP body."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def piece(text: str, finish_reason: str | None = None) -> bytes:
    """A chunk with some text."""
    choice = {"index": 0, "delta": {"content": text}, "finish_reason": finish_reason}
    return event({**CREATED, "object": "chat.completion.chunk", "choices": [choice]})


def usage_event() -> bytes:
    """The chunk without choices that brings the usage."""
    return event({**CREATED, "object": "chat.completion.chunk", "choices": [], "usage": USAGE})


DONE = event(b"[DONE]")
FINISH = piece("", "stop") + usage_event() + DONE + END


def stream(*texts: str) -> bytes:
    """A whole stream."""
    return STREAM_HEAD + b"".join(piece(text) for text in texts or (TEXT,)) + FINISH
