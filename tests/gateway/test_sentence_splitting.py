"""Sentences by the library, and what happens to text it was not made for."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.sentence_splitting import LONGEST_LINE, split_sentences
from gateway.shifting import PromptBlock, ShiftOptions
from gateway.shifting.strategies.summarize import Summarize


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("Mr. Jones paid $3.50 to Mrs. Brown. He left at 5 p.m. yesterday.", 2),
        ("One line\nanother. And more\n\n", 3),
        ("Живу на ул. Мира, д. 5. Потом уехал.", 2),
        ("我住在北京。他来了！真的吗？是的", 4),
        ("नमस्ते। फिर मिलेंगे।", 2),
        ("", 0),
    ],
)
def test_sentences(text: str, sentences: int) -> None:
    found = split_sentences(text)
    assert len(found) == sentences
    assert all(sentence == sentence.strip() != "" for sentence in found)


def test_a_character_stays_whole() -> None:
    assert split_sentences("好。\ufe0f再见") == ["好。\ufe0f再见"]


def test_a_lone_surrogate_is_text_too() -> None:
    assert split_sentences("a\ud800b. Next") == ["a\ud800b.", "Next"]


def test_a_defect_of_the_library_costs_only_its_knowledge(monkeypatch: pytest.MonkeyPatch) -> None:
    def segment(language: str, text: str) -> list[str]:
        raise raised

    monkeypatch.setattr("sentencex.segment", segment)
    raised: BaseException = type("PanicException", (BaseException,), {})()
    assert split_sentences("One. Two") == ["One.", "Two"]
    raised = KeyboardInterrupt()
    with pytest.raises(KeyboardInterrupt):
        split_sentences("One. Two")


@pytest.mark.parametrize("piece", ["« ", '"', "(", ". ", "e.g. ", "。", "a@b.c "])
def test_hostile_lines_end_in_time(piece: str) -> None:
    start = time.perf_counter()
    split_sentences(piece * (LONGEST_LINE // len(piece)))
    split_sentences(piece * 50_000)
    assert time.perf_counter() - start < 5


@given(st.text(st.sampled_from([*'ab1. !?。\n"«\u0301\u200d\x00', "\U0001f469", "ж", "\ud800"])))
def test_nothing_but_space_is_lost_and_order_stays(text: str) -> None:
    assert "".join("".join(sentence.split()) for sentence in split_sentences(text)) == "".join(text.split())


def test_the_strategy_takes_it() -> None:
    blocks = [PromptBlock(f"m{i}", "user", f"Dr. No. {i} has key {i * 37}. We met Mr. Bond.", tokens=12) for i in range(40)]

    def count(items: list[PromptBlock]) -> int:
        return sum(1 + len(block.content.split()) if block.tokens is None else block.tokens for block in items)

    result = Summarize(split_sentences).shift(blocks, count, 200, options=ShiftOptions(0.0, 60))
    summary = next(block for block in result.kept if block.id == "summary")
    assert "We met Mr. Bond." in summary.content
