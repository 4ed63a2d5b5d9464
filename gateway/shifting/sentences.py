"""A text as whole sentences. Knows punctuation, no language: the default where nobody gives a better splitter.

A line end always ends a sentence, and so do full stops, question and exclamation marks of the writing systems below.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

from gateway.shifting.graphemes import may_cut

SentenceSplitter = Callable[[str], Sequence[str]]

_CLOSING = r"""["'”’»›)\]}」』）】》〉]"""
# Full stops of scripts that write spaces end a sentence only before one; wide ones need none. Possessive, so that it is linear.
_END = re.compile(rf"(?:(?P<wide>[。！？｡]++)|[.!?…؟۔।॥።։]++){_CLOSING}*+(?P<space>\s++)?")
_INITIAL = re.compile(r"(?:^|[\s(.])[^\W\d_]\.$")
_NUMBERED = re.compile(r"\s{0,20}\d{1,3}\.$")  # the number of a list's item, which stands before its sentence
_REACH = 6  # characters before a full stop in which an initial is looked for


def sentences_of(text: str) -> list[str]:
    """The sentences of a text in order, without the space around them; empty ones are left out."""
    return [sentence for line in text.splitlines() for sentence in _sentences_of_line(line)]


def _sentences_of_line(line: str) -> list[str]:
    found = []
    start = 0
    for end in _END.finditer(line):
        if _ends_sentence(line, end):
            found.append(line[start : end.end()].strip())
            start = end.end()
    found.append(line[start:].strip())
    return [sentence for sentence in found if sentence]


def _ends_sentence(line: str, end: re.Match[str]) -> bool:
    stop = end.start("space") if end["space"] else end.end()
    if not may_cut(line, stop) or not may_cut(line, end.end()):
        return False
    if end["wide"]:
        return True
    if not end["space"]:
        return False
    if line[end.end() : end.end() + 1].islower():
        return False
    return not (_INITIAL.search(line[max(0, stop - _REACH) : stop]) or _NUMBERED.match(line, 0, stop))
