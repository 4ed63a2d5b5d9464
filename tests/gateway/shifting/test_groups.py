"""Which messages may only leave together."""

from __future__ import annotations

from typing import Any

from gateway.shifting.groups import group_roots, message_groups
from gateway.shifting.links import tool_links


def call(*ids: str) -> dict[str, Any]:
    """An assistant message that makes calls."""
    return {"role": "assistant", "content": None, "tool_calls": [{"id": name} for name in ids]}


def result(name: str) -> dict[str, Any]:
    """A tool result."""
    return {"role": "tool", "tool_call_id": name, "content": "r"}


def groups(*messages: dict[str, Any]) -> list[tuple[int, ...]]:
    """The groups of a conversation that have more than one member."""
    found = message_groups([tool_links(message) for message in messages])
    return [group.indexes for group in found if len(group.indexes) > 1]


USER = {"role": "user", "content": "u"}


def test_a_call_and_its_results_are_one_group_wherever_they_stand() -> None:
    assert groups(call("a", "b"), USER, result("b"), USER, result("a")) == [(0, 2, 4)]


def test_an_id_reused_in_every_turn_links_to_the_nearest_call_that_waits() -> None:
    assert groups(call("x"), result("x"), USER, call("x"), result("x")) == [(0, 1), (3, 4)]


def test_of_two_waiting_calls_the_nearer_is_answered_first() -> None:
    assert groups(call("x"), call("x"), result("x"), result("x")) == [(0, 3), (1, 2)]


def test_a_second_result_joins_the_nearest_earlier_call() -> None:
    assert groups(call("x"), result("x"), result("x")) == [(0, 1, 2)]


def test_orphans_and_lone_calls_are_groups_of_one() -> None:
    assert groups(result("ghost"), USER, call("dead"), USER) == []


def test_groups_that_share_a_member_are_one() -> None:
    both = {**result("a"), "content": [{"type": "tool_result", "tool_use_id": "b"}]}
    assert groups(call("a"), call("b"), both) == [(0, 1, 2)]


def test_a_result_before_its_call_is_an_orphan() -> None:
    assert groups(result("a"), call("a")) == []


def test_a_message_may_answer_one_call_and_make_the_next() -> None:
    chained = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "a"}, {"type": "tool_use", "id": "b"}]}
    assert groups(call("a"), chained, result("b")) == [(0, 1, 2)]


def test_a_call_known_by_two_ids_is_answered_once() -> None:
    made = {"role": "assistant", "tool_calls": [{"id": "fc_7", "call_id": "c9"}]}
    assert groups(made, result("c9"), result("fc_7")) == [(0, 1, 2)]
    assert groups(made, made, result("c9"), result("fc_7")) == [(0, 3), (1, 2)]


def test_ten_thousand_calls_of_one_id_are_linked_in_linear_time() -> None:
    links = [tool_links(call("x")), tool_links(result("x"))] * 10_000
    assert group_roots(links)[-2:] == [19_998, 19_998]
