"""Where a text may be cut: never inside what a reader sees as one character."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.shifting.graphemes import cut_after, cut_before, may_cut

FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
FLAG = "\U0001f1f3\U0001f1f4"
SCOTLAND = "\U0001f3f4\U000e0067\U000e0062\U000e0073\U000e0063\U000e0074\U000e007f"
CHARACTERS = {
    "a family": FAMILY,
    "a skin tone": "\U0001f44d\U0001f3fd",
    "a flag": FLAG,
    "a flag of tags": SCOTLAND,
    "a keycap": "1\ufe0f\u20e3",
    "a heart with its variation": "\u2764\ufe0f",
    "a letter with two accents": "e\u0301\u0323",
    "a Hangul syllable of letters": "\u1112\u1161\u11ab",
    "a Hangul syllable with a final": "\uac00\u11a8",
    "a Devanagari conjunct": "\u0915\u094d\u0937\u093f",
    "a Thai letter with a tone": "\u0e01\u0e33",
    "a line end of two": "\r\n",
    "an Arabic number sign": "\u0600\u0661",
    "halfwidth voiced kana": "\uff76\uff9e",
    "two surrogates": "\ud83d\udc69",
}


@pytest.mark.parametrize("character", CHARACTERS.values(), ids=CHARACTERS.keys())
def test_no_cut_inside_a_character(character: str) -> None:
    text = f"{character}x{character}"
    size = len(character)
    allowed = [i for i in range(len(text) + 1) if may_cut(text, i)]
    assert allowed == [0, size, size + 1, len(text)]


def test_between_flags_is_a_place_and_inside_one_is_none() -> None:
    assert [i for i in range(9) if may_cut(FLAG * 4, i)] == [0, 2, 4, 6, 8]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a", "b"),
        ("a", " "),
        ("\u4f60", "\u597d"),
        ("\u0434", "\u0430"),
        (FAMILY, FLAG),
        ("\uac00", "\uac01"),
        ("\u1100", "a"),
        ("\n", "\u0301"),
    ],
)
def test_between_two_characters_is_a_place(one: str, other: str) -> None:
    assert may_cut(one + other, len(one))


def test_the_nearest_place_before_and_after() -> None:
    text = f"ab{FAMILY}cd"
    end = 2 + len(FAMILY)
    assert {cut_before(text, i) for i in range(2, end)} == {2}
    assert {cut_after(text, i) for i in range(3, end + 1)} == {end}
    assert (cut_before(text, -3), cut_after(text, 99)) == (0, len(text))


@given(st.text(st.sampled_from(["a", " ", "\u0301", "\u200d", "\U0001f469", "\U0001f1f3", "\U0001f3fd", "\r", "\n", "\ud83d"])))
def test_a_place_is_always_found(text: str) -> None:
    for index in range(len(text) + 1):
        before, after = cut_before(text, index), cut_after(text, index)
        assert before <= index <= after
        assert may_cut(text, before)
        assert may_cut(text, after)
