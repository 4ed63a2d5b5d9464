"""Without a model, shared letters decide."""

from __future__ import annotations

import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.relevance.letters import letter_scores

QUERY = "What does the dragon of the northern mountains eat?"
TEXTS = [
    "The harbour town lives from salt and fish.",
    "Dragons in the mountain range eat sheep, and knights on holidays.",
    "Ein Drachen wohnt im Berg.",
]


def test_what_shares_words_is_nearest() -> None:
    harbour, dragons, german = letter_scores(QUERY, TEXTS)
    assert dragons > 2 * max(harbour, german)


def test_the_same_text_is_as_near_as_can_be_whatever_its_case_and_spaces() -> None:
    assert letter_scores("Dragon  FIRE", ["dragon fire\n"]) == [pytest.approx(1)]


def test_languages_without_spaces_are_compared_too() -> None:
    near, far = letter_scores("龍は北の山に住んでいる", ["北の山に住んでいる龍の話", "港町の塩と魚"])
    assert near > far == 0


@pytest.mark.parametrize(("query", "text"), [("", "words"), ("words", ""), ("", ""), ("words", " \n"), ("words", "x\ud800")])
def test_where_nothing_is_shared_it_is_0(query: str, text: str) -> None:
    assert letter_scores(query, [text]) == [0]


@given(st.text(max_size=60), st.lists(st.text(max_size=60), max_size=6))
def test_every_text_gets_a_number_from_0_to_1(query: str, texts: list[str]) -> None:
    scores = letter_scores(query, texts)
    assert len(scores) == len(texts)
    assert all(0 <= score <= 1 for score in scores)


def test_another_process_gets_the_same_numbers() -> None:
    code = f"from gateway.relevance.letters import letter_scores; print(letter_scores({QUERY!r}, {TEXTS!r}))"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603 - our own code
    assert run.stdout.strip() == str(letter_scores(QUERY, TEXTS))
