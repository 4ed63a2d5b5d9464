"""The strategy `manual`: marked groups leave even when all fits, protected ones never, and the rest is truncated."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from gateway.shifting import PromptBlock, Reason, ShiftOptions, ShiftResult, shift_context
from gateway.shifting.blocks import block_of
from gateway.shifting.shift import protection
from gateway.shifting.strategies.manual import Manual
from tests.gateway.shifting.conversations import conversations, words

OPTIONS = ShiftOptions()


def counted(blocks: list[PromptBlock]) -> int:
    return words([block.message for block in blocks])


def shifted(blocks: list[PromptBlock], budget: int = 10_000) -> ShiftResult[PromptBlock]:
    return Manual().shift(blocks, counted, budget, options=OPTIONS)


def chat(*messages: dict[str, Any], marked: int) -> list[PromptBlock]:
    blocks = [block_of(message, i) for i, message in enumerate(messages)]
    blocks[marked] = replace(blocks[marked], manual_excluded=True)
    return blocks


CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "bulk"}


def test_a_marked_result_takes_its_call_along() -> None:
    result = shifted(chat({"role": "user", "content": "q"}, CALL, RESULT, {"role": "user", "content": "now"}, marked=2))
    assert [block.id for block in result.kept] == ["m0", "m3"]
    assert result.reasons == {"m1": Reason.GROUP_MEMBER, "m2": Reason.MANUAL}


def test_marks_on_protected_context_are_void() -> None:
    system, pinned, now = (
        {"role": "system", "content": "s"},
        {"role": "user", "content": "p", "meta": {"pinned": True}},
        {"role": "user", "content": "now"},
    )
    for marked in range(3):
        assert len(shifted(chat(system, pinned, now, marked=marked)).kept) == 3


def test_without_marks_it_is_truncate() -> None:
    blocks = [PromptBlock(f"m{i}", "user", "x", tokens=10) for i in range(20)]

    def count(items: list[PromptBlock]) -> int:
        return 10 * len(items)

    assert len(Manual().shift(blocks, count, 160, options=ShiftOptions(cut_step=0.5)).kept) == 12


@given(conversations, st.sets(st.integers(0, 20)), st.integers(0, 80))
def test_the_marked_leave_and_the_rest_is_what_truncate_leaves(
    messages: list[dict[str, Any]], marked: set[int], budget: int
) -> None:
    blocks = [replace(block_of(message, i), manual_excluded=i in marked) for i, message in enumerate(messages)]
    result = shifted(blocks, budget)
    assert sorted([*result.kept, *result.excluded], key=blocks.index) == blocks
    assert [blocks.index(block) for block in result.kept] == sorted(blocks.index(block) for block in result.kept)
    named = {i for group in protection(blocks).removable() if marked & set(group.indexes) for i in group.indexes}
    rest = [block for i, block in enumerate(blocks) if i not in named]
    assert result.kept == shift_context(rest, counted, budget).kept
    assert {block.id for block in blocks if result.reasons.get(block.id) in (Reason.MANUAL, Reason.GROUP_MEMBER)} == {
        f"m{i}" for i in named
    }
