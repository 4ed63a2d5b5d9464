"""The promises of the contract about what leaves, on examples and on random conversations."""

from __future__ import annotations

import copy
import math
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.shifting import PromptBlock, shift_context
from gateway.shifting.blocks import block_of
from gateway.shifting.groups import BlockGroup, message_groups
from gateway.shifting.links import tool_links
from gateway.shifting.shift import _first_true, current_turn, protection

sys.path.insert(0, str(Path(__file__).parent))
from conversations import conversations, words


def chat(*texts: str) -> list[dict[str, Any]]:
    """A system message, then user and assistant in turn."""
    roles = ["system", *(["user", "assistant"] * len(texts))]
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]


def bare(items: list[Any]) -> int:
    """Words and nothing else."""
    return sum(len(str(item.get("content") or "").split()) for item in items)


def positions(messages: list[Any], part: Any) -> list[int]:
    """Where the items of a part stand in the input, by identity."""
    return [next(i for i, message in enumerate(messages) if message is item) for item in part]


def test_what_fits_is_kept_whole() -> None:
    messages = chat("s", "one two", "three", "four")
    result = shift_context(messages, bare, 5)
    assert result.kept == messages
    assert result.excluded == []
    assert (result.prompt_tokens, result.fits) == (5, True)


def test_the_oldest_leaves_first_and_system_and_current_turn_stay() -> None:
    messages = chat("s", "one two", "three", "four")
    assert positions(messages, shift_context(messages, bare, 4).kept) == [0, 2, 3]
    assert positions(messages, shift_context(messages, bare, 2).kept) == [0, 3]


def test_what_cannot_fit_ends_and_says_so() -> None:
    messages = chat("s s", "one", "two", "three")
    for budget in (2, 0, -5):
        result = shift_context(messages, bare, budget)
        assert not result.fits
        assert positions(messages, result.kept) == [0, 3]
        assert result.prompt_tokens == 3


def test_a_cut_frees_a_whole_number_of_steps() -> None:
    messages = chat("s", *["w w w w w w w w w w"] * 19)  # 191 tokens
    result = shift_context(messages, bare, 160, cut_step=0.25)  # 31 over, steps of 40: 40 are freed
    assert result.prompt_tokens == 151
    assert shift_context(messages, bare, 160).prompt_tokens == 151
    assert shift_context(messages, bare, 160, cut_step=0.5).prompt_tokens == 111


def test_a_growing_chat_keeps_its_start_for_many_turns() -> None:
    messages = chat("s", *["w w w w w w w w w w"] * 99)
    starts = {
        positions(messages[:size], shift_context(messages[:size], bare, 160, cut_step=0.5).kept)[1] for size in range(40, 56, 2)
    }
    assert len(starts) <= 3


def test_tool_groups_of_the_current_turn_leave_last_and_never_the_newest() -> None:
    def step(name: str) -> list[dict[str, Any]]:
        return [
            {"role": "assistant", "content": None, "tool_calls": [{"id": name, "function": {"name": "f", "arguments": "{}"}}]},
            {"role": "tool", "tool_call_id": name, "content": "r r r r"},
        ]

    messages = [{"role": "user", "content": "old"}, {"role": "user", "content": "go"}, *step("a"), *step("b"), *step("c")]
    assert positions(messages, shift_context(messages, bare, 9).kept) == [1, 4, 5, 6, 7]
    result = shift_context(messages, bare, 1)
    assert positions(messages, result.kept) == [1, 6, 7]
    assert not result.fits


def test_a_pinned_group_of_the_current_turn_stays() -> None:
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "a"}], "meta": {"pinned": True}}
    result = {"role": "tool", "tool_call_id": "a", "content": "r r"}
    newer = [
        {"role": "assistant", "content": "", "tool_calls": [{"id": "b"}]},
        {"role": "tool", "tool_call_id": "b", "content": "r"},
    ]
    messages = [{"role": "user", "content": "go"}, call, result, *newer]
    assert positions(messages, shift_context(messages, bare, 1).kept) == [0, 1, 2, 3, 4]


def test_without_a_user_message_the_newest_group_is_the_current_turn() -> None:
    messages = [{"role": "assistant", "content": "a a"}, {"role": "assistant", "content": "b b"}]
    assert positions(messages, shift_context(messages, bare, 2).kept) == [1]


def test_a_user_message_of_tool_results_alone_starts_no_turn() -> None:
    results = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": "x"}]}
    messages = [{"role": "user", "content": "ask"}, {"role": "assistant", "content": [{"type": "tool_use", "id": "t"}]}, results]
    assert current_turn([block_of(message, i) for i, message in enumerate(messages)]) == 0


def test_blocks_with_known_tokens_are_not_weighed_again() -> None:
    asked: list[int] = []
    blocks = [PromptBlock(str(i), "user", "x", tokens=10) for i in range(100)]

    def count(items: list[PromptBlock]) -> int:
        asked.append(len(items))
        return 10 * len(items)

    assert len(shift_context(blocks, count, 500).kept) == 50
    assert asked == [100, 50]


