"""The strategy `manual`: what the client marked for exclusion leaves with its groups even when everything fits, then truncate."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.shifting.blocks import PromptBlock
from gateway.shifting.counting import TokenCounter
from gateway.shifting.result import Reason, ShiftResult
from gateway.shifting.shift import protection, shift_context
from gateway.shifting.strategies.base import ShiftOptions


class Manual:
    """Marked first, then oldest first in steps."""

    def shift(
        self, blocks: Sequence[PromptBlock], count_tokens: TokenCounter, budget: int, *, options: ShiftOptions
    ) -> ShiftResult[PromptBlock]:
        """Leaves out the marked groups, then the oldest unprotected ones."""
        marked = _marked_positions(blocks)
        rest = [block for i, block in enumerate(blocks) if i not in marked]
        result = shift_context(rest, count_tokens, budget, options.cut_step)
        if not marked:
            return result
        reasons = {blocks[i].id: Reason.MANUAL if blocks[i].manual_excluded else Reason.GROUP_MEMBER for i in marked} | dict(
            result.reasons
        )
        kept = {id(block) for block in result.kept}
        excluded = [block for block in blocks if id(block) not in kept]
        return ShiftResult(result.kept, excluded, (), result.prompt_tokens, result.fits, reasons)


def _marked_positions(blocks: Sequence[PromptBlock]) -> set[int]:
    """The positions of every group that holds a marked block and nothing protected: a mark on protected context is void."""
    if not any(block.manual_excluded for block in blocks):
        return set()
    groups = protection(blocks).removable()
    marked = [group for group in groups if any(blocks[i].manual_excluded for i in group.indexes)]
    return {i for group in marked for i in group.indexes}
