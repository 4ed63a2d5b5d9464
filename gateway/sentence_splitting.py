"""Whole sentences by sentencex, which knows the abbreviations of many languages. Knows nothing of tokens or messages.

The library is native code and made for honest prose, so it is given one line at a time, never a very long one, and what it gives
back is put together again where it would cut a character. Text it can't read is split by punctuation alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from gateway.shifting.graphemes import may_cut
from gateway.shifting.sentences import sentences_of

LONGEST_LINE = 2_000  # characters; on nested quotation marks the library takes quadratic time
_CYRILLIC = re.compile("[\u0400-\u04ff]")


def split_sentences(text: str) -> list[str]:
    """The sentences of a text in order, without the space around them; a line end always ends one, empty ones are left out."""
    found = (sentence.strip() for line in text.splitlines() for sentence in _sentences_of_line(line))
    return [sentence for sentence in found if sentence]


def _sentences_of_line(line: str) -> Sequence[str]:
    if len(line) > LONGEST_LINE:
        return sentences_of(line)
    from sentencex import segment  # type: ignore[import-untyped]  # here: most gateways never summarize

    try:
        return list(_whole(line, segment("ru" if _CYRILLIC.search(line) else "en", line)))
    except UnicodeEncodeError:  # a lone surrogate
        return sentences_of(line)
    except BaseException as error:
        if type(error).__name__ == "PanicException":  # a defect of the library, which is no Exception
            return sentences_of(line)
        raise


def _whole(line: str, pieces: Sequence[str]) -> Iterator[str]:
    """The pieces of a line, those together between which it may not be cut."""
    start = end = 0
    for piece in pieces:
        end += len(piece)
        if may_cut(line, end):
            yield line[start:end]
            start = end
    yield line[start:]
