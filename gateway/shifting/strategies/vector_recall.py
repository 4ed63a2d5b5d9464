"""The strategy `vector-recall`: the least relevant lorebook and memory blocks leave first, then old history as in truncate.

Reads the relevance that stands on the blocks; where it came from is not known here.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence

from gateway.shifting.blocks import BlockKind, PromptBlock
from gateway.shifting.counting import TokenCounter
from gateway.shifting.groups import BlockGroup
from gateway.shifting.result import Reason, ShiftResult
from gateway.shifting.shift import protection, shift_context
from gateway.shifting.strategies.base import ShiftOptions

_RECALLED = (BlockKind.LOREBOOK, BlockKind.MEMORY)


class VectorRecall:
    """Lowest relevance first and exactly as many as needed, then oldest first in steps."""

    def shift(
        self, blocks: Sequence[PromptBlock], count_tokens: TokenCounter, budget: int, *, options: ShiftOptions
    ) -> ShiftResult[PromptBlock]:
        """Leaves out unprotected lorebook and memory blocks, then the oldest unprotected groups."""
        low = _positions_that_leave(blocks, count_tokens, budget)
        rest = [block for i, block in enumerate(blocks) if i not in low]
        result = shift_context(rest, count_tokens, budget, options.cut_step)
        if not low:
            return result
        kept = {id(block) for block in result.kept}
        excluded = [block for block in blocks if id(block) not in kept]
        reasons = {blocks[i].id: Reason.LOW_RELEVANCE for i in low} | dict(result.reasons)
        return ShiftResult(result.kept, excluded, (), result.prompt_tokens, result.fits, reasons)


def recalled_positions(blocks: Sequence[PromptBlock]) -> list[int]:
    """The positions of the lorebook and memory blocks that may leave, in the prompt's order."""
    return [i for group in _recalled_groups(blocks) for i in _recalled_members(group, blocks)]


def _positions_that_leave(blocks: Sequence[PromptBlock], count_tokens: TokenCounter, budget: int) -> set[int]:
    """The positions of the fewest groups, least relevant first, without which the rest fits; of all where it never does.

    A search by halves, since fewer blocks never count more: a few whole counts instead of one for each group.
    """
    if count_tokens(list(blocks)) <= budget:
        return set()
    groups = sorted(_recalled_groups(blocks), key=lambda group: _relevance(group, blocks))  # stable: the oldest of equals first

    def members(number: int) -> set[int]:
        return {i for group in groups[:number] for i in group.indexes}

    def fits(number: int) -> bool:
        gone = members(number)
        return count_tokens([block for i, block in enumerate(blocks) if i not in gone]) <= budget

    return members(bisect_left(range(len(groups)), True, lo=min(1, len(groups)), key=fits))


def _recalled_groups(blocks: Sequence[PromptBlock]) -> list[BlockGroup]:
    """The unprotected groups that hold such a block, oldest first."""
    if not any(block.kind in _RECALLED for block in blocks):
        return []
    return [group for group in protection(blocks).removable() if _recalled_members(group, blocks)]


def _recalled_members(group: BlockGroup, blocks: Sequence[PromptBlock]) -> list[int]:
    return [i for i in group.indexes if blocks[i].kind in _RECALLED]


def _relevance(group: BlockGroup, blocks: Sequence[PromptBlock]) -> float:
    """That of the least relevant such block, which takes its group along; one that is missing or no number counts as 0."""
    found = [blocks[i].relevance for i in _recalled_members(group, blocks)]
    return min(0.0 if value is None or math.isnan(value) else value for value in found)
