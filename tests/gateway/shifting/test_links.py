"""Which spellings of tool links are understood, and that odd shapes are harmless."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.shifting.links import NO_LINKS, tool_links


@pytest.mark.parametrize("key", ["tool_call_id", "toolCallId", "callId", "call_id"])
def test_a_result_may_name_its_call_in_four_ways(key: str) -> None:
    assert tool_links({"role": "tool", key: "c1", "content": "r"}).results == ("c1",)


@pytest.mark.parametrize("listed", ["tool_calls", "toolCalls"])
@pytest.mark.parametrize("key", ["id", "toolCallId", "callId", "call_id"])
def test_a_call_may_be_named_in_as_many(listed: str, key: str) -> None:
    assert tool_links({"role": "assistant", listed: [{key: "c1"}]}).calls == (("c1",),)


def test_a_legacy_function_call_links_by_its_name() -> None:
    made = tool_links({"role": "assistant", "content": None, "function_call": {"name": "calc", "arguments": "{}"}})
    answer = tool_links({"role": "function", "name": "calc", "content": "42"})
    assert made.calls[0][0] == answer.results[0]


def test_items_of_the_responses_api_link_by_call_id() -> None:
    assert "c9" in tool_links({"type": "function_call", "id": "fc_1", "call_id": "c9"}).calls[0]
    assert tool_links({"type": "function_call_output", "call_id": "c9", "output": "x"}).results == ("c9",)


def test_content_blocks_link_too() -> None:
    assert tool_links({"role": "assistant", "content": [{"type": "tool_use", "id": "t"}]}).calls == (("t",),)
    answer = tool_links({"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}]})
    assert answer.results == ("t",)
    assert answer.only_results
    beside = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t"}, {"type": "text", "text": "x"}]}
    assert not tool_links(beside).only_results


@pytest.mark.parametrize(
    "message",
    [
        {},
        {"role": "user", "content": "x", "tool_call_id": "c"},
        {"role": "tool", "content": "x"},
        {"role": "tool", "tool_call_id": 7},
        {"role": "tool", "tool_call_id": ""},
        {"role": "assistant", "tool_calls": "no list"},
        {"role": "assistant", "tool_calls": [None, 3, {"id": None}]},
        {"role": "assistant", "function_call": "text"},
        {"role": "function", "name": None},
        {"role": "user", "content": []},
        {"role": "user", "content": ["text", None]},
        {"role": ["assistant"], "content": 3},
    ],
)
def test_odd_shapes_have_no_links(message: dict[str, Any]) -> None:
    assert tool_links(message) == NO_LINKS
    assert not tool_links(message)
