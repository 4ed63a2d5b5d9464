"""The pure core: which messages stay when a conversation is longer than the window. Standard library only.

Rule 1: no I/O, no clock, no logging, no await. Rule 2: nothing given is changed. Rule 3: it always ends.
"""

from __future__ import annotations

from gateway.shifting.blocks import BlockKind, PromptBlock
from gateway.shifting.budget import ContextBudget
from gateway.shifting.counting import TokenCounter
from gateway.shifting.result import Reason, ShiftResult
from gateway.shifting.shift import shift_context
from gateway.shifting.strategies.base import ContextStrategy, ShiftOptions
from gateway.shifting.strategies.registry import ContextStrategyRegistry, UnknownStrategy

__all__ = [
    "BlockKind",
    "ContextBudget",
    "ContextStrategy",
    "ContextStrategyRegistry",
    "PromptBlock",
    "Reason",
    "ShiftOptions",
    "ShiftResult",
    "TokenCounter",
    "UnknownStrategy",
    "shift_context",
]
