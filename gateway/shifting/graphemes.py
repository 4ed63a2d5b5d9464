"""Where a text may be cut without breaking what a reader sees as one character. Knows nothing of tokens or messages.

After the extended grapheme clusters of Unicode's UAX #29 (rules GB3 to GB13), from the categories in `unicodedata` alone. Where
these can't tell, it says that a cut would break: a few harmless places are refused, none inside a character is allowed.
"""

from __future__ import annotations

import unicodedata

_ZWJ = 0x200D
_VIRAMA_CLASS = 9
_MARKS = ("Mn", "Me", "Mc")
_JOINED_TO_WHAT_PRECEDES = (
    (0x0E33, 0x0E33),  # Thai and Lao vowels that are letters by category
    (0x0EB3, 0x0EB3),
    (0x1160, 0x11FF),  # Hangul vowels and finals
    (0xD7B0, 0xD7FB),
    (0x200C, 0x200D),  # joiners
    (0xFF9E, 0xFF9F),  # halfwidth voicing marks
    (0x1F3FB, 0x1F3FF),  # skin tones
    (0xE0020, 0xE007F),  # tags, as in the flag of Scotland
)
_JOINED_TO_WHAT_FOLLOWS = (
    (0x0600, 0x0605),  # Arabic signs that span the digits after them
    (0x06DD, 0x06DD),
    (0x070F, 0x070F),
    (0x0890, 0x0891),
    (0x08E2, 0x08E2),
    (0x0D4E, 0x0D4E),
    (0x110BD, 0x110CD),
    (_ZWJ, _ZWJ),
)
_HANGUL_LEADS = ((0x1100, 0x115F), (0xA960, 0xA97C))
_HANGUL_SYLLABLES = ((0xAC00, 0xD7A3),)
_REGIONAL_INDICATORS = ((0x1F1E6, 0x1F1FF),)
_SURROGATES = ((0xD800, 0xDFFF),)
_Ranges = tuple[tuple[int, int], ...]


def may_cut(text: str, index: int) -> bool:
    """Whether text[:index] and text[index:] together still show the same characters."""
    if not 0 < index < len(text):
        return True
    before, after = text[index - 1], text[index]
    if before.isascii() and after.isascii():
        return (before, after) != ("\r", "\n")
    return unicodedata.category(before) == "Cc" or not (_joined(before, after) or _inside_flag(text, index))


def cut_before(text: str, index: int) -> int:
    """The last place at or before `index` where the text may be cut; 0 at the least."""
    while index > 0 and not may_cut(text, index):
        index -= 1
    return max(index, 0)


def cut_after(text: str, index: int) -> int:
    """The first place at or after `index` where the text may be cut; its length at the most."""
    while index < len(text) and not may_cut(text, index):
        index += 1
    return min(index, len(text))


def _joined(before: str, after: str) -> bool:
    left, right = ord(before), ord(after)
    return (
        unicodedata.category(after) in _MARKS
        or _within(right, _JOINED_TO_WHAT_PRECEDES)
        or _within(left, _JOINED_TO_WHAT_FOLLOWS)
        or (_within(left, _HANGUL_LEADS) and _within(right, _HANGUL_LEADS + _HANGUL_SYLLABLES))
        or (unicodedata.combining(before) == _VIRAMA_CLASS and after.isalpha())
        or (_within(left, _SURROGATES) and _within(right, _SURROGATES))
    )


def _inside_flag(text: str, index: int) -> bool:
    """Whether it is between the two halves of a flag: an odd number of halves stands before it."""
    if not _within(ord(text[index]), _REGIONAL_INDICATORS):
        return False
    start = index
    while start > 0 and _within(ord(text[start - 1]), _REGIONAL_INDICATORS):
        start -= 1
    return (index - start) % 2 == 1


def _within(code: int, ranges: _Ranges) -> bool:
    return any(first <= code <= last for first, last in ranges)
