"""What a server of Anthropic's Messages format sends, as JSON bodies and events."""

from __future__ import annotations

import json
from typing import Any

MODEL = "anthropic/claude-test"
USAGE = {"input_tokens": 25, "output_tokens": 15}
COUNTED = {"prompt_tokens": 25, "completion_tokens": 15, "total_tokens": 40}


def message(*content: dict[str, Any], stop_reason: str = "end_turn") -> bytes:
    """A whole answer; without content a short text."""
    return json.dumps(
        {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-test",
            "content": list(content) or [{"type": "text", "text": "Hello there"}],
            "stop_reason": stop_reason,
            "stop_sequence": None,
            "usage": USAGE,
        }
    ).encode()


def error(kind: str, text: str) -> bytes:
    """An error object."""
    return json.dumps({"type": "error", "error": {"type": kind, "message": text}}).encode()


def event(data: dict[str, Any] | bytes) -> bytes:
    """One event of a stream."""
    written = data if isinstance(data, bytes) else json.dumps(data).encode()
    return b"event: " + json.loads(written)["type"].encode() + b"\ndata: " + written + b"\n\n"


def text(piece: str) -> bytes:
    """A piece of text."""
    return event({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": piece}})


_HEAD = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "model": "claude-test", "stop_reason": None}
START = [
    event({"type": "message_start", "message": {**_HEAD, "usage": {"input_tokens": 25, "output_tokens": 1}}}),
    event({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
    event({"type": "ping"}),
]
END = [
    event({"type": "content_block_stop", "index": 0}),
    event({"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 15}}),
    event({"type": "message_stop"}),
]
STREAM = [*START, text("Hello"), text(" there"), *END]
