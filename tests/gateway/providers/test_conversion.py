"""A JSON answer as a stream and back."""

from __future__ import annotations

import json

from gateway.providers.conversion import to_completion, to_stream
from gateway.providers.stream_rules import StreamRules

COMPLETION = {
    "id": "c",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [
        {
            "index": 0,
            "message": {"role": "assistant", "content": "Hi 🌍"},
            "logprobs": {"content": [{"token": "Hi"}]},
            "finish_reason": "stop",
        },
        {
            "index": 1,
            "message": {
                "role": "assistant",
                "content": None,
                "reasoning_content": "hm",
                "tool_calls": [
                    {"id": "a", "type": "function", "function": {"name": "f", "arguments": "{}"}},
                    {"id": "b", "type": "function", "function": {"name": "g", "arguments": "[]"}},
                ],
            },
            "finish_reason": "tool_calls",
        },
    ],
    "usage": {"prompt_tokens": 5},
}


def test_a_completion_becomes_a_legal_stream_with_all_it_holds():
    stream = to_stream(json.dumps(COMPLETION).encode())
    rules = StreamRules()
    assert rules.feed(stream) == stream
    assert (rules.done, rules.finish_reason, rules.usage) == (True, "stop", b'{"prompt_tokens":5}')


def test_there_and_back_is_the_same():
    assert json.loads(to_completion(to_stream(json.dumps(COMPLETION).encode()))) == COMPLETION


def test_deltas_add_up():
    deltas = [
        {"role": "assistant", "content": "a"},
        {"content": "b", "reasoning": "r"},
        {"tool_calls": [{"index": 0, "id": "x", "type": "function", "function": {"name": "f", "arguments": '{"a'}}]},
        {"tool_calls": [{"index": 0, "function": {"arguments": '": 1}'}}, {"index": 1, "id": "y"}]},
        {},
    ]
    chunks = [{"id": "c", "choices": [{"index": 0, "delta": delta, "finish_reason": None}], "usage": None} for delta in deltas]
    chunks.append({"id": "c", "choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}], "usage": {"total": 3}})
    stream = b"".join(b"data: " + json.dumps(chunk).encode() + b"\n\n" for chunk in chunks) + b": c\n\ndata: [DONE]\n\n"
    assert json.loads(to_completion(stream)) == {
        "id": "c",
        "object": "chat.completion",
        "choices": [
            {
                "index": 0,
                "message": {
                    "role": "assistant",
                    "content": "ab",
                    "reasoning": "r",
                    "tool_calls": [
                        {"id": "x", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}},
                        {"id": "y"},
                    ],
                },
                "finish_reason": "tool_calls",
            }
        ],
        "usage": {"total": 3},
    }


def test_lists_add_up_and_usage_may_be_missing():
    parts = [{"index": 0, "delta": {}, "logprobs": {"content": [number]}, "finish_reason": "stop"} for number in (1, 2)]
    stream = b"".join(b"data: " + json.dumps({"choices": [part]}).encode() + b"\n\n" for part in parts)
    completion = json.loads(to_completion(stream))
    assert completion["choices"][0]["logprobs"] == {"content": [1, 2]}
    assert "usage" not in completion
    assert b"usage" not in to_stream(json.dumps(completion).encode())
