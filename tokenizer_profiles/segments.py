"""Exact tokens of a rendered prompt, by the texts between its special tokens: each new text is tokenised once, all in one call.

A tokenizer never merges across a special token, so the prompt's tokens are those of the texts between them, plus one for each.
Whether that holds for a server is tried once, when it is learned; where it does not, every prompt is tokenised as a whole.
"""

from __future__ import annotations

import asyncio
import re
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

from tokenizer_profiles.errors import RemoteUnavailable
from tokenizer_profiles.llama_server import LlamaServer
from tokenizer_profiles.text_memo import TextMemo, memo_key

# <|im_start|>, <s>, <start_of_turn>, <｜User｜>, [INST]
_LOOKS_SPECIAL = re.compile(r"<[^<>\s'\"{}%]{1,60}>|\[/?[A-Z][A-Z_]{1,40}\]")
_MOST_CANDIDATES = 64
_PROBE = (
    {"role": "user", "content": "  Grüße, 世界!\n\n 12345 🙂 "},
    {"role": "assistant", "content": "\tif x:\n    return  x\n"},
    {"role": "user", "content": "naïve  "},
)


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """What was learned of a server: the pattern of its special tokens (None: tokenise whole prompts), one of their ids, the
    tokens it adds to every prompt (BOS), and the text that its template puts at the end to ask for a reply."""

    special: re.Pattern[str] | None
    separator: int
    added: int
    primer: str


@dataclass(frozen=True, slots=True)
class Measure:
    """The tokens of a prompt at every boundary: `ends[i]` characters hold `sums[i]` tokens."""

    ends: tuple[int, ...]
    sums: tuple[int, ...]

    @property
    def total(self) -> int:
        """The tokens of the whole text."""
        return self.sums[-1]

    def followed_by(self, other: Measure) -> Measure:
        """The measure of two texts one behind the other."""
        end, tokens = self.ends[-1], self.sums[-1]
        return Measure(
            (*self.ends, *(end + offset for offset in other.ends[1:])), (*self.sums, *(tokens + more for more in other.sums[1:]))
        )

    def special(self) -> list[tuple[int, int, int]]:
        """Where special tokens begin and end, when the text was cut at them, and the tokens before each: every second piece is
        one."""
        return list(zip(self.ends[1:-1:2], self.ends[2:-1:2], self.sums[1:-1:2], strict=True))

    def before(self, offset: int) -> int:
        """The tokens before a character; inside a segment in proportion to its characters. Never falls as `offset` grows."""
        at = bisect_right(self.ends, offset) - 1
        if at == len(self.ends) - 1:
            return self.total
        share = (offset - self.ends[at]) / (self.ends[at + 1] - self.ends[at])
        return self.sums[at] + int(share * (self.sums[at + 1] - self.sums[at]))


class SegmentCounter:
    """Counts rendered prompts of one server with what was learned of it."""

    def __init__(self, server: LlamaServer, vocabulary: Vocabulary, memo: TextMemo) -> None:
        self._server = server
        self._vocabulary = vocabulary
        self._memo = memo

    async def measure(self, *prompts: str) -> list[Measure]:
        """The tokens of each prompt, without those that the server adds (`Vocabulary.added`)."""
        special = self._vocabulary.special
        if special is None:
            return list(await asyncio.gather(*(self._whole(prompt) for prompt in prompts)))
        cut = [special.split(prompt) for prompt in prompts]  # texts at even places, special tokens at odd ones
        counts = await self._counts({text for pieces in cut for text in pieces[::2] if text})
        return [measured(pieces, [1 if at % 2 else counts.get(text, 0) for at, text in enumerate(pieces)]) for pieces in cut]

    async def _whole(self, prompt: str) -> Measure:
        tokens = len(await self._server.tokenize(prompt, add_special=True)) - self._vocabulary.added
        return measured([prompt], [tokens])

    async def _counts(self, texts: Iterable[str]) -> dict[str, int]:
        known = {text: self._memo.get(memo_key(text)) for text in texts}
        counts = {text: tokens for text, tokens in known.items() if tokens is not None}
        unknown = [text for text, tokens in known.items() if tokens is None]
        if unknown:
            for text, tokens in zip(unknown, await self._tokenized(unknown), strict=True):
                counts[text] = tokens
                self._memo.put(memo_key(text), tokens)
        return counts

    async def _tokenized(self, texts: Sequence[str]) -> list[int]:
        """The tokens of many texts by one call, which the separator's id cuts apart again."""
        separator = self._vocabulary.separator
        content = [item for text in texts for item in (text, separator)]
        counts = [0]
        for token in await self._server.tokenize(content):
            if token == separator:
                counts.append(0)
            else:
                counts[-1] += 1
        if len(counts) != len(texts) + 1:
            raise RemoteUnavailable("/tokenize did not keep the texts apart")
        return counts[:-1]


async def learn(server: LlamaServer, props: Mapping[str, Any]) -> Vocabulary:
    """Finds out how a server tokenises: a few dozen small calls, once."""
    found = await asyncio.gather(*(_special_id(server, text) for text in _candidates(props)))
    ids = {text: token for text, token in found if token is not None}
    with_added, plain = await asyncio.gather(server.tokenize("a", add_special=True), server.tokenize("a"))
    prompt, unasked = await asyncio.gather(
        server.render({"messages": _PROBE}), server.render({"messages": _PROBE, "add_generation_prompt": False})
    )
    primer = prompt[len(unasked) :] if prompt.startswith(unasked) else ""
    added = len(with_added) - len(plain)
    whole = Vocabulary(None, 0, added, primer)
    if not ids:
        return whole
    longest_first = "|".join(re.escape(text) for text in sorted(ids, key=len, reverse=True))
    cut = Vocabulary(re.compile(f"({longest_first})"), next(iter(ids.values())), added, primer)
    (measured,), tokens = await asyncio.gather(
        SegmentCounter(server, cut, TextMemo()).measure(prompt), server.tokenize(prompt, add_special=True)
    )
    return cut if measured.total + added == len(tokens) else whole


def measured(pieces: Sequence[str], tokens: Sequence[int]) -> Measure:
    """The measure of a text that consists of pieces with so many tokens each."""
    ends = accumulate((len(piece) for piece in pieces), initial=0)
    return Measure(tuple(ends), tuple(accumulate(tokens, initial=0)))


def _candidates(props: Mapping[str, Any]) -> list[str]:
    templates = [value for key, value in props.items() if key.startswith("chat_template") and isinstance(value, str)]
    named = [props[key] for key in ("bos_token", "eos_token") if isinstance(props.get(key), str)]
    texts = [*named, *(found for template in templates for found in _LOOKS_SPECIAL.findall(template))]
    return [text for text in dict.fromkeys(texts) if text][:_MOST_CANDIDATES]


async def _special_id(server: LlamaServer, text: str) -> tuple[str, int | None]:
    parsed, plain = await asyncio.gather(server.tokenize(text), server.tokenize(text, parse_special=False))
    return text, parsed[0] if len(parsed) == 1 and parsed != plain else None
