"""What an error says of itself: exact words, sentences, numbers. Knows where they may stand, and draws no conclusion.

An error may be JSON, JSON in a string of JSON, JSON that was cut off, or a page. All work is bounded, whatever was sent.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gateway.providers.retry_after import seconds_until

_MAX_BODY_BYTES = 262_144
_MAX_DEPTH = 8
_MAX_VALUES = 2000
_MAX_TEXT_CHARS = 8192
_MAX_TEXTS_CHARS = 16_384
_MAX_WORD_CHARS = 128
_MAX_NUMBER = 1e12
_OPENINGS = ("{", "[")
_FIELD = re.compile(r'"(\w{1,32})"\s*+:\s*+(?:"((?:[^"\\]|\\.)*+)|(-?\d{1,12}(?:\.\d{1,9})?)(?![\w.]))', re.DOTALL)
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_NO_COUNT = re.compile(r"\d{16,}")
_GROUPED = re.compile(r"(?<![\d.,_])\d{1,3}(?:[,_]\d{3})+(?!,?\d|_)")
_QUOTES = str.maketrans("\u2018\u2019\u201c\u201d", "''\"\"")


@dataclass(frozen=True, slots=True)
class Walk:
    """The keys, in lower case, below which and under which an error says something."""

    descend: frozenset[str]
    words: frozenset[str]
    texts: frozenset[str]
    statuses: frozenset[str]
    params: frozenset[str]
    waits: frozenset[str]


@dataclass(slots=True)
class Signals:
    """What was found. Words and texts are in lower case; `wait` is in seconds; `inner_status` the status named inside."""

    status: int | None = None
    inner_status: int | None = None
    wait: float | None = None
    words: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)
    numbers: dict[str, float] = field(default_factory=dict)

    def word(self, value: str) -> None:
        """Adds a word; of a qualified name (`com.service#Name`) the last part."""
        word = value.strip().rpartition("#")[2].lower()[:_MAX_WORD_CHARS]
        if word:
            self.words.add(word)


def signals_of(body: bytes, walk: Walk) -> Signals:
    """What the body of an error says, in any encoding of JSON. Never fails."""
    reader = _Reader(walk)
    body = body[:_MAX_BODY_BYTES]
    reader.read(body.decode(json.detect_encoding(body), "replace"), "message", 0)
    return reader.signals


class _Reader:
    """One body on its way to signals."""

    def __init__(self, walk: Walk) -> None:
        self.signals = Signals()
        self._walk = walk
        self._values_left = _MAX_VALUES
        self._chars_left = _MAX_TEXTS_CHARS

    def read(self, text: str, key: str, depth: int) -> None:
        """JSON as values, what is left of cut JSON as single fields, anything else as a text."""
        try:
            value: object = json.loads(text)
        except (ValueError, RecursionError):
            opened = text.lstrip().startswith(_OPENINGS)
            if not opened:
                self._add_text(text)
            if opened or ('{"' in text and not text.lstrip().startswith("<")):
                self._salvage(text, depth)
            return
        if isinstance(value, str):
            self._add_text(value)
        else:
            self._visit(value, key, depth)

    def _visit(self, value: object, key: str, depth: int) -> None:
        self._values_left -= 1
        if depth > _MAX_DEPTH or self._values_left < 0:
            return
        if isinstance(value, str):
            self._note_text(value, key, depth)
        elif isinstance(value, (int, float)) and not isinstance(value, bool):
            self._note_number(value, key)
        for name, inner in self._below(value, key):
            self._visit(inner, name, depth + 1)

    def _below(self, value: object, key: str) -> Iterator[tuple[str, object]]:
        """What is looked at inside a value, with its key; the elements of a list have the list's."""
        if isinstance(value, list):
            yield from ((key, inner) for inner in value[:_MAX_VALUES])
        elif isinstance(value, dict):
            entered = self._walk.descend | self._walk.params
            for name, inner in value.items():
                lowered = name.lower()
                if lowered in entered or not isinstance(inner, (dict, list)):
                    yield lowered, inner

    def _salvage(self, text: str, depth: int) -> None:
        for match in _FIELD.finditer(text):
            key = match[1].lower()
            if match[3] is not None:
                self._visit(float(match[3]), key, depth + 1)
            else:
                self._visit(_ESCAPE.sub(_unescaped, match[2][:_MAX_TEXT_CHARS]), key, depth + 1)

    def _note_text(self, value: str, key: str, depth: int) -> None:
        walk, signals = self._walk, self.signals
        if key in walk.words:
            signals.word(value)
        if key in walk.params:
            signals.word(f"param={value}")
            self._add_text(f"param={value[:_MAX_WORD_CHARS]}")
        if key in walk.texts:
            if value.lstrip().startswith(_OPENINGS) or '{"' in value:
                self.read(value, key, depth + 1)
            else:
                self._add_text(value)
        if key in walk.statuses and len(value) == 3 and value.isascii() and value.isdigit():
            self._note_number(int(value), key)
        if key in walk.waits and signals.wait is None:
            signals.wait = _waiting(key, value)

    def _note_number(self, value: float, key: str) -> None:
        if not 0 <= value < _MAX_NUMBER:
            return
        signals, walk = self.signals, self._walk
        signals.numbers.setdefault(key, value)
        if key in walk.statuses and signals.inner_status is None and 400 <= value < 600:
            signals.inner_status = int(value)
        if key in walk.waits and signals.wait is None:
            signals.wait = _waiting(key, str(value))

    def _add_text(self, value: str) -> None:
        """Adds a text as patterns want it: one line, plain quotes, numbers without separators, no run of digits without end."""
        text = " ".join(value[: min(_MAX_TEXT_CHARS, self._chars_left)].translate(_QUOTES).lower().split())
        self._chars_left -= len(text)
        if text:
            text = _GROUPED.sub(_ungrouped, text)
            self.signals.texts.append(_NO_COUNT.sub("#", text))


def _ungrouped(match: re.Match[str]) -> str:
    return match[0].replace(",", "").replace("_", "")


def _unescaped(match: re.Match[str]) -> str:
    return " " if match[1] in "nrt" else match[1]


def _waiting(key: str, value: str) -> float | None:
    return seconds_until(value + "ms" if key.endswith("_ms") else value)
