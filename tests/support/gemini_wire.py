"""What a server of Gemini's generateContent format sends, as JSON bodies and events."""

from __future__ import annotations

import json
from typing import Any

MODEL = "gemini/gemini-2.5-pro"
USAGE = {"promptTokenCount": 4, "candidatesTokenCount": 2, "totalTokenCount": 6}
COUNTED = {"prompt_tokens": 4, "completion_tokens": 2, "total_tokens": 6}


def answer(text: str, finish_reason: str | None = None) -> dict[str, Any]:
    """A candidate with a text; the last one of a stream has a reason and the usage."""
    candidate: dict[str, Any] = {"content": {"parts": [{"text": text}], "role": "model"}, "index": 0}
    end = {"usageMetadata": USAGE} if finish_reason else {}
    if finish_reason:
        candidate["finishReason"] = finish_reason
    return {"candidates": [candidate], "modelVersion": "gemini-2.5-pro", "responseId": "r-1", **end}


def error(code: int, status: str, message: str, *details: dict[str, Any]) -> bytes:
    """An error object."""
    return json.dumps({"error": {"code": code, "message": message, "status": status, "details": list(details)}}).encode()


def event(data: dict[str, Any] | bytes) -> bytes:
    """One event of a stream."""
    return b"data: " + (data if isinstance(data, bytes) else json.dumps(data).encode()) + b"\r\n\r\n"


STREAM = [event(answer("Hello")), event(answer(" there", "STOP"))]
