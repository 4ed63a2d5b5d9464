from __future__ import annotations

import re
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer_profiles.attribution import Marks, Span, are_turns, marked_message, shared, spans, turn_openers


def test_marks_begin_with_what_is_not_in_the_input() -> None:
    marks = Marks.avoiding("x\ue000y\ue001", 3)
    assert marks is not None
    assert len(set(marks.texts)) == 3
    assert {mark[0] for mark in marks.texts} == {"\ue002"}


def test_many_thousand_messages_have_marks_of_their_own() -> None:
    marks = Marks.avoiding("", 10_000)
    assert marks is not None
    assert len(set(marks.texts)) == 10_000
    assert marks.places("".join(f"{mark}x" for mark in marks.texts), "x" * 10_000) == {at: at for at in range(10_000)}


def test_an_input_of_every_private_character_leaves_no_marks() -> None:
    assert Marks.avoiding("".join(map(chr, range(0xE000, 0xF900))), 1) is None


def test_the_mark_stands_before_the_first_visible_character() -> None:
    assert marked_message({"role": "user", "content": " \n Hi "}, "M") == {"role": "user", "content": " \n MHi "}
    assert marked_message({"role": "user", "content": ""}, "M")["content"] == "M"
    parts = [{"type": "image_url"}, {"type": "text", "text": " "}, {"type": "text", "text": " a"}, {"type": "text", "text": "b"}]
    marked = marked_message({"role": "user", "content": parts}, "M")["content"]
    assert [part.get("text") for part in marked] == [None, " ", " Ma", "b"]


def test_a_message_without_text_is_marked_in_its_first_call() -> None:
    calls = [{"id": "1", "function": {"name": "f", "arguments": "{}"}}, {"id": "2", "function": {"name": "g"}}]
    marked = marked_message({"role": "assistant", "content": None, "tool_calls": calls}, "M")
    assert [call["function"]["name"] for call in marked["tool_calls"]] == ["Mf", "g"]
    assert calls[0]["function"] == {"name": "f", "arguments": "{}"}


def test_a_message_without_a_place_stays_as_it_is() -> None:
    odd: list[dict[str, Any]] = [
        {"role": "assistant", "content": None},
        {"role": "user", "content": 5},
        {"role": "user", "content": [{"type": "image_url"}, 7, {"type": "text", "text": 5}, {"type": ["text"], "text": "x"}]},
        {"role": "assistant", "content": "", "tool_calls": ["x"]},
        {"role": "assistant", "tool_calls": [{"function": "x"}]},
    ]
    assert [marked_message(message, "M") for message in odd] == odd


def test_places_are_those_of_the_unmarked_text() -> None:
    marks = Marks.avoiding("", 3)
    assert marks is not None
    first, second, third = marks.texts
    assert marks.places(f"<s>{first}one<s>{third}three{second}", "<s>one<s>three") == {0: 3, 2: 9, 1: 14}


def test_marks_that_change_the_text_are_not_trusted() -> None:
    marks = Marks.avoiding("", 1)
    assert marks is not None
    assert marks.places(f"{marks.texts[0]}Hi", "hi") is None


def test_a_mark_that_nobody_set_has_no_place() -> None:
    marks = Marks.avoiding("", 3)
    assert marks is not None
    stranger = marks.lead + "ab"
    cut_off = marks.texts[2][:2]
    assert marks.places(f"a{stranger}b{marks.texts[0]}{cut_off}", "ab") == {0: 2}


def test_a_message_begins_at_the_special_token_before_its_mark() -> None:
    # 0 <a>default 10 <a>one 20 <a>two 30 primer
    assert spans({0: 13, 1: 23}, [0, 10, 20, 30], 2, 30) == [Span(10, 20, 0, 1), Span(20, 30, 1, 2)]


def test_a_message_without_a_mark_shares_with_the_one_before() -> None:
    assert spans({0: 13, 2: 23}, [10, 20], 3, 30) == [Span(10, 20, 0, 2), Span(20, 30, 2, 3)]
    assert spans({1: 13}, [10], 2, 30) == [Span(0, 10, 0, 1), Span(10, 30, 1, 2)]
    assert spans({}, [10], 2, 30) == [Span(0, 30, 0, 2)]


