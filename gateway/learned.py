"""What a provider's overflow teaches: a lower context limit, or that a prompt counts for more than was thought. Values only.

Numbers are tokens. A counting factor is kept in sixteenths, rounded up, so that a slightly other lesson moves no cut.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction

STEPS = 16  # a counting factor is a whole number of sixteenths
MOST_SIXTEENTHS = 4 * STEPS  # lessons never shrink a budget to less than a quarter
GUESSED_SHARE = Fraction(3, 4)  # of the budget, where a provider names no numbers


@dataclass(frozen=True, slots=True)
class Learned:
    """What is known of a model behind one key: its real context limit (None: nothing), and by how much it counts more than we."""

    context_limit: int | None = None
    sixteenths: int = STEPS

    @property
    def factor(self) -> Fraction:
        """Theirs ÷ ours, at least 1."""
        return Fraction(self.sixteenths, STEPS)

    def __or__(self, other: Learned) -> Learned:
        """Both lessons: the lower limit, the higher factor."""
        limits = [one.context_limit for one in (self, other) if one.context_limit is not None]
        return Learned(min(limits, default=None), max(self.sixteenths, other.sixteenths))


NOTHING = Learned()


@dataclass(frozen=True, slots=True)
class Lesson:
    """What was learned, of which model, behind which server and key (`account`), and until when (seconds since the epoch)."""

    provider: str
    model: str
    account: str
    learned: Learned
    expires_at: float

    def after(self, earlier: Lesson | None, now: float) -> Lesson:
        """This lesson on top of an earlier one of the same subject, which counts as long as it hasn't expired."""
        if earlier is None or earlier.expires_at <= now:
            return self
        return replace(self, learned=self.learned | earlier.learned, expires_at=max(self.expires_at, earlier.expires_at))


def learned_from(*, sent: int, context_limit: int, their_limit: int | None, their_count: int | None) -> Learned:
    """What the numbers of an overflow say, next to ours: the tokens sent by our count and the limit we went by."""
    limit = their_limit if their_limit is not None and 0 < their_limit < context_limit else None
    return Learned(limit, _sixteenths(Fraction(their_count or 0, max(1, sent))))


def guessed(before: Learned) -> Learned:
    """What is learned from an overflow without numbers: that three quarters of the budget are the most."""
    return Learned(before.context_limit, _sixteenths(before.factor / GUESSED_SHARE))


def _sixteenths(factor: Fraction) -> int:
    return min(MOST_SIXTEENTHS, max(STEPS, -(-factor.numerator * STEPS // factor.denominator)))
