"""The scorer `local`: word vectors from the data files of the package wordllama, on this machine, without a network.

A text's vector is the mean of its tokens' rows, as that package makes it. The package is not imported: doing so sets up logging
for the whole process and brings an HTTP client along. Where it is missing, shared letters decide, and a remark says so.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import Any

from gateway.relevance.base import RelevanceScorer, Scores, remark
from gateway.relevance.letters import letter_scores
from gateway.relevance.vectors import RememberedVectors, Vector, beginning, similarity
from tokenizer_profiles.errors import ProfileDataMissing
from tokenizer_profiles.package_data import wanted_file

EXTRA = "recall"
_PACKAGE = "wordllama"
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_TENSOR = "embedding.weight"
_MISSING = remark(
    "recall-vectors-missing",
    f"relevance is judged by shared letters, since {_PACKAGE} is not installed or can't be read: install sluicegate[{EXTRA}]",
)
_log = logging.getLogger(__name__)


class LocalRelevance(RelevanceScorer):
    """Scores by word vectors, else by letters."""

    def __init__(self, package: str = _PACKAGE) -> None:
        self._package = package
        self._words: WordVectors | None = None
        self._missing = False
        self._vectors = RememberedVectors(self._embed)

    async def scores(self, query: str, texts: Sequence[str]) -> Scores:
        """See RelevanceScorer.scores."""
        query, *texts = [beginning(text) for text in (query, *texts)]
        if not self._missing:
            try:
                asked, *vectors = await self._vectors.of([query, *texts])
                return Scores([similarity(asked, vector) for vector in vectors])
            except ProfileDataMissing as error:
                self._missing = True
                _log.warning("relevance is judged by shared letters: %s", error)
        return Scores(await asyncio.to_thread(letter_scores, query, texts), (_MISSING,))

    async def _embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        return await asyncio.to_thread(self._embed_now, texts)

    def _embed_now(self, texts: Sequence[str]) -> Sequence[Vector]:
        if self._words is None:
            self._words = WordVectors(self._package)
        return self._words.vectors(texts)


class WordVectors:
    """The table of word vectors, loaded. Slow to make (a quarter of a second) and 16 MB large."""

    def __init__(self, package: str = _PACKAGE) -> None:
        """Raises ProfileDataMissing, which says what to install."""
        from tokenizer_profiles.huggingface import read_tokenizer  # here: most gateways never recall

        weights = wanted_file(package, _WEIGHTS, EXTRA)
        self._tokenizer: Any = read_tokenizer(wanted_file(package, _TOKENIZER, EXTRA))
        try:
            from safetensors import SafetensorError
            from safetensors.numpy import load_file
        except ImportError as error:
            raise ProfileDataMissing(f"word vectors need safetensors and numpy: install sluicegate[{EXTRA}]") from error
        try:
            self._rows = load_file(weights)[_TENSOR]
        except (OSError, KeyError, SafetensorError) as error:
            raise ProfileDataMissing(f"{weights} holds no word vectors that can be read: {error}") from error

    def vectors(self, texts: Sequence[str]) -> list[Vector]:
        """A vector of 256 numbers for each text; of zeros where it is empty. Texts hold no lone surrogates."""
        encoded = self._tokenizer.encode_batch(list(texts), add_special_tokens=False)
        return [self._mean(one.ids) for one in encoded]

    def _mean(self, ids: Sequence[int]) -> Vector:
        total = self._rows[ids].astype("float32").sum(axis=0)
        mean: list[float] = (total / max(1, len(ids))).tolist()
        return mean
