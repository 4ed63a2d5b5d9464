"""What the numbers of an overflow teach, and how lessons add up."""

from __future__ import annotations

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.learned import MOST_SIXTEENTHS, NOTHING, STEPS, Learned, Lesson, guessed, learned_from


@pytest.mark.parametrize(
    ("theirs", "counted", "expected"),
    [
        (None, None, NOTHING),
        (8192, None, NOTHING),  # no less than what we went by
        (9000, 4000, NOTHING),  # a bound from below is no count
        (4096, None, Learned(4096)),
        (None, 5500, Learned(None, 18)),  # 1.1, rounded up
        (None, 5001, Learned(None, 17)),
        (None, 5000, NOTHING),
        (4096, 10_000, Learned(4096, 32)),
        (0, 0, NOTHING),
        (None, 10**9, Learned(None, MOST_SIXTEENTHS)),
    ],
)
def test_numbers_teach_a_lower_limit_and_a_higher_count_or_nothing(
    theirs: int | None, counted: int | None, expected: Learned
) -> None:
    assert learned_from(sent=5000, context_limit=8192, their_limit=theirs, their_count=counted) == expected


@given(sent=st.integers(1, 10**6), counted=st.integers(1, 10**6))
def test_a_factor_is_theirs_by_ours_in_sixteenths_never_too_low(sent: int, counted: int) -> None:
    factor = learned_from(sent=sent, context_limit=1, their_limit=None, their_count=counted).factor
    assert factor.denominator <= STEPS
    assert factor >= min(4, Fraction(counted, sent))
    assert factor - max(1, Fraction(counted, sent)) < Fraction(1, STEPS)


def test_a_guess_leaves_three_quarters_of_what_was_left_and_never_less_than_one() -> None:
    found = NOTHING
    factors = []
    for _ in range(8):
        found = guessed(found)
        factors.append(found.sixteenths)
    assert factors == [22, 30, 40, 54, 64, 64, 64, 64]


def test_two_lessons_leave_the_lower_limit_and_the_higher_count() -> None:
    assert Learned(100, 20) | Learned(200, 24) == Learned(100, 24)
    assert Learned(None, 20) | Learned(200, 16) == Learned(200, 20)
    assert NOTHING | NOTHING == NOTHING


def test_a_lesson_counts_until_it_expires_and_a_newer_one_never_raises_a_limit_before_that() -> None:
    earlier = Lesson("p", "m", "a", Learned(100, 20), 50.0)
    newer = Lesson("p", "m", "a", Learned(200, 24), 90.0)
    assert newer.after(None, 10.0) == newer
    assert newer.after(earlier, 49.0) == Lesson("p", "m", "a", Learned(100, 24), 90.0)
    assert newer.after(earlier, 50.0) == newer
    assert earlier.after(newer, 10.0).expires_at == 90.0
