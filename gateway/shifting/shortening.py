"""Long single messages, shortened in the middle: head and tail stay, a marker between them says how much is gone.

Where to cut depends on the text and its room alone, so a message that is shortened in one turn of a chat is shortened to the
same text in the next. Cuts fall on space where some is near, never inside a character.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from gateway.shifting.blocks import PromptBlock
from gateway.shifting.counting import TokenCounter
from gateway.shifting.graphemes import cut_after, cut_before, may_cut

LEAST_ROOM = 32  # tokens; with the marker in it less than this tells nothing
LEAST_END = 64  # characters of a head or a tail, by which one still knows the text
_MARKER = "\n[… {} tokens left out …]\n"
_ROUNDS = 10
_BY_PROPORTION = 3  # rounds in which the next length follows from the last count; then what is left is halved
_CLOSE_ENOUGH = 0.9  # of the room
_SPACE_WITHIN = 80  # characters


def shortened(block: PromptBlock, room: int, count_tokens: TokenCounter) -> PromptBlock | None:
    """The block with its text cut to about `room` tokens, never to more than it has; None where that can't be done.

    Only messages whose content is a plain string are shortened. Where the block was counted, so is the new one.
    """
    text = block.message.get("content", block.content)
    if room < LEAST_ROOM or not isinstance(text, str):
        return None
    whole = count_tokens([block])
    fixed = 0 if block.tokens is None else whole - block.tokens

    def size(shorter: str) -> int:
        return count_tokens([block.with_content(shorter)]) - fixed

    found = shorter_text(text, whole - fixed, room, size)
    if found is None:
        return None
    edited = block.with_content(found)
    return edited if block.tokens is None else replace(edited, tokens=size(found))


def shorter_text(text: str, whole: int, room: int, size: Callable[[str], int]) -> str | None:
    """Head, marker and tail of a text of `whole` tokens, within `room` tokens as `size` counts them; None where it can't be."""
    kept, low, high = len(text) * room // max(whole, 1), 0, len(text)
    for attempt in range(_ROUNDS):
        kept = min(max(kept, low + 1), high - 1)
        if kept <= low:
            break
        tokens = size(_joined(text, kept, whole))
        if tokens > room:
            high = kept
        else:
            low = kept
            if tokens >= _CLOSE_ENOUGH * room:
                break
        kept = kept * room // max(tokens, 1) if attempt < _BY_PROPORTION else (low + high) // 2
    head, tail = _ends(text, low)
    if min(len(head), len(tail)) < LEAST_END:
        return None
    found = _joined(text, low, whole - size(head + tail))
    return found if len(found) < len(text) and size(found) < whole else None


def water_level(weights: Sequence[int], room: int) -> int:
    """The largest level to which all weights may be cut so that together they stay within the room; 0 where there is none."""
    left = room
    for number, weight in enumerate(sorted(weights)):
        share = left // (len(weights) - number)
        if weight > share:
            return max(share, 0)
        left -= weight
    return max(weights, default=0)


def _joined(text: str, kept: int, left_out: int) -> str:
    head, tail = _ends(text, kept)
    return head + _MARKER.format(left_out) + tail


def _ends(text: str, kept: int) -> tuple[str, str]:
    """Head and tail of a text, together at most `kept` characters."""
    start = (kept + 1) // 2
    end = len(text) - (kept - start)
    return text[: _near_space_before(text, start)], text[_near_space_after(text, end) :]


def _near_space_before(text: str, index: int) -> int:
    for place in range(index, index - _reach(index), -1):
        if text[place - 1].isspace() and may_cut(text, place):
            return place
    return cut_before(text, index)


def _near_space_after(text: str, index: int) -> int:
    for place in range(index, index + _reach(len(text) - index)):
        if text[place].isspace() and may_cut(text, place):
            return place
    return cut_after(text, index)


def _reach(length: int) -> int:
    """In how many characters of a head or tail so long space is looked for."""
    return min(_SPACE_WITHIN, length // 4)
