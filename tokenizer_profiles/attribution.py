"""Which part of a rendered prompt belongs to which message: private-use marks in the messages' texts show up in the render.

Pure text work; knows no server and no tokens. A message begins at the nearest special token before its mark.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import NamedTuple

from tokenizer_profiles.base import Message

_PRIVATE = [chr(code) for code in range(0xE000, 0xF900)]
_TEXT_PARTS = ("text", "input_text", "output_text")
_TAIL = 2  # characters of a mark behind the first
_ROLE_AND_TEXT = 2  # keys of a message that has no more
_HEADER = 48  # characters of what opens a turn: a special token or two and the name of a role


@dataclass(frozen=True, slots=True)
class Marks:
    """A mark for each message: a private-use character that stands nowhere in the input, and two that number the message."""

    lead: str
    texts: tuple[str, ...]

    @classmethod
    def avoiding(cls, text: str, count: int) -> Marks | None:
        """Marks for `count` messages (up to 40 million) whose first character is not in `text`; None when every one is."""
        lead = next((character for character in _PRIVATE if character not in text), None)
        if lead is None:
            return None
        digits = _digits(lead)
        numbers = (divmod(number, len(digits)) for number in range(count))
        return cls(lead, tuple(lead + digits[high] + digits[low] for high, low in numbers))

    def places(self, marked: str, plain: str) -> dict[int, int] | None:
        """Where each mark would stand in the unmarked render, by message; None when the marks changed more than themselves."""
        text, places = self.taken_out(marked)
        return places if text == plain else None

    def taken_out(self, marked: str) -> tuple[str, dict[int, int]]:
        """A render without its marks, and where the first mark of each message stood in it."""
        numbers = {mark[1:]: number for number, mark in enumerate(self.texts)}
        text, *rest = marked.split(self.lead)
        pieces, end = [text], len(text)
        places: dict[int, int] = {}
        for piece in rest:
            number = numbers.get(piece[:_TAIL])
            if number is not None:
                places.setdefault(number, end)
            pieces.append(piece[_TAIL:])
            end += len(pieces[-1])
        return "".join(pieces), places


@lru_cache(maxsize=8)
def _digits(lead: str) -> list[str]:
    return [character for character in _PRIVATE if character != lead]


def marked_message(message: Message, mark: str) -> Message:
    """The message with the mark before the first visible character of its text, or of its first call's function name."""
    content, calls = message.get("content"), message.get("tool_calls")
    if isinstance(content, str) and (content.strip() or not calls):
        return {**message, "content": _marked(content, mark)}
    if isinstance(content, list):
        for at, part in enumerate(content):
            if _is_visible(part):
                return {**message, "content": [*content[:at], {**part, "text": _marked(part["text"], mark)}, *content[at + 1 :]]}
    if isinstance(calls, list) and calls and isinstance(calls[0], Mapping) and isinstance(calls[0].get("function"), Mapping):
        function = calls[0]["function"]
        named = {**calls[0], "function": {**function, "name": mark + str(function.get("name", ""))}}
        return {**message, "tool_calls": [named, *calls[1:]]}
    return message


class Span(NamedTuple):
    """Characters `start` to `end` of a render, which belong to the messages `first` to `last` (not included) together."""

    start: int
    end: int
    first: int
    last: int


def spans(
    places: Mapping[int, int], boundaries: Sequence[int], count: int, end: int, *, openers: Sequence[int] = (), origin: int = 0
) -> list[Span]:
    """Cuts a render from `origin` to `end` among `count` messages, in order.

    `places` are those of the marks, `boundaries` the starts of special tokens in rising order, `openers` those of them that begin
    a turn: a message begins at the last of these since the mark before, else at the nearest boundary; at its mark itself when
    there are no boundaries. A message without a mark shares the span of the one before it; leading ones share what stands before
    the first mark.
    """
    starts: list[tuple[int, int]] = []
    before = -1
    for number, place in sorted(places.items()):
        opener = _nearest(openers, place, before)
        start = _nearest(boundaries, place, origin) if opener == before else opener
        start = min(start if boundaries else place, end)
        if not starts or start > starts[-1][1]:
            starts.append((number, max(origin, start)))
        before = max(before, place)
    if not starts or starts[0][0] > 0:
        starts.insert(0, (0, origin))
    ends = [*starts[1:], (count, max(origin, end))]
    return [Span(start, stop, first, last) for (first, start), (last, stop) in zip(starts, ends, strict=True)]


def _nearest(rising: Sequence[int], place: int, otherwise: int) -> int:
    """The last number below `place` and above `otherwise`, else that."""
    at = bisect_left(rising, place)
    return max(otherwise, rising[at - 1]) if at else otherwise


def turn_openers(render: str, ends: Sequence[str], contents: re.Pattern[str], special: re.Pattern[str]) -> frozenset[str]:
    """The special tokens that begin a turn, as a template shows them.

    `render` is a chat that asks for a reply, `ends` are chats that do not, of any role; `contents` finds what was said in them.
    What follows a content at an end closes a turn; the first other token behind a content opens the next one.
    """
    closing = {token for end in ends for token in special.findall(contents.split(end)[-1])}
    between = (special.findall(gap) for gap in contents.split(render)[1:])
    return frozenset(token for tokens in between for token in [token for token in tokens if token not in closing][:1])


def are_turns(messages: Sequence[Message], openers: Sequence[tuple[int, int]], render: str) -> bool:
    """Whether a render plainly shows one turn a message and a last one that asks for the reply, opened at these places.

    `openers` are where the tokens that open turns begin and end. Each text has to begin directly behind its opener and the name
    of its role. False says nothing but that marks have to tell.
    """
    if len(openers) != len(messages) + 1:
        return False
    for message, ((_, start), (stop, _)) in zip(messages, pairwise(openers), strict=True):
        content = message.get("content")
        text = content.lstrip()[:_HEADER] if isinstance(content, str) and len(message) == _ROLE_AND_TEXT else ""
        if not text or render.find(text.rstrip(), start, min(stop, start + 2 * _HEADER)) < 0:
            return False
    return True


def _is_visible(part: object) -> bool:
    text = part.get("text") if isinstance(part, Mapping) and part.get("type") in _TEXT_PARTS else None
    return isinstance(text, str) and bool(text.strip())


def _marked(text: str, mark: str) -> str:
    at = len(text) - len(text.lstrip())
    return text[:at] + mark + text[at:]


def shared(tokens: int, weights: Sequence[int]) -> list[int]:
    """A number of tokens divided by weights, adding up exactly."""
    sums = list(accumulate(weights, initial=0))
    whole = sums[-1] or 1
    return [tokens * after // whole - tokens * before // whole for before, after in pairwise(sums)]
