"""The contract of a relevance scorer: how much a text has to do with what is being talked about. Knows no blocks and no budget.

A scorer never raises for what it is given: where it can't do what it was configured for it says so in a remark.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from gateway.chat import Diagnostic


@dataclass(frozen=True, slots=True)
class Scores:
    """For each text, in its order, a number from 0 (nothing in common) to 1; remarks where they are not what was asked for."""

    values: Sequence[float]
    remarks: tuple[Diagnostic, ...] = ()


class RelevanceScorer(ABC):
    """A way of scoring."""

    @abstractmethod
    async def scores(self, query: str, texts: Sequence[str]) -> Scores:
        """The relevance of every text for the query. Scores of one call may be compared with each other."""


def remark(code: str, message: str) -> Diagnostic:
    """A warning about relevance under a stable code."""
    return Diagnostic("recall", "warning", code, message)
