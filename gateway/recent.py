"""A memory of recent things, bounded by bytes. Knows nothing of what it remembers."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class Recent(Generic[Key, Value]):
    """Remembers values with a weight in bytes; what has not been asked for lately goes first.

    Two generations: when the young one has half of the bytes it becomes the old one, and the old one is forgotten. A look-up
    is one or two dict look-ups, and nothing is reordered.
    """

    def __init__(self, max_bytes: int) -> None:
        self._half = max(1, max_bytes // 2)
        self._young: dict[Key, tuple[Value, int]] = {}
        self._old: dict[Key, tuple[Value, int]] = {}
        self._bytes = 0

    def get(self, key: Key) -> Value | None:
        """What is remembered under a key."""
        found = self._young.get(key)
        if found is None:
            found = self._old.get(key)
            if found is None:
                return None
            self.put(key, *found)
        return found[0]

    def put(self, key: Key, value: Value, weight: int) -> None:
        """Remembers a value; one that is heavier than half of the memory is not kept."""
        if weight > self._half:
            return
        if self._bytes + weight > self._half:
            self._old, self._young, self._bytes = self._young, {}, 0
        self._young[key] = (value, weight)
        self._bytes += weight
