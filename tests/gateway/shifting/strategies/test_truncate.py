"""The strategy `truncate`."""

from __future__ import annotations

from gateway.shifting import PromptBlock, ShiftOptions
from gateway.shifting.strategies.truncate import Truncate


def test_truncate_cuts_in_the_steps_it_is_given() -> None:
    blocks = [PromptBlock(f"m{i}", "user", "x", tokens=10) for i in range(20)]

    def count(items: list[PromptBlock]) -> int:
        return 10 * len(items)

    assert len(Truncate().shift(blocks, count, 160, options=ShiftOptions()).kept) == 16
    assert len(Truncate().shift(blocks, count, 160, options=ShiftOptions(cut_step=0.5)).kept) == 12
