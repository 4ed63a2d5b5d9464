"""Remembers the tokens of texts, bounded by bytes, so that a growing chat costs only its new text. Knows no tokenizer.

Two generations: what is read stays in the young one; when that is full it becomes the old one, and the old one goes. What was
read since the last change of generations is therefore always kept, up to half the bound. Reading takes no lock.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from hashlib import blake2b
from threading import Lock

DEFAULT_BYTES = 16 * 1024 * 1024
_WHOLE_TEXT = 4096  # characters; a longer text is remembered by its digest and not kept alive
_ENTRY_BYTES = 100  # a dictionary slot and the number, about

Key = str | bytes


def memo_key(text: str) -> Key:
    """Under what a text is remembered: itself when short, else its 128-bit digest."""
    if len(text) <= _WHOLE_TEXT:
        return text
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


class TextMemo:
    """Tokens by text. Safe to share between threads: a race costs a repeated count, never a wrong one."""

    def __init__(self, max_bytes: int = DEFAULT_BYTES) -> None:
        self._half = max_bytes // 2
        self.young: dict[Key, int] = {}
        self._old: dict[Key, int] = {}
        self._young_bytes = 0
        self._lock = Lock()

    def get(self, key: Key) -> int | None:
        """The tokens remembered under a `memo_key`, or None."""
        tokens = self.young.get(key)
        if tokens is None:
            tokens = self._old.get(key)
            if tokens is not None:
                self.put(key, tokens)
        return tokens

    def put(self, key: Key, tokens: int) -> None:
        """Remembers the tokens of one text."""
        with self._lock:
            self.young[key] = tokens
            self._young_bytes += sys.getsizeof(key) + _ENTRY_BYTES
            if self._young_bytes > self._half:
                self._old, self.young, self._young_bytes = self.young, {}, 0

    def clear(self) -> None:
        """Forgets everything."""
        with self._lock:
            self.young, self._old, self._young_bytes = {}, {}, 0

    def __len__(self) -> int:
        return len(self.young.keys() | self._old.keys())


class RememberingCounter:
    """A counting function that counts each text once."""

    def __init__(self, count: Callable[[str], int], memo: TextMemo | None = None) -> None:
        self._count = count
        self._memo = memo if memo is not None else TextMemo()

    def knows(self, text: object) -> bool:
        """Whether this is a text that has been counted and is still remembered."""
        if not isinstance(text, str):
            return False
        return text in self._memo.young or self._memo.get(memo_key(text)) is not None

    def __call__(self, text: str) -> int:
        """The tokens of a text."""
        if len(text) <= _WHOLE_TEXT:
            tokens = self._memo.young.get(text)
            if tokens is not None:
                return tokens
        key = memo_key(text)
        tokens = self._memo.get(key)
        if tokens is None:
            tokens = self._count(text)
            self._memo.put(key, tokens)
        return tokens
