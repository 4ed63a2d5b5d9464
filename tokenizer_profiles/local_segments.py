"""Exact tokens of a rendered prompt with a local tokenizer, by the texts between its added tokens; each is tokenised once.

A tokenizer takes added tokens out of a text before it does anything else, so the rest falls into texts that know nothing of
each other. That holds for tokens that swallow no spaces, overlap no other and are looked for before the text is normalised; it
is tried with awkward texts when a tokenizer comes in. Where it does not hold, every prompt is tokenised as a whole. Knows
nothing of chats and templates.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from tokenizer_profiles.segments import Measure, measured
from tokenizer_profiles.text_memo import TextMemo, memo_key

_MOST_BOUNDARIES = 64
_MOST_BEGINNINGS = 8  # of texts that are remembered besides the counts, so that a growing one is not cut anew
_MOST_CHARACTERS = 1_000_000  # of such a text
_WORTH_KEEPING = 16  # one is copied anew when more than this part of the text lies behind what is remembered
_AWKWARD = (  # every kind of edge that a tokenizer may treat otherwise at the beginning or the end of its input
    " a",
    "a ",
    "  ",
    "\n",
    "\n\n",
    "\ta",
    "é",
    "\u0301",
    "\u0338",
    "世界",
    "\u3000",
    "▁",
    "▁a",
    "12345",
    "🙂",
    "<",
    ">a",
    "'s",
    "\xa0",
    "\x00",
    "\ufeffa",
    "_a_",
    "aa  bb",
    "Ⅳﬁ",
    "\r\n",
    "A.\n ",
)


@dataclass(frozen=True, slots=True)
class _Beginning:
    """How a text began that was measured: `text` reaches so far behind the measured part that its last cut stays one."""

    text: str
    measure: Measure


_NOTHING = _Beginning("", Measure((0,), (0,)))


class LocalSegments:
    """Counts texts with one tokenizer. Thread-safe; releases the interpreter lock while it tokenises."""

    def __init__(self, tokenizer: Any, seen: str, memo: TextMemo) -> None:
        """`tokenizer` is a `tokenizers.Tokenizer`; in `seen`, a template and its render, stand the tokens that begin turns."""
        self._tokenizer = tokenizer
        self._memo = memo
        boundaries = _boundaries(tokenizer, seen)
        self._anchor = boundaries[0] if boundaries else ""
        self._longest = len(self._anchor)
        self._kept: deque[_Beginning] = deque(maxlen=_MOST_BEGINNINGS)
        self.special = re.compile(f"({'|'.join(map(re.escape, boundaries))})") if boundaries else None
        if not self._holds(boundaries):
            self.special = None
        self._kept.clear()

    def count(self, text: str) -> int:
        """The tokens of a text."""
        (measure,) = self.measure(text)
        return measure.total

    def measure(self, *texts: str) -> list[Measure]:
        """The tokens of each text; what is new in them is tokenised in one batch."""
        heads = [self._known_beginning(text) for text in texts]
        cut = [self._cut(text[head.ends[-1] :]) for text, head in zip(texts, heads, strict=True)]
        inputs = [self._inputs(pieces, begins=len(head.ends) == 1) for pieces, head in zip(cut, heads, strict=True)]
        counts = self._counts(chain.from_iterable(inputs))
        found = []
        for text, head, pieces, row in zip(texts, heads, cut, inputs, strict=True):
            tokens = [1] * len(pieces)
            tokens[::2] = [counts[item] for item in row]
            found.append(head.followed_by(measured(pieces, tokens)))
            if len(text) - head.ends[-1] > len(text) // _WORTH_KEEPING:
                self._keep(text, found[-1])
        return found

    def _cut(self, text: str) -> list[str]:
        """Texts at even places, added tokens at odd ones."""
        return self.special.split(text) if self.special else [text]

    def _inputs(self, pieces: Sequence[str], *, begins: bool) -> list[str]:
        """What is tokenised for each text between: an added token stands before all but one that begins the whole, since some
        tokenizers treat the beginning of their input otherwise."""
        first = pieces[0] if begins else self._anchor + pieces[0]
        return [first, *(self._anchor + text for text in pieces[2::2])]

    def _known_beginning(self, text: str) -> Measure:
        """The measure of the longest beginning that is known, up to an added token."""
        return max((kept for kept in list(self._kept) if text.startswith(kept.text)), key=_length, default=_NOTHING).measure

    def _keep(self, text: str, measure: Measure) -> None:
        """Remembers a text up to its last added token behind which no longer one can begin at the same place."""
        sure = len(text) - self._longest
        last = bisect_right(measure.ends[2:-1:2], sure)
        if last and len(text) <= _MOST_CHARACTERS:
            pieces = 2 * last + 1
            head = Measure(measure.ends[:pieces], measure.sums[:pieces])
            self._kept.append(_Beginning(text[: head.ends[-1] + self._longest], head))

    def _counts(self, inputs: Iterable[str]) -> dict[str, int]:
        counts = {"": 0, self._anchor: 0}
        unknown: dict[str, str | bytes] = {}
        short = self._memo.young  # where most texts stand under themselves
        for text in inputs:
            if text not in counts:
                tokens = short.get(text)
                if tokens is None:
                    key = memo_key(text)
                    tokens = self._memo.get(key)
                if tokens is None:
                    unknown[text] = key
                else:
                    counts[text] = tokens
        for (text, key), tokens in zip(unknown.items(), self._tokenised(list(unknown)), strict=True):
            counts[text] = tokens
            self._memo.put(key, tokens)
        return counts

    def _tokenised(self, inputs: list[str]) -> list[int]:
        encodings = self._tokenizer.encode_batch_fast(inputs, add_special_tokens=False)
        anchored = self.special is not None
        return [len(found) - (anchored and text.startswith(self._anchor)) for text, found in zip(inputs, encodings, strict=True)]

    def _holds(self, boundaries: Sequence[str]) -> bool:
        """Whether awkward texts between any two of these tokens count as they do inside the whole."""
        texts = [token.join(("", *_AWKWARD, "")) for token in boundaries]
        texts += [token.join(_AWKWARD) for token in boundaries]
        wholes = self._tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        return [measure.total for measure in self.measure(*texts)] == [len(whole) for whole in wholes]


def _length(beginning: _Beginning) -> int:
    return len(beginning.text)


def _boundaries(tokenizer: Any, seen: str) -> list[str]:
    """The added tokens in a text at which any text may be cut; longer ones first."""
    tokens = list(tokenizer.get_added_tokens_decoder().values())
    normalises = tokenizer.normalizer is not None and any(tokenizer.normalizer.normalize_str(text) != text for text in _AWKWARD)
    named = [token for token in tokens if token.content in seen and _stands_alone(token, normalises)][:_MOST_BOUNDARIES]
    rivals = {token.content: _rivals(token, tokens) for token in named}
    while spoilt := [text for text, others in rivals.items() if not others <= rivals.keys()]:
        for text in spoilt:
            del rivals[text]
    return sorted(rivals, key=len, reverse=True)


def _stands_alone(token: Any, normalises: bool) -> bool:
    """Whether a token is found by its text alone, wherever it stands."""
    spaced = token.lstrip or token.rstrip or token.single_word
    return bool(token.content) and not spaced and not (token.normalized and normalises)


def _rivals(token: Any, tokens: Sequence[Any]) -> set[str]:
    """The tokens that may be found in a text where this one stands, unless both are cut at."""
    return {other.content for other in tokens if other.content != token.content and _rules_out(other, token)}


def _rules_out(other: Any, token: Any) -> bool:
    """Whether the other holds the token or ends as it begins; when the tokenizer looks for them at different times (`normalized`
    tokens come second), whether they overlap at all."""
    text, rival = token.content, other.content
    if text in rival or _meet(rival, text):
        return True
    return other.normalized != token.normalized and (rival in text or _meet(text, rival))


def _meet(first: str, second: str) -> bool:
    """Whether the second text begins with an end of the first."""
    return any(second.startswith(first[at:]) for at in range(1, len(first)))
