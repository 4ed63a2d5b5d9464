"""Rows in real order: what was added where it is sent, what was edited at its place, the client's indexes beside them."""

from __future__ import annotations

from typing import Any

from gateway.assembly import assembled
from gateway.chat import NO_MARKS, ContextOptions, MemoryEntry
from gateway.fitting import Fitted, Kept, Sent
from gateway.ledger import Ledger, ledger_of
from gateway.shifting import PromptBlock, Reason
from gateway.shifting.blocks import block_of
from tests.gateway.test_fitting import SUMMARY, prompt_of
from tests.support.small_chats import chat_message, chat_request
from tokenizer_profiles.base import TokenCount

TEXTS = ("one two", "three four five", "now")


def told(ledger: Ledger) -> list[tuple[Any, ...]]:
    return [(row.order, row.id, row.position, row.included, row.reason, row.tokens) for row in ledger.blocks]


MESSAGES = [chat_message({"role": "user", "content": text}) for text in TEXTS]
BLOCKS = [
    PromptBlock(f"m{i}", "user", text, tokens=len(text.split()), message=message.message)
    for i, (text, message) in enumerate(zip(TEXTS, MESSAGES, strict=True))
]


def test_a_summary_stands_where_it_is_sent_and_an_edited_block_at_its_place() -> None:
    request = chat_request(MESSAGES)
    prompt = assembled(request, [NO_MARKS] * 3)
    short = chat_message({"role": "user", "content": "three"})
    summary = chat_message(dict(SUMMARY.message))
    kept = [
        Kept(PromptBlock("m1", "user", "three", tokens=1), short, 1),
        Kept(PromptBlock("summary", "system", "a b c", SUMMARY.kind, "summary", tokens=3), summary, None),
        Kept(BLOCKS[2], MESSAGES[2], 2),
    ]
    reasons = {"m0": Reason.SUMMARIZED}
    fitted = Fitted(kept, prompt_of([short, summary, MESSAGES[2]]), 6, reasons, shortened=frozenset({"m1"}))
    made = ledger_of(prompt, BLOCKS, prompt_of(MESSAGES).messages, fitted)
    assert told(made) == [
        (0, "template", None, True, "protected-request", 1),
        (1, "m0", 0, False, "summarized", 2),
        (2, "m1", 1, True, "shortened", 1),
        (3, "summary", None, True, "summary", 3),
        (4, "m2", 2, True, "current-turn", 1),
    ]
    assert made.blocks[2].truncated_to == 1
    assert [made.messages[at] for at in made.kept] == [short, summary, MESSAGES[2]]
    assert made.messages[0] is MESSAGES[0]
    assert request.messages == MESSAGES


def test_a_withdrawn_block_is_told_at_the_end() -> None:
    prompt = assembled(chat_request(MESSAGES), [NO_MARKS] * 3)
    summary = Kept(SUMMARY, chat_message(dict(SUMMARY.message)), None)
    kept = [Kept(BLOCKS[1], MESSAGES[1], 1), Kept(BLOCKS[2], MESSAGES[2], 2)]
    reasons = {"summary": Reason.FINAL_BUDGET}
    made = ledger_of(prompt, BLOCKS, prompt_of(MESSAGES).messages, Fitted(kept, prompt_of(MESSAGES[1:]), 5, reasons, [summary]))
    assert told(made)[-1] == (4, "summary", None, False, "final-budget", 0)
    assert list(made.kept) == [1, 2]


def test_an_added_block_behind_everything() -> None:
    prompt = assembled(chat_request(MESSAGES), [NO_MARKS] * 3)
    note = Kept(PromptBlock.new("user", "note"), chat_message({"role": "user", "content": "note"}), None)
    kept = [*(Kept(block, message, at) for at, (block, message) in enumerate(zip(BLOCKS, MESSAGES, strict=True))), note]
    made = ledger_of(prompt, BLOCKS, prompt_of(MESSAGES).messages, Fitted(kept, prompt_of(MESSAGES), 5))
    assert (made.blocks[-1].source, made.blocks[-1].reason) == ("plug-in", "fits")
    assert [made.messages[at] for at in made.kept] == [*MESSAGES, note.message]


def test_memory_has_no_index() -> None:
    request = chat_request(MESSAGES, options=ContextOptions(memory=(MemoryEntry("remember"),)))
    prompt = assembled(request, [NO_MARKS] * 3)
    blocks = [block_of(message.message, at) for at, message in enumerate(prompt.messages)]
    made = ledger_of(
        prompt, blocks, prompt_of(prompt.messages).messages, Fitted((), prompt_of(prompt.messages), 0, untouched=True)
    )
    assert [row.position for row in made.blocks] == [None, 0, 1, None, 2]
    assert list(made.kept) == [0, 1, 2, 3]


def test_what_a_shape_made_stands_behind_the_others_and_goes_out_in_their_place() -> None:
    prompt = assembled(chat_request(MESSAGES), [NO_MARKS] * 3)
    joined = chat_message({"role": "user", "content": "three four five\n\nnow"})
    shares = [TokenCount(2, approximate=True), TokenCount(1, approximate=True)]
    kept = [Kept(BLOCKS[at], MESSAGES[at], at, share) for at, share in zip((1, 2), shares, strict=True)]
    fitted = Fitted(kept, prompt_of(MESSAGES[1:]), 4, sent=Sent([joined], [(0, 1)]))
    made = ledger_of(prompt, BLOCKS, prompt_of(MESSAGES).messages, fitted)
    assert [(row.message, row.approximate) for row in made.blocks[1:]] == [(0, False), (1, True), (2, True)]
    assert (list(made.kept), made.messages[3]) == ([3], joined)


def test_a_moved_message_is_sent_from_where_it_stands() -> None:
    prompt = assembled(chat_request(MESSAGES), [NO_MARKS] * 3)
    kept = [Kept(block, message, at) for at, (block, message) in enumerate(zip(BLOCKS, MESSAGES, strict=True))]
    fitted = Fitted(kept, prompt_of(MESSAGES), 7, sent=Sent([MESSAGES[1], MESSAGES[0], MESSAGES[2]], [(1,), (0,), (2,)]))
    made = ledger_of(prompt, BLOCKS, prompt_of(MESSAGES).messages, fitted)
    assert (list(made.kept), made.messages) == ([1, 0, 2], MESSAGES)
