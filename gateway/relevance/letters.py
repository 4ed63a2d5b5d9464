"""Relevance without a model: texts that share rare runs of letters. What is left where no vectors can be had.

The cosine of TF-IDF vectors over runs of 3 to 5 letters (Salton and Buckley 1988) with a run counted once however often it
stands there, and the usual smoothed weight ln((1 + texts) / (1 + texts with the run)) + 1. Needs no word borders, so no language.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

_RUNS = (3, 4, 5)
_MOST_CHARACTERS = 2000  # of a text


def letter_scores(query: str, texts: Sequence[str]) -> list[float]:
    """For each text a number from 0 to 1. The same for the same input: sums are exact, whatever the order of a set."""
    asked, runs = _runs(query), [_runs(text) for text in texts]
    found = Counter(run for these in (asked, *runs) for run in these)
    total = len(runs) + 1
    weight = {run: (math.log((1 + total) / (1 + number)) + 1) ** 2 for run, number in found.items()}

    def size(these: set[str]) -> float:
        return math.fsum([weight[run] for run in these])

    own = size(asked)
    return [min(1.0, size(asked & these) / math.sqrt(own * size(these))) if asked and these else 0.0 for these in runs]


def _runs(text: str) -> set[str]:
    plain = " ".join(["", *text[:_MOST_CHARACTERS].casefold().split(), ""])
    return {plain[i : i + length] for length in _RUNS for i in range(len(plain) - length + 1)}