def test_weights_that_are_too_high_cost_few_recounts() -> None:
    asked: list[int] = []

    def count(items: list[Any]) -> int:
        asked.append(len(items))
        return 1000 + len(items)

    messages = [{"role": "user", "content": str(i)} for i in range(2000)]
    assert len(shift_context(messages, count, 2000).kept) == 1000
    assert sum(asked) < 40 * len(messages)


@settings(max_examples=300, deadline=None)
@given(conversations, st.integers(-5, 120), st.sampled_from([0.0, 0.125, 0.5, 1.0]))
def test_random_conversations_keep_every_promise(messages: list[dict[str, Any]], budget: int, cut_step: float) -> None:
    before = copy.deepcopy(messages)
    result = shift_context(messages, words, budget, cut_step)
    kept, excluded = positions(messages, result.kept), positions(messages, result.excluded)

    assert messages == before
    assert sorted(kept + excluded) == list(range(len(messages)))
    assert kept == sorted(kept)
    assert excluded == sorted(excluded)
    assert result.prompt_tokens == words([messages[i] for i in kept])
    assert result.fits == (result.prompt_tokens <= budget)
    if words(messages) <= budget:
        assert not excluded

    blocks = [block_of(message, i) for i, message in enumerate(messages)]
    plan = protection(blocks)
    last_resort = {i for group in plan.last_resort() for i in group.indexes}
    for group, protected in zip(plan.groups, plan.protected, strict=True):
        assert len({i in kept for i in group.indexes}) == 1
        if protected and not last_resort.issuperset(group.indexes):
            assert set(group.indexes) <= set(kept)
    if not result.fits:
        assert (
            set(kept)
            == {i for group, protected in zip(plan.groups, plan.protected, strict=True) if protected for i in group.indexes}
            - last_resort
        )
    assert shift_context(messages, words, budget, cut_step) == result


@settings(max_examples=300, deadline=None)
@given(conversations, st.integers(-5, 120), st.sampled_from([0.0, 0.125, 0.5]))
def test_the_result_is_that_of_the_plain_rule(messages: list[dict[str, Any]], budget: int, cut_step: float) -> None:
    assert positions(messages, shift_context(messages, words, budget, cut_step).kept) == _plain_rule(messages, budget, cut_step)


def _plain_rule(messages: list[dict[str, Any]], budget: int, cut_step: float) -> list[int]:
    """Section 5 of the contract, word by word, with a recount after each removal."""
    blocks = [block_of(message, i) for i, message in enumerate(messages)]
    plan = protection(blocks)
    kept = set(range(len(messages)))

    def count() -> int:
        return words([messages[i] for i in sorted(kept)])

    def one_by_one(groups: list[BlockGroup]) -> None:
        for group in groups:
            if count() <= budget:
                return
            kept.difference_update(group.indexes)

    excess = count() - budget
    if excess > 0:
        step = max(1, math.floor(cut_step * budget))
        wanted, freed, waiting = math.ceil(excess / step) * step, 0, plan.removable()
        while freed < wanted and waiting:
            group = waiting.pop(0)
            freed += words([messages[i] for i in group.indexes])
            kept.difference_update(group.indexes)
        one_by_one(waiting)
        one_by_one(plan.last_resort())
    return sorted(kept)


@settings(max_examples=200, deadline=None)
@given(conversations)
def test_a_kept_result_always_follows_its_kept_call(messages: list[dict[str, Any]]) -> None:
    linked = {i for i, message in enumerate(messages) if tool_links(message)}
    whole = {i for group in message_groups([tool_links(m) for m in messages]) if len(group.indexes) > 1 for i in group.indexes}
    assert whole <= linked
    for budget in (5, 20, 60):
        kept = set(positions(messages, shift_context(messages, words, budget).kept))
        for group in message_groups([tool_links(m) for m in messages]):
            assert set(group.indexes) <= kept or not set(group.indexes) & kept


@pytest.mark.parametrize("size", [100, 1000, 10_000])
def test_the_number_of_counts_does_not_grow_with_the_chat(size: int) -> None:
    asked: list[int] = []
    blocks = [PromptBlock(str(i), "user" if i % 2 else "assistant", "x", tokens=8) for i in range(size)]

    def count(items: list[PromptBlock]) -> int:
        asked.append(1)
        return 3 + 8 * len(items)

    assert shift_context(blocks, count, 4 * size, 0.125).fits
    assert len(asked) <= 3


@pytest.mark.parametrize("most", range(1, 13))
def test_the_search_for_the_fewest_finds_them_from_every_start(most: int) -> None:
    for likely in range(1, most + 1):
        for threshold in range(1, most + 2):
            asked: list[int] = []

            def holds(number: int, threshold: int = threshold, asked: list[int] = asked) -> bool:
                asked.append(number)
                return number >= threshold

            assert _first_true(most, likely, holds) == min(threshold, most)
            assert all(1 <= number <= most for number in asked)


def test_weights_with_a_primer_each_cost_few_recounts() -> None:
    asked: list[int] = []
    messages = [{"role": "user", "content": "x"} for _ in range(1000)]

    def count(items: list[Any]) -> int:
        asked.append(len(items))
        return 3 + 80 * len(items)

    assert len(shift_context(messages, count, 3 + 80 * 500).kept) == 500
    assert sum(size > 1 for size in asked) <= 5