def test_a_message_that_moved_forward_shares_too() -> None:
    assert spans({0: 25, 1: 13}, [10, 20], 2, 30) == [Span(20, 30, 0, 2)]


def test_an_opener_wins_over_a_nearer_token() -> None:
    # 0 <turn> 4 <think> 8 one 20 <call> 24 two 30 <turn> 34 <think> 38 three
    tokens = [0, 4, 20, 30, 34]
    assert spans({0: 8, 1: 24, 2: 38}, tokens, 3, 50, openers=[0, 30]) == [
        Span(0, 20, 0, 1),
        Span(20, 30, 1, 2),
        Span(30, 50, 2, 3),
    ]


def test_what_stands_before_the_origin_belongs_to_nobody() -> None:
    assert spans({0: 3, 1: 13}, [0, 10], 2, 20, origin=3) == [Span(3, 10, 0, 1), Span(10, 20, 1, 2)]
    assert spans({}, [], 2, 20, origin=3) == [Span(3, 20, 0, 2)]


def test_without_boundaries_messages_begin_at_their_marks() -> None:
    assert spans({0: 3, 1: 13}, [], 2, 20) == [Span(3, 13, 0, 1), Span(13, 20, 1, 2)]


def test_the_first_token_that_closes_nothing_opens_a_turn() -> None:
    special = re.compile("<[a-z/]+>")
    contents = re.compile("[XYZ]")
    render = "<s><u>X<e>\n<a><think>Y<e>\n<u>Z<e>\n<a>"
    ends = ("<s><u>X<e>\n", "<s><u>X<e>\n<a><think>Y<e>\n")
    assert turn_openers(render, ends, contents, special) == {"<a>", "<u>"}
    assert turn_openers("<s>X Y Z", ends, contents, special) == frozenset()
    assert turn_openers("", ("", ""), contents, special) == frozenset()


@settings(deadline=None, max_examples=200)
@given(st.dictionaries(st.integers(0, 9), st.integers(0, 99)), st.lists(st.integers(0, 99), unique=True), st.integers(1, 120))
def test_spans_are_in_order_and_hold_every_message(places: dict[int, int], boundaries: list[int], end: int) -> None:
    found = spans({number: min(place, end) for number, place in places.items()}, sorted(boundaries), 10, end)
    assert [number for span in found for number in range(span.first, span.last)] == list(range(10))
    assert all(span.start <= span.end for span in found)
    assert all(before.end == after.start for before, after in pairwise(found))


@settings(deadline=None, max_examples=200)
@given(st.integers(0, 10_000), st.lists(st.integers(0, 500), min_size=1))
def test_shares_add_up(tokens: int, weights: list[int]) -> None:
    shares = shared(tokens, weights)
    assert sum(shares) == (tokens if sum(weights) else 0)
    assert min(shares) >= 0


RENDER = "<t>user\nHello\n<t>assistant\nYes\n<t>assistant\n"
HELLO, YES = {"role": "user", "content": "Hello "}, {"role": "assistant", "content": "\nYes"}
OPENERS = [at.span() for at in re.finditer("<t>", RENDER)]


def test_turns_are_plain_to_see_where_each_text_begins_one() -> None:
    assert are_turns([HELLO, YES], OPENERS, RENDER)
    assert are_turns([], [(0, 3)], "<t>assistant\n")


@pytest.mark.parametrize(
    "messages",
    [
        [HELLO],
        [HELLO, YES, YES],
        [YES, HELLO],
        [HELLO, {"role": "assistant", "content": " "}],
        [HELLO, {"role": "assistant", "content": None}],
        [HELLO, {**YES, "tool_calls": []}],
        [HELLO, {"role": "assistant", "content": [{"type": "text", "text": "Yes"}]}],
    ],
)
def test_where_they_are_not_marks_have_to_tell(messages: list[dict[str, Any]]) -> None:
    assert not are_turns(messages, OPENERS, RENDER)


def test_a_text_far_behind_its_turn_s_start_is_another_s() -> None:
    assert not are_turns([HELLO], [(0, 3), (103, 106)], f"<t>user\n{'x' * 90}Hello<t>")


def test_a_text_that_is_an_opener_is_not_found_in_it() -> None:
    assert not are_turns([{"role": "user", "content": "<t>"}], [(0, 3), (3, 6)], "<t><t>")
