"""The tokens of texts by one of mistral-common's text tokenizers, each text counted once. Knows no chats and no files.

A long text is counted in pieces, so that one that grew behind (a system text before another user message) costs only its end.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tokenizer_profiles.text_memo import RememberingCounter
from tokenizer_profiles.tiktoken_bpe import WHITESPACE_LIMIT, split_whitespace

_PIECE = 4096  # characters after which a text may be cut


@dataclass(frozen=True, slots=True)
class Cut:
    """Where a long text may be cut so that its pieces have the tokens of the whole: `offset` characters into each match.

    `joint` is what a piece counts too much for not being the first one, in tokens.
    """

    pattern: re.Pattern[str]
    offset: int
    joint: int


# No token of the SentencePiece vocabularies holds a line end beside something else, so any will do; each piece gets a space in
# front, which is one token before a line end. Tekken's pattern ends a match behind a line end that a letter or digit follows.
SENTENCEPIECE_CUT = Cut(re.compile(r"\n"), 0, 1)
TEKKEN_CUT = Cut(re.compile(r"\n(?=[^\W_])"), 1, 0)


class CountedText:
    """mistral-common's text tokenizer, but that each text is encoded once, and that a list of tokens adds up to their number: a
    text comes back as its number of tokens, a special token as 1."""

    bos_id = eos_id = 1

    def __init__(self, tokenizer: Any, cut: Cut) -> None:
        self._tokenizer = tokenizer
        self._encode = tokenizer._model.encode  # which the tokenizer calls for a text; it then only renumbers the tokens
        self._cut = cut
        self._piece = RememberingCounter(self._piece_tokens)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)

    def get_special_token(self, s: str) -> int:
        """One token."""
        return 1

    def encode(self, s: str, bos: bool, eos: bool) -> list[int]:
        """Adds up to the tokens of the text, BOS and EOS with them."""
        return [self.count(s) + bos + eos]

    def decode(self, tokens: list[int], special_token_policy: object = None) -> str:
        """Nothing: numbers of tokens mean no text."""
        return ""

    def count(self, text: str) -> int:
        """The tokens of a text."""
        if len(text) <= _PIECE:
            return self._piece(text)
        pieces = list(cut_text(text, self._cut))
        return sum(map(self._piece, pieces)) - self._cut.joint * (len(pieces) - 1)

    def _piece_tokens(self, text: str) -> int:
        whole = text.encode("utf-8", "replace").decode("utf-8")  # lone surrogates have no UTF-8
        if len(whole) <= WHITESPACE_LIMIT:
            return len(self._encode(whole))
        return sum(len(self._encode(piece)) for piece in split_whitespace(whole))


def cut_text(text: str, cut: Cut) -> Iterator[str]:
    """The text in pieces of at least 4,096 characters (the last may be shorter)."""
    start = 0
    while len(text) - start > _PIECE and (found := cut.pattern.search(text, start + _PIECE)):
        end = found.start() + cut.offset
        yield text[start:end]
        start = end
    yield text[start:]
