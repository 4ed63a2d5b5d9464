"""Each text is embedded once, and nearness is a number from 0 to 1."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from gateway.relevance.vectors import MOST_CHARACTERS, RememberedVectors, Vector, beginning, similarity


class Embedder:
    """Knows the vector of a few texts and remembers what it was asked."""

    def __init__(self, **known: Vector) -> None:
        self.known = known
        self.asked: list[list[str]] = []

    async def __call__(self, texts: Sequence[str]) -> list[Vector]:
        self.asked.append(list(texts))
        return [self.known[text] for text in texts]


def test_a_text_is_embedded_once_however_often_it_comes() -> None:
    embedder = Embedder(a=[3, 4], b=[1, 0], c=[0, 2])

    async def story() -> list[list[Vector]]:
        remembered = RememberedVectors(embedder)
        return [await remembered.of(texts) for texts in (["a", "b", "a"], ["b", "c"], ["c", "a"], [])]

    first, *_, third, none = asyncio.run(story())
    assert embedder.asked == [["a", "b"], ["c"]]
    assert [list(vector) for vector in first] == [pytest.approx([0.6, 0.8]), [1, 0], pytest.approx([0.6, 0.8])]
    assert list(third[0]) == [0, 1]
    assert none == []


def test_what_finds_no_room_is_embedded_again() -> None:
    embedder = Embedder(a=[3, 4])

    async def story() -> None:
        remembered = RememberedVectors(embedder, memory_bytes=10)
        await remembered.of(["a"])
        await remembered.of(["a"])

    asyncio.run(story())
    assert embedder.asked == [["a"], ["a"]]


@pytest.mark.parametrize(
    ("one", "other", "expected"), [([1, 0], [1, 0], 1), ([1, 0], [0, 1], 0), ([1, 0], [-1, 0], 0), ([1.001], [1.001], 1)]
)
def test_nearness_is_the_cosine_within_its_bounds(one: Vector, other: Vector, expected: float) -> None:
    assert similarity(one, other) == expected


def test_a_vector_without_direction_is_near_to_nothing() -> None:
    embedder = Embedder(empty=[0, 0], a=[3, 4])
    empty, some = asyncio.run(RememberedVectors(embedder).of(["empty", "a"]))
    assert similarity(empty, some) == 0


def test_the_beginning_of_a_text_can_be_written_as_utf_8() -> None:
    assert beginning("a\ud800b") == "a?b"
    assert len(beginning("x" * 10_000)) == MOST_CHARACTERS
