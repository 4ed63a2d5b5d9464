"""The contract of a strategy: a way of shortening. It gets blocks, a counter and a budget, and gives back a partition."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from gateway.shifting.blocks import PromptBlock
from gateway.shifting.counting import TokenCounter
from gateway.shifting.result import ShiftResult

Cleanup = Callable[[], None]


@dataclass(frozen=True, slots=True)
class ShiftOptions:
    """What a strategy may take into account: the cut step (a share of the budget) and the room for a summary (tokens)."""

    cut_step: float = 0.0
    summary_tokens: int = 0


class ContextStrategy(Protocol):
    """A way of shortening a prompt. One that takes time for long texts says so by an attribute `reads_texts`."""

    def shift(
        self, blocks: Sequence[PromptBlock], count_tokens: TokenCounter, budget: int, *, options: ShiftOptions
    ) -> ShiftResult[PromptBlock]:
        """Partitions the blocks so that what is kept fits, where that is possible."""


AnyStrategy = Any  # what may be registered: an object with `shift`, or a plain callable, with or without `options`
