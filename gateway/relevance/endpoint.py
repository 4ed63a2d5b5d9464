"""The scorer `endpoint`: vectors from the embeddings endpoint of a configured provider, in OpenAI's format.

Knows no address and no key: it is given a way to post. What fails, whatever it is, leaves the decision to the scorer it is given
for that, with a remark.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

import msgspec

from gateway.chat import Diagnostic
from gateway.errors import ProviderError
from gateway.relevance.base import RelevanceScorer, Scores, remark
from gateway.relevance.vectors import RememberedVectors, Vector, beginning, similarity

Post = Callable[[bytes], Awaitable[bytes]]  # body of an embeddings request -> body of a good answer; raises ProviderError

FAILED = "recall-endpoint-failed"
PATIENCE_S = 5.0  # for all of one call: a client is waiting for its reply meanwhile
BATCH = 64  # texts in one request


@dataclass(frozen=True, slots=True)
class Endpoint:
    """An embeddings endpoint: what its provider calls the model, and the way there."""

    model: str
    post: Post


class _Embedding(msgspec.Struct):
    index: int
    embedding: list[float]


class _Answer(msgspec.Struct):
    data: list[_Embedding]


_ANSWER = msgspec.json.Decoder(_Answer)


class _Unusable(ValueError):
    """The answer is none to what was asked."""


class EndpointRelevance(RelevanceScorer):
    """Scores by the cosine of the endpoint's vectors."""

    def __init__(self, endpoint: Endpoint, instead: RelevanceScorer, patience_s: float = PATIENCE_S) -> None:
        """`instead` scores when the endpoint doesn't, after `patience_s` seconds at most."""
        self._endpoint = endpoint
        self._instead = instead
        self._patience_s = patience_s
        self._vectors = RememberedVectors(self._embed)

    async def scores(self, query: str, texts: Sequence[str]) -> Scores:
        """See RelevanceScorer.scores."""
        try:
            async with asyncio.timeout(self._patience_s):
                asked, *vectors = await self._vectors.of([beginning(text) for text in (query, *texts)])
            return Scores([_compared(asked, vector) for vector in vectors])
        except (ProviderError, TimeoutError, _Unusable) as error:
            found = await self._instead.scores(query, texts)
            return Scores(found.values, (_failed(error), *found.remarks))

    async def _embed(self, texts: Sequence[str]) -> Sequence[Vector]:
        """Endpoints refuse an empty input, which has a vector without direction whatever the model."""
        said = [text for text in texts if text.strip()]
        batches = [said[start : start + BATCH] for start in range(0, len(said), BATCH)]
        vectors = iter([vector for batch in batches for vector in await self._ask(batch)])
        return [next(vectors) if text.strip() else (0.0,) for text in texts]

    async def _ask(self, texts: Sequence[str]) -> list[Vector]:
        raw = await self._endpoint.post(msgspec.json.encode({"model": self._endpoint.model, "input": texts}))
        try:
            found = sorted(_ANSWER.decode(raw).data, key=lambda one: one.index)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise _Unusable("it answered something else than embeddings") from error
        if [one.index for one in found] != list(range(len(texts))):
            raise _Unusable(f"it answered {len(found)} embeddings, numbered in an unexpected way, to {len(texts)} texts")
        if not all(one.embedding and math.isfinite(math.hypot(*one.embedding)) for one in found):
            raise _Unusable("it answered an embedding without numbers or with infinite ones")
        return [one.embedding for one in found]


def _compared(asked: Vector, vector: Vector) -> float:
    """A text or query without direction has nothing in common with anything; else the lengths are the same, or all is void."""
    if not any(asked) or not any(vector):
        return 0.0
    if len(asked) != len(vector):
        raise _Unusable(f"its embeddings have different lengths: {len(asked)} and {len(vector)}")
    return similarity(asked, vector)


def _failed(error: ProviderError | TimeoutError | _Unusable) -> Diagnostic:
    return remark(FAILED, f"the embeddings endpoint gave no relevance, another scorer did: {_why(error)}")


def _why(error: ProviderError | TimeoutError | _Unusable) -> str:
    """Never in the provider's own words, which may hold anything."""
    if isinstance(error, ProviderError):
        return error.code
    return str(error) if isinstance(error, _Unusable) else "no answer in time"
