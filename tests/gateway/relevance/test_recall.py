"""Who gets a relevance, and what it is measured against."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.relevance.base import RelevanceScorer, Scores, remark
from gateway.relevance.recall import INPUT_CHARACTERS, SAID_CHARACTERS, recall_query, with_relevance
from gateway.shifting import BlockKind, PromptBlock
from gateway.shifting.blocks import block_of


class Scorer(RelevanceScorer):
    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []

    async def scores(self, query: str, texts: Sequence[str]) -> Scores:
        self.asked.append((query, list(texts)))
        return Scores([0.1 * (number + 1) for number in range(len(texts))], (remark("told", "words"),))


def chat(*messages: tuple[str, str] | tuple[str, str, dict[str, Any]]) -> list[PromptBlock]:
    return [
        block_of({"role": role, "content": content, "meta": more[0] if more else None}, i)
        for i, (role, content, *more) in enumerate(messages)
    ]


BLOCKS = chat(
    ("system", "rules"),
    ("system", "lore", {"kind": "lorebook"}),
    ("system", "given", {"kind": "memory", "relevance": 0.0}),
    ("user", "hello"),
    ("system", "pinned", {"kind": "memory", "pinned": True}),
    ("system", "memory", {"kind": "memory"}),
    ("user", "now"),
    ("system", "late", {"kind": "memory"}),
)


def test_free_lore_and_memory_without_a_relevance_get_one_and_nothing_else_does() -> None:
    scorer = Scorer()
    out, remarks = asyncio.run(with_relevance(BLOCKS, scorer))
    assert scorer.asked == [("hello\nnow", ["lore", "memory"])]
    assert [block.relevance for block in out] == [None, 0.1, 0.0, None, None, 0.2, None, None]
    assert [told.code for told in remarks] == ["told"]
    assert [a is b for a, b in zip(out, BLOCKS, strict=True)] == [True, False, True, True, True, False, True, True]
    assert out[1].message is BLOCKS[1].message


@pytest.mark.parametrize("blocks", [[], BLOCKS[2:5], chat(("user", "hi"))])
def test_the_scorer_is_not_asked_for_nothing(blocks: list[PromptBlock]) -> None:
    scorer = Scorer()
    assert asyncio.run(with_relevance(blocks, scorer)) == (blocks, ())
    assert scorer.asked == []


def test_the_query_is_the_input_after_what_was_last_said() -> None:
    blocks = chat(
        ("system", "rules"),
        ("user", "one"),
        ("assistant", "two"),
        ("user", "three"),
        ("system", "lore", {"kind": "lorebook"}),
        ("assistant", "four"),
        ("tool", "result"),
        ("user", "input"),
    )
    assert recall_query(blocks) == "two\nthree\nfour\ninput"


def test_the_input_counts_however_much_was_said_since() -> None:
    said = [("assistant", f"step {number}") for number in range(9)]
    assert recall_query(chat(("user", "input"), *said)) == "step 6\nstep 7\nstep 8\ninput"


def test_the_query_is_bounded_and_keeps_the_ends() -> None:
    query = recall_query(chat(("assistant", "a" * 9000 + "b"), ("user", "c" * 9000 + "d")))
    assert len(query) == INPUT_CHARACTERS + SAID_CHARACTERS + 1
    assert query.endswith("cd")
    assert "ab\nc" in query


def test_without_a_user_message_what_was_said_is_the_query() -> None:
    assert recall_query(chat(("assistant", "hello"))) == "hello"
    assert recall_query([]) == ""
    assert recall_query([PromptBlock("m0", "user", "", kind=BlockKind.HISTORY)]) == ""
