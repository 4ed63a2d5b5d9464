"""What a strategy left is counted as it is sent: edited and added blocks too, and what was added leaves first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from gateway.chat import ChatMessage
from gateway.counting import spread
from gateway.fitting import Counted, Fitted, Sent, counter_of, taken_up
from gateway.shaping import CONTINUED, shaped
from gateway.shifting import BlockKind, PromptBlock, Reason, ShiftResult
from tests.support.rooms import run
from tests.support.small_chats import chat_message, words
from tokenizer_profiles.base import PromptCount, TokenCount

SUMMARY = PromptBlock(
    "summary", "system", "a b c", BlockKind.SUMMARY, source="summary", message={"role": "system", "content": "a b c"}
)


def prompt_of(messages: Sequence[ChatMessage]) -> PromptCount:
    """A word is a token, and the prompt has one more."""
    counts = tuple(TokenCount(len(message.text.split())) for message in messages)
    return PromptCount(counts, TokenCount(0), TokenCount(0), TokenCount(1))


def counted(messages: Sequence[ChatMessage], *, additive: bool = True) -> Counted:
    return Counted("words", False, additive, prompt_of(messages))


def chat(*texts: str) -> tuple[list[ChatMessage], list[PromptBlock]]:
    messages = [chat_message({"role": "user", "content": text}) for text in texts]
    blocks = [
        PromptBlock(f"m{i}", "user", text, tokens=len(text.split()), message=message.message)
        for i, (text, message) in enumerate(zip(texts, messages, strict=True))
    ]
    return messages, blocks


def fitted(
    result: ShiftResult[PromptBlock], messages: list[ChatMessage], blocks: list[PromptBlock], limit: int, *, additive: bool = True
) -> tuple[Fitted, int]:
    calls = 0

    async def count(some: Sequence[ChatMessage]) -> Counted:
        nonlocal calls
        calls += 1
        return counted(some, additive=additive)

    known = counted(messages, additive=additive)
    return run(taken_up(result, blocks, messages, limit=limit, counted=known, count=count)), calls


def test_the_client_s_own_blocks_need_no_new_count_where_parts_add_up() -> None:
    messages, blocks = chat("one two", "three", "four")
    result = ShiftResult(blocks[1:], blocks[:1], prompt_tokens=3)
    found, calls = fitted(result, messages, blocks, 3)
    assert ([one.message for one in found.kept], found.tokens, calls) == (messages[1:], 3, 0)


def test_where_they_do_not_the_rest_is_counted_and_more_leaves() -> None:
    messages, blocks = chat("one two", "three", "four")
    found, calls = fitted(ShiftResult(blocks, [], prompt_tokens=0), messages, blocks, 3, additive=False)
    assert ([one.at for one in found.kept], found.tokens, calls) == ([1, 2], 3, 1)


def test_a_summary_and_an_edited_block_are_counted_as_they_are_sent() -> None:
    messages, blocks = chat("one two", "long long long", "now")
    short = blocks[1].with_content("long")
    reasons = {"m0": Reason.SUMMARIZED}
    result = ShiftResult([short, SUMMARY, blocks[2]], blocks[:1], [blocks[0], short], 0, reasons=reasons)
    found, _ = fitted(result, messages, blocks, 20)
    assert [(one.at, one.block.tokens) for one in found.kept] == [(1, 1), (None, 3), (2, 1)]
    assert found.kept[0].message.outgoing == b'{"role":"user","content":"long"}'
    assert found.kept[2].message is messages[2]
    assert (found.tokens, found.shortened, found.reasons) == (6, {"m1"}, reasons)


def test_what_was_added_leaves_again_first() -> None:
    messages, blocks = chat("one two", "three", "now")
    result = ShiftResult([blocks[1], SUMMARY, blocks[2]], blocks[:1], blocks[:1], 0, reasons={"m0": Reason.SUMMARIZED})
    found, _ = fitted(result, messages, blocks, 3)
    assert [one.at for one in found.kept] == [1, 2]
    assert [one.block.id for one in found.withdrawn] == ["summary"]
    assert found.reasons == {"m0": Reason.CONTEXT_SHIFT, "summary": Reason.FINAL_BUDGET}


def test_what_cannot_be_brought_down_ends_over_the_limit() -> None:
    messages, blocks = chat("now it is too long")
    found, _ = fitted(ShiftResult([blocks[0].with_content("still too long")], []), messages, blocks, 1)
    assert (found.tokens, len(found.kept)) == (4, 1)


def test_a_counter_counts_what_a_strategy_wrote_once() -> None:
    asked = []

    def alone(message: object) -> int:
        asked.append(message)
        return 7

    _, blocks = chat("one two")
    count = counter_of(counted([]), [], "as-is", alone)
    assert (count(blocks), count([*blocks, SUMMARY]), count([SUMMARY])) == (3, 10, 8)
    assert asked == [SUMMARY.message]


SPOKEN = [("system", "s"), ("user", "a b"), ("user", "c"), ("assistant", "d e f"), ("system", "g"), ("user", "h")]


def spoken() -> tuple[list[ChatMessage], list[PromptBlock]]:
    messages = [chat_message({"role": role, "content": text}) for role, text in SPOKEN]
    blocks = [
        PromptBlock(f"m{i}", message.role, message.text, tokens=words(message.message), message=message.message)
        for i, message in enumerate(messages)
    ]
    return messages, blocks


def as_sent(messages: Sequence[ChatMessage], shape: Any, *, alone: bool) -> Counted:
    """A count in a shape as the counting port gives it; a message is two tokens and its words, and the prompt one."""
    found = shaped([message.message for message in messages], shape)
    parts = tuple(TokenCount(words(one.message)) for one in found)
    prompt = PromptCount(parts, TokenCount(0), TokenCount(0), TokenCount(1))
    weights = [TokenCount(words(message.message)) for message in messages]
    sources = [one.sources for one in found]
    sent = Sent([chat_message(one.message) for one in found], sources)
    return Counted("words", False, False, spread(prompt, sources, weights), weights if alone else None, sent)


@pytest.mark.parametrize("shape", ["merge", "strict"])
@pytest.mark.parametrize("places", [range(6), [0, 3, 4, 5], [0, 2, 3, 4, 5], [0, 1, 2, 4, 5], [3], []])
def test_a_counter_counts_any_blocks_as_they_would_be_sent(shape: Any, places: Sequence[int]) -> None:
    messages, blocks = spoken()
    count = counter_of(as_sent(messages, shape, alone=True), messages, shape, words)
    left = [messages[at] for at in places]
    assert count([blocks[at] for at in places]) == as_sent(left, shape, alone=True).prompt.total


def test_a_counter_in_a_shape_knows_what_was_joined_already_and_counts_the_rest_once() -> None:
    asked: list[str] = []

    def alone(message: Mapping[str, Any]) -> int:
        asked.append(message["content"])
        return words(message)

    messages, blocks = spoken()
    count = counter_of(as_sent(messages, "strict", alone=True), messages, "strict", alone)
    assert count(blocks) == count(blocks) == 18
    assert asked == []
    left = [*blocks[2:4], blocks[5], PromptBlock.new("user", "more")]
    assert count(left) == count(left) == 1 + 3 + 5 + 4
    assert asked == ["more", "h\n\nmore"]


def test_where_only_shares_are_known_a_counter_adds_them_up_and_what_would_stand_before_an_assistant() -> None:
    messages, blocks = spoken()
    known = as_sent(messages, "strict", alone=False)
    shares = [replace(block, tokens=count.tokens) for block, count in zip(blocks, known.weights, strict=True)]
    count = counter_of(known, messages, "strict", words)
    assert count(shares) == known.prompt.total
    assert count(shares[3:]) == 1 + words(CONTINUED) + sum(count.tokens for count in known.weights[3:])


def test_a_prompt_that_is_only_joined_is_taken_as_it_was_counted() -> None:
    messages, blocks = spoken()
    known = as_sent(messages, "strict", alone=True)

    async def count(some: Sequence[ChatMessage]) -> Counted:
        raise AssertionError("it was counted already")

    found = run(taken_up(ShiftResult(blocks, []), blocks, messages, limit=100, counted=known, count=count))
    assert (found.sent, found.tokens) == (known.sent, known.prompt.total)
    assert [one.counted for one in found.kept] == list(known.prompt.messages)
