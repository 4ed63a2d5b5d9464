"""Memory stands directly before the current user message, and the client's messages keep their indexes."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.assembly import assembled
from gateway.chat import NO_MARKS, ContextOptions, MemoryEntry
from gateway.shifting import BlockKind
from tests.support.small_chats import chat_request

USER, ASSISTANT, SYSTEM = ({"role": role, "content": role} for role in ("user", "assistant", "system"))
CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "r"}
MEMORY = (MemoryEntry("first", relevance=0.5), MemoryEntry("second", required=True))


def test_without_memory_the_prompt_is_the_request_s_own() -> None:
    request = chat_request([USER])
    prompt = assembled(request, [NO_MARKS])
    assert prompt.messages is request.messages
    assert list(prompt.indexes) == [0]


@pytest.mark.parametrize(
    ("messages", "indexes"),
    [
        ([SYSTEM, USER, ASSISTANT, USER], [0, 1, 2, None, None, 3]),
        ([USER, CALL, RESULT], [None, None, 0, 1, 2]),
        ([SYSTEM, SYSTEM, ASSISTANT], [0, 1, None, None, 2]),
        ([SYSTEM], [0, None, None]),
    ],
)
def test_memory_stands_before_the_current_turn(messages: list[dict[str, Any]], indexes: list[int | None]) -> None:
    request = chat_request(messages, options=ContextOptions(memory=MEMORY))
    prompt = assembled(request, [NO_MARKS] * len(messages))
    assert prompt.indexes == indexes
    own = [message for message, index in zip(prompt.messages, indexes, strict=True) if index is not None]
    assert own == list(request.messages)
    first, second = (message for message in prompt.messages if message.source == "memory")
    assert (first.role, first.text, first.id) == ("system", "first", "memory-0")
    marks = [mark for mark, index in zip(prompt.marks, indexes, strict=True) if index is None]
    assert [(mark.kind, mark.required, mark.relevance) for mark in marks] == [
        (BlockKind.MEMORY, False, 0.5),
        (BlockKind.MEMORY, True, None),
    ]
    assert second.outgoing == b'{"role":"system","content":"second"}'
