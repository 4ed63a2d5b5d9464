"""Why a block that stays stays."""

from __future__ import annotations

from typing import Any

from gateway.shifting.blocks import block_of
from gateway.shifting.reasons import inclusion_reasons


def reasons(*messages: dict[str, Any]) -> list[str]:
    """The reasons of a conversation's messages."""
    blocks = [block_of(message, i) for i, message in enumerate(messages)]
    return [reason.value for reason in inclusion_reasons(blocks)[0]]


def test_each_kind_of_protection_has_its_word() -> None:
    assert reasons(
        {"role": "system"},
        {"role": "user", "meta": {"kind": "character"}},
        {"role": "user", "meta": {"kind": "persona"}},
        {"role": "system", "meta": {"kind": "lorebook", "required": True}},
        {"role": "assistant", "meta": {"pinned": True}},
        {"role": "assistant", "meta": {"kind": "memory", "required": True}},
        {"role": "system", "meta": {"kind": "lorebook"}},
        {"role": "user", "content": "now"},
        {"role": "assistant", "content": "prefill"},
    ) == [
        "protected-system", "protected-character", "protected-persona", "protected-lorebook", "protected-pinned",
        "protected-pinned", "fits", "current-turn", "current-turn",
    ]  # fmt: skip


def test_a_group_has_the_first_reason_of_its_members() -> None:
    call = {"role": "assistant", "tool_calls": [{"id": "a"}], "meta": {"pinned": True}}
    result = {"role": "tool", "tool_call_id": "a"}
    assert reasons(call, result, {"role": "user", "content": "x"}) == ["protected-pinned", "protected-pinned", "current-turn"]


def test_a_call_answered_in_the_current_turn_is_protected_whole() -> None:
    call, result = {"role": "assistant", "tool_calls": [{"id": "a"}]}, {"role": "tool", "tool_call_id": "a"}
    assert reasons(call, {"role": "user", "content": "x"}, result) == ["current-turn"] * 3


def test_members_of_a_group_are_told_with_its_oldest() -> None:
    call, result = {"role": "assistant", "tool_calls": [{"id": "a"}]}, {"role": "tool", "tool_call_id": "a"}
    blocks = [block_of(message, i) for i, message in enumerate([{"role": "user"}, call, result, {"role": "user"}])]
    assert inclusion_reasons(blocks)[1] == {1: 1, 2: 1}


def test_without_a_user_message_the_newest_block_is_the_current_turn() -> None:
    assert reasons({"role": "assistant"}, {"role": "assistant"}) == ["fits", "current-turn"]
