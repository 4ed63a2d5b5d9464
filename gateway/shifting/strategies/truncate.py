"""The strategy `truncate`: the oldest unprotected groups leave, nothing is rewritten."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.shifting.blocks import PromptBlock
from gateway.shifting.counting import TokenCounter
from gateway.shifting.result import ShiftResult
from gateway.shifting.shift import shift_context
from gateway.shifting.strategies.base import ShiftOptions


class Truncate:
    """Oldest first, in steps."""

    def shift(
        self, blocks: Sequence[PromptBlock], count_tokens: TokenCounter, budget: int, *, options: ShiftOptions
    ) -> ShiftResult[PromptBlock]:
        """Leaves out the oldest unprotected groups."""
        return shift_context(blocks, count_tokens, budget, options.cut_step)
