"""What a strategy left is counted as it is sent: edited and added blocks too, and what was added leaves first."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.chat import ChatMessage
from gateway.fitting import Fitted, counter_of, taken_up
from gateway.shifting import BlockKind, PromptBlock, Reason, ShiftResult
from tests.support.rooms import run
from tests.support.small_chats import chat_message
from tokenizer_profiles.base import PromptCount, TokenCount

SUMMARY = PromptBlock(
    "summary", "system", "a b c", BlockKind.SUMMARY, source="summary", message={"role": "system", "content": "a b c"}
)


def prompt_of(messages: Sequence[ChatMessage]) -> PromptCount:
    """A word is a token, and the prompt has one more."""
    counts = tuple(TokenCount(len(message.text.split())) for message in messages)
    return PromptCount(counts, TokenCount(0), TokenCount(0), TokenCount(1))


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

    async def count(some: Sequence[ChatMessage]) -> PromptCount:
        nonlocal calls
        calls += 1
        return prompt_of(some)

    known = prompt_of(messages) if additive else None
    return run(taken_up(result, blocks, messages, limit=limit, additive=known, count=count)), calls


def test_the_client_s_own_blocks_need_no_new_count_where_parts_add_up() -> None:
    messages, blocks = chat("one two", "three", "four")
    result = ShiftResult(blocks[1:], blocks[:1], prompt_tokens=3)
    found, calls = fitted(result, messages, blocks, 3)
    assert ([one.message for one in found.kept], found.tokens, calls) == (messages[1:], 3, 0)


def test_where_they_do_not_the_rest_is_counted_and_more_leaves() -> None:
    messages, blocks = chat("one two", "three", "four")
    found, calls = fitted(ShiftResult(blocks, [], prompt_tokens=0), messages, blocks, 3, additive=False)
    assert ([one.at for one in found.kept], found.tokens, calls) == ([1, 2], 3, 2)


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
    count = counter_of(prompt_of([]), alone)
    assert (count(blocks), count([*blocks, SUMMARY]), count([SUMMARY])) == (3, 10, 8)
    assert asked == [SUMMARY.message]
