"""The scorer `none`: a relevance that nobody gave is 0."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.relevance.base import RelevanceScorer, Scores


class NoRelevance(RelevanceScorer):
    """Everything is equally irrelevant."""

    async def scores(self, query: str, texts: Sequence[str]) -> Scores:
        """See RelevanceScorer.scores."""
        return Scores([0.0] * len(texts))
