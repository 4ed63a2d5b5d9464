"""Which part of a rendered prompt belongs to which message: private-use marks in the messages' texts show up in the render.

Pure text work; knows no server and no tokens. A message begins at the nearest special token before its mark.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain, pairwise
from math import isqrt

from tokenizer_profiles.base import Message

_PRIVATE_USE = re.compile("[\ue000-\uf8ff]")
_FIRST, _LAST = 0xE000, 0xF8FF


@dataclass(frozen=True, slots=True)
class Marks:
    """A mark of two private-use characters for each message, none of which stands in the input."""

    texts: tuple[str, ...]
    pattern: re.Pattern[str]

    @classmethod
    def avoiding(cls, text: str, count: int) -> Marks | None:
        """Marks for `count` messages with characters that are not in `text`; None when there are not enough."""
        used = set(_PRIVATE_USE.findall(text))
        side = isqrt(max(0, count - 1)) + 1
        free = [chr(code) for code in range(_FIRST, _LAST + 1) if chr(code) not in used][: 2 * side]
        if len(free) < 2 * side:
            return None
        first, second = free[:side], free[side:]
        texts = tuple(first[number // side] + second[number % side] for number in range(count))
        return cls(texts, re.compile(f"[{''.join(first)}][{''.join(second)}]"))

    def places(self, marked: str, plain: str) -> dict[int, int] | None:
        """Where each mark would stand in the unmarked render, by message; None when the marks changed more than themselves."""
        if self.pattern.sub("", marked) != plain:
            return None
        numbers = {text: number for number, text in enumerate(self.texts)}
        found: dict[int, int] = {}
        for earlier, match in enumerate(self.pattern.finditer(marked)):
            if match.group() in numbers:
                found.setdefault(numbers[match.group()], match.start() - 2 * earlier)
        return found


def marked_message(message: Message, mark: str) -> Message:
    """The message with the mark before the first visible character of its text, or of its first call's function name."""
    content, calls = message.get("content"), message.get("tool_calls")
    if isinstance(content, str) and (content.strip() or not calls):
        return {**message, "content": _marked(content, mark)}
    if isinstance(content, list):
        for at, part in enumerate(content):
            if isinstance(part, Mapping) and part.get("type") == "text" and str(part.get("text", "")).strip():
                return {**message, "content": [*content[:at], {**part, "text": _marked(part["text"], mark)}, *content[at + 1 :]]}
    if isinstance(calls, list) and calls and isinstance(calls[0], Mapping) and isinstance(calls[0].get("function"), Mapping):
        function = calls[0]["function"]
        named = {**calls[0], "function": {**function, "name": mark + str(function.get("name", ""))}}
        return {**message, "tool_calls": [named, *calls[1:]]}
    return message


@dataclass(frozen=True, slots=True)
class Span:
    """Characters `start` to `end` of a render, which belong to the messages `first` to `last` (not included) together."""

    start: int
    end: int
    first: int
    last: int


def spans(places: Mapping[int, int], boundaries: Sequence[int], count: int, end: int) -> list[Span]:
    """Cuts a render up to `end` among `count` messages, in order.

    `places` are those of the marks, `boundaries` the starts of special tokens in rising order. A message without a mark shares
    the span of the one before it; leading ones share what stands before the first mark.
    """
    starts: list[tuple[int, int]] = []
    rising = iter(chain(boundaries, (end,)))
    boundary, following = 0, next(rising)
    for number, place in sorted(places.items()):
        while following < place and following < end:
            boundary, following = following, next(rising)
        if not starts or boundary > starts[-1][1]:
            starts.append((number, boundary))
    if not starts or starts[0][0] > 0:
        starts.insert(0, (0, 0))
    ends = [*starts[1:], (count, end)]
    return [Span(start, stop, first, last) for (first, start), (last, stop) in zip(starts, ends, strict=True)]


def _marked(text: str, mark: str) -> str:
    at = len(text) - len(text.lstrip())
    return text[:at] + mark + text[at:]


def shared(tokens: int, weights: Sequence[int]) -> list[int]:
    """A number of tokens divided by weights, adding up exactly."""
    sums = list(accumulate(weights, initial=0))
    whole = sums[-1] or 1
    return [tokens * after // whole - tokens * before // whole for before, after in pairwise(sums)]
