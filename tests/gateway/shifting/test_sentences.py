"""Whole sentences of a text, in several scripts."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.shifting.sentences import sentences_of


@pytest.mark.parametrize(
    ("text", "sentences"),
    [
        ("One. Two! Three? Four", ["One.", "Two!", "Three?", "Four"]),
        ('He said "Stop." Then he left… Gone', ['He said "Stop."', "Then he left…", "Gone"]),
        ("A line\nanother  \r\n\n a third", ["A line", "another", "a third"]),
        ("It is 3.5 m of file.txt at example.com now. Ok", ["It is 3.5 m of file.txt at example.com now.", "Ok"]),
        ("See J. Smith. He has key 12. Begin", ["See J. Smith.", "He has key 12.", "Begin"]),
        ("1. Begin here\n 2. End there. 3", ["1. Begin here", "2. End there.", "3"]),
        ("approx. ten, e.g. these. Fine", ["approx. ten, e.g. these.", "Fine"]),
        ("Привет. Как дела? Хорошо!", ["Привет.", "Как дела?", "Хорошо!"]),
        ("我住在北京。他来了！真的吗？是的", ["我住在北京。", "他来了！", "真的吗？", "是的"]),
        ("彼は「はい。」と言った。終わり", ["彼は「はい。」", "と言った。", "終わり"]),
        ("नमस्ते। फिर मिलेंगे।", ["नमस्ते।", "फिर मिलेंगे।"]),
        ("مرحبا؟ نعم", ["مرحبا؟", "نعم"]),
        ("Wait?! Really...  Yes", ["Wait?!", "Really...", "Yes"]),
        ("", []),
        (" \n ", []),
        ("no end here", ["no end here"]),
    ],
)
def test_sentences(text: str, sentences: list[str]) -> None:
    assert sentences_of(text) == sentences


def test_a_character_stays_whole_even_around_a_full_stop() -> None:
    assert sentences_of("好。\ufe0f再见") == ["好。\ufe0f再见"]
    assert sentences_of("Stop! \u0301x. Go") == ["Stop! \u0301x.", "Go"]


@given(st.text(st.sampled_from([*'ab1. !?。\n"\u0301\u200d', "\U0001f469", "\ud800"])))
def test_nothing_but_space_is_lost_and_order_stays(text: str) -> None:
    assert "".join("".join(sentence.split()) for sentence in sentences_of(text)) == "".join(text.split())


@pytest.mark.parametrize("text", ["." * 100_000 + "x", "a" * 100_000, '."' * 50_000, ". " * 50_000, "。" * 100_000])
def test_hostile_text_costs_linear_time(text: str) -> None:
    start = time.perf_counter()
    sentences_of(text)
    assert time.perf_counter() - start < 5
