"""Vectors of texts, remembered by content, and how near they are to each other. Knows nothing of how a vector is made."""

from __future__ import annotations

import math
from array import array
from collections.abc import Awaitable, Callable, Sequence
from hashlib import blake2b
from operator import mul

from gateway.recent import Recent

Vector = Sequence[float]
Embed = Callable[[Sequence[str]], Awaitable[Sequence[Vector]]]  # texts -> one vector each, all of one length

MEMORY_BYTES = 16 * 1024 * 1024
MOST_CHARACTERS = 4000  # of a text: more hardly moves a mean, and may be too long for an endpoint's limit of 8,192 tokens
_OVERHEAD_BYTES = 200  # of one entry, beside its numbers


class RememberedVectors:
    """Embeds each text once and remembers its vector, scaled to length one. Texts hold no lone surrogates."""

    def __init__(self, embed: Embed, memory_bytes: int = MEMORY_BYTES) -> None:
        self._embed = embed
        self._known: Recent[bytes, Vector] = Recent(memory_bytes)

    async def of(self, texts: Sequence[str]) -> list[Vector]:
        """The vectors of these texts, in their order. Raises what `embed` raises."""
        keys = [_key(text) for text in texts]
        known = {key: vector for key in keys if (vector := self._known.get(key)) is not None}
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in known}
        if new:
            for key, vector in zip(new, await self._embed(list(new.values())), strict=True):
                known[key] = scaled = _scaled(vector)
                self._known.put(key, scaled, len(scaled) * 4 + _OVERHEAD_BYTES)
        return [known[key] for key in keys]


def beginning(text: str) -> str:
    """As much of a text as is embedded, as UTF-8 can hold it: without lone surrogates."""
    return text[:MOST_CHARACTERS].encode("utf-8", "replace").decode("utf-8")


def similarity(one: Vector, other: Vector) -> float:
    """The cosine of two vectors of length one, from 0 to 1: what points away from each other has nothing in common either."""
    return min(1.0, max(0.0, math.fsum(map(mul, one, other))))


def _scaled(vector: Vector) -> Vector:
    length = math.hypot(*vector)
    return array("f", [value / length for value in vector] if length else vector)


def _key(text: str) -> bytes:
    return blake2b(text.encode("utf-8"), digest_size=16).digest()
