"""The strategy `vector-recall`: low relevance leaves first and no more of it than needed, then history as truncate leaves it."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.shifting import BlockKind, PromptBlock, Reason, ShiftOptions, ShiftResult, shift_context
from gateway.shifting.blocks import block_of
from gateway.shifting.shift import protection
from gateway.shifting.strategies.vector_recall import VectorRecall, recalled_positions
from tests.gateway.shifting.conversations import conversations, words

RECALLED = (BlockKind.LOREBOOK, BlockKind.MEMORY)
relevances = st.one_of(st.none(), st.just(math.nan), st.sampled_from([0.0, 0.2, 0.2, 0.9, 1.0, -1.0, math.inf]))
recalled_chats = st.builds(
    lambda messages, marks: [
        block if kind is None else replace(block, kind=kind, relevance=relevance)
        for block, (kind, relevance) in zip((block_of(message, i) for i, message in enumerate(messages)), marks, strict=False)
    ],
    conversations,
    st.lists(st.tuples(st.sampled_from([None, None, *RECALLED]), relevances), min_size=50, max_size=50),
)


def counted(blocks: Sequence[PromptBlock]) -> int:
    return words([block.message for block in blocks])


def tens(blocks: Sequence[PromptBlock]) -> int:
    return 10 * len(blocks)


def memory(name: str, relevance: float | None, **more: Any) -> PromptBlock:
    return PromptBlock(name, "system", name, kind=BlockKind.MEMORY, relevance=relevance, tokens=10, **more)


def said(name: str) -> PromptBlock:
    return PromptBlock(name, "user", name, tokens=10)


def shifted(blocks: list[PromptBlock], budget: int, cut_step: float = 0.0) -> ShiftResult[PromptBlock]:
    return VectorRecall().shift(blocks, tens, budget, options=ShiftOptions(cut_step))


def left(blocks: list[PromptBlock], budget: int) -> list[str]:
    return [block.id for block in shifted(blocks, budget).excluded]


def weight(block: PromptBlock) -> float:
    return 0.0 if block.relevance is None or math.isnan(block.relevance) else block.relevance


CHAT = [memory("a", 0.2), memory("b", 0.9), memory("c", 0.2), memory("d", None), memory("e", math.nan), said("old"), said("now")]


@pytest.mark.parametrize(
    ("budget", "gone"),
    [
        (70, []),
        (69, ["d"]),
        (60, ["d"]),
        (50, ["d", "e"]),
        (40, ["a", "d", "e"]),
        (30, ["a", "c", "d", "e"]),
        (20, ["a", "b", "c", "d", "e"]),
        (10, ["a", "b", "c", "d", "e", "old"]),
    ],
)
def test_the_least_relevant_leave_first_the_oldest_of_equals_before_the_others(budget: int, gone: list[str]) -> None:
    assert left(CHAT, budget) == gone


def test_the_reason_tells_low_relevance_from_age() -> None:
    result = shifted(CHAT, 10)
    assert result.reasons == dict.fromkeys("abcde", Reason.LOW_RELEVANCE)
    assert [block.id for block in result.kept] == ["now"]
    assert (result.prompt_tokens, result.fits) == (10, True)


def test_what_must_stay_stays_however_irrelevant() -> None:
    kept = [memory("pinned", 0.0, pinned=True), memory("required", None, required=True), said("now"), memory("after", 0.0)]
    assert left([memory("free", 1.0), *kept], 0) == ["free"]


def test_the_step_is_of_what_is_left_once_the_irrelevant_have_gone() -> None:
    history = [said(f"h{i}") for i in range(10)]
    blocks = [memory("low", 0.1), memory("lower", 0.0), *history]
    assert [block.id for block in shifted(blocks, 110, cut_step=0.5).excluded] == ["lower"]
    assert [block.id for block in shifted(blocks, 80, cut_step=0.5).excluded] == ["low", "lower", "h0", "h1", "h2", "h3"]


def test_a_tool_result_from_memory_takes_its_call_along() -> None:
    call = {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}
    result = {"role": "tool", "tool_call_id": "c", "content": "r", "meta": {"kind": "memory", "relevance": 0.1}}
    found = {"role": "system", "content": "m", "meta": {"kind": "memory", "relevance": 0.5}}
    now = {"role": "user", "content": "now"}
    blocks = [block_of(message, i) for i, message in enumerate([found, now, call, result, now])]
    assert recalled_positions(blocks) == [0, 3]
    outcome = shifted(blocks, 30)
    assert [block.id for block in outcome.excluded] == ["m2", "m3"]
    assert outcome.reasons == dict.fromkeys(["m2", "m3"], Reason.LOW_RELEVANCE)


def test_whole_counts_are_few() -> None:
    counts = []

    def count(blocks: Sequence[PromptBlock]) -> int:
        counts.append(len(blocks))
        return tens(blocks)

    blocks = [*(memory(f"b{i}", i / 1000) for i in range(1000)), said("now")]
    result = VectorRecall().shift(blocks, count, 5010, options=ShiftOptions())
    assert [block.id for block in result.kept] == [*(f"b{i}" for i in range(500, 1000)), "now"]
    assert len(counts) <= 13


@given(recalled_chats, st.integers(0, 80), st.sampled_from([0.0, 0.25]))
def test_nothing_protected_leaves_and_no_order_changes(blocks: list[PromptBlock], budget: int, cut_step: float) -> None:
    result = VectorRecall().shift(blocks, counted, budget, options=ShiftOptions(cut_step))
    places = {id(block): i for i, block in enumerate(blocks)}
    assert [places[id(block)] for block in result.kept] == sorted(places[id(block)] for block in result.kept)
    assert {id(block) for block in [*result.kept, *result.excluded]} == places.keys()
    plan = protection(blocks)
    gone = {places[id(block)] for block in result.excluded}
    may_leave = [*plan.removable(), *plan.last_resort()]
    assert gone <= {i for group in may_leave for i in group.indexes}
    assert all(gone.isdisjoint(group.indexes) or gone.issuperset(group.indexes) for group in plan.groups)
    assert result.prompt_tokens == counted(result.kept)


@given(recalled_chats, st.integers(0, 80))
def test_it_fits_whenever_truncate_fits(blocks: list[PromptBlock], budget: int) -> None:
    result = VectorRecall().shift(blocks, counted, budget, options=ShiftOptions())
    assert result.fits == shift_context(blocks, counted, budget).fits


@given(recalled_chats, st.integers(0, 80))
def test_the_last_to_leave_for_low_relevance_was_needed_and_none_that_stayed_is_lower(
    blocks: list[PromptBlock], budget: int
) -> None:
    result = VectorRecall().shift(blocks, counted, budget, options=ShiftOptions())
    low = {block.id for block in blocks if result.reasons.get(block.id) is Reason.LOW_RELEVANCE}
    groups = [group for group in protection(blocks).removable() if any(blocks[i].kind in RECALLED for i in group.indexes)]

    def lowest(indexes: Sequence[int]) -> float:
        return min(weight(blocks[i]) for i in indexes if blocks[i].kind in RECALLED)

    gone = [(lowest(group.indexes), group.first) for group in groups if blocks[group.first].id in low]
    stayed = [(lowest(group.indexes), group.first) for group in groups if blocks[group.first].id not in low]
    assert not gone or not stayed or max(gone) < min(stayed)
    if gone:
        last = next(group for group in groups if group.first == max(gone)[1])
        one_fewer = [block for i, block in enumerate(blocks) if block.id not in low or i in last.indexes]
        assert counted(one_fewer) > budget
    if len(gone) < len(groups):
        assert {block.id for block in result.excluded} == low


@given(conversations, st.integers(0, 80), st.sampled_from([0.0, 0.25]))
def test_without_lore_and_memory_it_is_truncate(messages: list[dict[str, Any]], budget: int, cut_step: float) -> None:
    blocks = [replace(block_of(message, i), kind=BlockKind.HISTORY) for i, message in enumerate(messages)]
    assert VectorRecall().shift(blocks, counted, budget, options=ShiftOptions(cut_step)) == shift_context(
        blocks, counted, budget, cut_step
    )
