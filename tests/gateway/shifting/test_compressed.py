"""Which messages are shortened, how the others stay, and what is told of it."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.shifting import PromptBlock, Reason, ShiftResult
from gateway.shifting.blocks import block_of
from gateway.shifting.compressed import CompressedPrompt, long_ones_shortened, newest_results_shortened, weight


def words(items: list[PromptBlock]) -> int:
    return sum(len(block.content.split()) for block in items)


def blocks_of(*messages: dict[str, Any]) -> list[PromptBlock]:
    return [block_of(message, i) for i, message in enumerate(messages)]


def user(size: int) -> dict[str, Any]:
    return {"role": "user", "content": "w " * size}


def called(name: str, size: int) -> list[dict[str, Any]]:
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": name, "function": {"name": "f", "arguments": "{}"}}]}
    return [call, {"role": "tool", "tool_call_id": name, "content": "w " * size}]


def test_the_weight_is_what_is_known_else_a_count() -> None:
    assert weight(PromptBlock("a", "user", "one two", tokens=9), words) == 9
    assert weight(PromptBlock("a", "user", "one two"), words) == 2


def test_of_many_long_ones_only_those_are_shortened_that_could_stay() -> None:
    blocks = blocks_of(*[user(500)] * 9, user(1))
    prompt = long_ones_shortened(blocks, words(blocks), words, 400)
    assert [i for i, block in enumerate(prompt.blocks) if block is not blocks[i]] == [5, 6, 7, 8]
    assert prompt.tokens == words(list(prompt.blocks))
    assert all(prompt.original(new) is old for new, old in zip(prompt.blocks, blocks, strict=True))


@pytest.mark.parametrize("budget", [-1, 0, 1, 127])
def test_where_a_quarter_is_hardly_anything_nothing_is_shortened(budget: int) -> None:
    blocks = blocks_of(user(500), user(1))
    assert long_ones_shortened(blocks, 501, words, budget).blocks is blocks


def test_a_message_of_just_a_quarter_is_not_long() -> None:
    blocks = blocks_of(user(100), user(110), user(300))
    assert [block is old for block, old in zip(long_ones_shortened(blocks, 510, words, 400).blocks, blocks, strict=True)] == [
        True,
        False,
        True,
    ]


def test_results_of_one_group_are_cut_to_one_length() -> None:
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "a"}, {"id": "b"}, {"id": "c"}]}
    results = [
        {"role": "tool", "tool_call_id": name, "content": "w " * size} for name, size in zip("abc", (10, 300, 500), strict=True)
    ]
    blocks = blocks_of(user(1), call, *results)
    prompt, cut = newest_results_shortened(CompressedPrompt(blocks, 811), ShiftResult(blocks, [], (), 811, False), words, 211)
    assert cut.fits
    assert cut.prompt_tokens == words(list(cut.kept)) <= 211
    assert [words([block]) for block in cut.kept[1:3]] == [0, 10]
    assert all(90 <= words([block]) <= 100 for block in cut.kept[3:])
    assert [block.id for block in prompt.result(cut).truncated] == ["m3", "m4"]


def test_without_a_user_message_the_newest_group_is_the_current_turn() -> None:
    blocks = blocks_of(*called("a", 300))
    _, cut = newest_results_shortened(CompressedPrompt(blocks, 300), ShiftResult(blocks, [], (), 300, False), words, 100)
    assert cut.fits


def test_results_before_the_current_turn_are_not_touched() -> None:
    blocks = blocks_of(*called("a", 300), user(100))
    before = ShiftResult(blocks, [], (), 400, False)
    assert newest_results_shortened(CompressedPrompt(blocks, 400), before, words, 50)[1] is before


def test_what_was_summed_up_or_shortened_is_told_and_what_left_is_as_it_came() -> None:
    blocks = blocks_of(user(500), user(500), user(1), user(1), user(1))
    prompt = long_ones_shortened(blocks, 1003, words, 400)
    result = ShiftResult(list(prompt.blocks[1:3]), [prompt.blocks[0], *prompt.blocks[3:]], (), 0, True, {"m3": Reason.SUMMARIZED})
    told = prompt.result(result)
    assert told.excluded[0] is blocks[0]
    assert [block.id for block in told.truncated] == ["m1", "m3"]
    assert told.truncated[0] is prompt.blocks[1]
