"""Copies keep the gateway's own blocks out of reach, and tell what was really changed."""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any

import pytest

from gateway.plugins.copies import MOST_ADDED, Copies
from gateway.shifting import BlockKind, PromptBlock, Reason, ShiftResult
from gateway.shifting.guard import Refused
from tests.gateway.plugins.prompts import blocks_of, chat, counted


def on_time() -> None:
    """Nobody was abandoned."""


def refused(copies: Copies, returned: object) -> str:
    with pytest.raises(Refused) as found:
        copies.taken_back(returned)
    return found.value.interference.code


def test_what_is_done_to_a_copy_leaves_the_original_alone() -> None:
    (block,) = originals = blocks_of([{"role": "user", "content": [{"type": "text", "text": "hi"}]}])
    before = copy.deepcopy(block.message)
    copies = Copies(originals)
    message: Any = copies.blocks[0].message
    message["content"][0]["text"] = "evil"
    object.__setattr__(copies.blocks[0], "content", "evil")
    assert block.message == before
    (back,) = copies.taken_back(copies.blocks)
    assert (back.content, back.message) == ("evil", {"role": "user", "content": [{"type": "text", "text": "evil"}]})


def test_what_is_unchanged_is_the_original_again_even_from_a_deep_copy() -> None:
    blocks = chat()
    copies = Copies(blocks)
    back = copies.taken_back(copy.deepcopy(copies.blocks))
    assert all(one is other for one, other in zip(back, blocks, strict=True))


def test_a_copy_says_whether_its_original_is_protected() -> None:
    assert [block.protected for block in Copies(chat()).blocks] == [True, False, False, True]


def test_the_text_wins_over_a_message_that_was_left_as_it_was() -> None:
    blocks = [replace(block, tokens=5) for block in chat()]
    copies = Copies(blocks)
    texts = [
        copies.blocks[1].with_content("one"),
        replace(copies.blocks[2], content="two"),
        replace(copies.blocks[3], role="system"),
    ]
    back = copies.taken_back(texts)
    assert [block.message for block in back] == [
        {"role": "user", "content": "one"},
        {"role": "assistant", "content": "two"},
        {"role": "system", "content": "now"},
    ]
    assert [(block.id, block.role, block.tokens) for block in back] == [
        ("m1", "user", None),
        ("m2", "assistant", None),
        ("m3", "system", None),
    ]


def test_marks_of_a_copy_do_not_come_back() -> None:
    copies = Copies(chat())
    (back,) = copies.taken_back([replace(copies.blocks[1], content="x", pinned=True, kind=BlockKind.SYSTEM, tokens=0)])
    assert (back.pinned, back.kind, back.tokens) == (False, BlockKind.HISTORY, None)


def test_a_new_block_keeps_its_text_and_kind() -> None:
    copies = Copies(chat())
    new = PromptBlock.new("system", "note", kind="memory")
    odd = PromptBlock("", "user", "said", "odd", message={"role": "x", "content": "other"})  # type: ignore[arg-type]
    back = copies.taken_back([new, odd])
    assert [(block.id, block.kind, block.message) for block in back] == [
        ("", BlockKind.MEMORY, {"role": "system", "content": "note"}),
        ("", BlockKind.OTHER, {"role": "user", "content": "said"}),
    ]


def test_blocks_of_another_request_are_foreign() -> None:
    old, now = Copies(chat()), Copies(chat())
    assert refused(now, old.blocks) == "foreign-blocks"
    assert refused(now, [replace(old.blocks[1], id="new")]) == "foreign-blocks"
    assert refused(now, [PromptBlock("m1", "user", "by name")]) == "foreign-blocks"


@pytest.mark.parametrize("nonsense", [None, "m0", iter(()), [None], [{"role": "user"}], [PromptBlock("", "user", 7)]])  # type: ignore[arg-type]
def test_what_is_no_list_of_blocks_is_refused(nonsense: object) -> None:
    assert refused(Copies(chat()), nonsense) == "no-blocks"


def test_a_flood_is_refused() -> None:
    assert refused(Copies([]), [PromptBlock.new("user", "x")] * (MOST_ADDED + 1)) == "too-many-blocks"


def nested() -> list[Any]:
    found: list[Any] = []
    for _ in range(100_000):
        found = [found]
    return found


@pytest.mark.parametrize("content", [object(), float("nan"), "half \ud800", nested(), {1, 2}])
def test_what_can_not_be_sent_is_refused(content: object) -> None:
    copies = Copies(chat())
    message = {"role": "user", "content": content}
    assert refused(copies, [replace(copies.blocks[1], message=message)]) == "no-json"
    assert refused(copies, [PromptBlock("", "user", "x", message=message)]) == "no-json"


def test_the_counter_believes_no_numbers() -> None:
    blocks = [replace(block, tokens=7) for block in chat()]
    seen: list[list[int | None]] = []

    def count(items: Any) -> int:
        seen.append([block.tokens for block in items])
        return counted(items)

    copies = Copies(blocks)
    counter = copies.counter(count, on_time)
    object.__setattr__(copies.blocks[0], "tokens", 0)
    assert counter([copies.blocks[0], replace(copies.blocks[1], tokens=0)]) == counted(blocks[:2])
    assert seen == [[7, None]]


def test_a_result_comes_back_in_terms_of_the_originals() -> None:
    blocks = chat()
    copies = Copies(blocks)
    names = [PromptBlock("m1", "user", "x"), PromptBlock("m9", "user", "x"), "odd"]
    result = copies.result(ShiftResult(copies.blocks[2:], names, None, reasons={"m1": Reason.MANUAL}))  # type: ignore[arg-type]
    assert (result.kept, result.excluded, result.truncated) == (blocks[2:], [blocks[1]], [])
    assert result.reasons == {"m1": Reason.MANUAL}
    assert copies.result(ShiftResult([], [], reasons=None)).reasons == {}  # type: ignore[arg-type]
    with pytest.raises(Refused, match="NoneType instead of a ShiftResult"):
        copies.result(None)
