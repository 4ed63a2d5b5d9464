"""The arithmetic of room: context limit, reply reserve, margin, and what is left for the prompt. Numbers are tokens."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from fractions import Fraction


@dataclass(frozen=True, slots=True)
class ContextBudget:
    """Room for one request. `margin` steers what is left out and never refuses a request."""

    context_limit: int
    reply_reserve: int
    margin: int = 0

    @classmethod
    def of(cls, context_limit: int, reply_reserve: int, *, safety_margin: float, exact: bool) -> ContextBudget:
        """The budget under a safety margin given as a share of the limit, which exact counts do not need."""
        return cls(context_limit, reply_reserve, 0 if exact else math.ceil(safety_margin * context_limit))

    def scaled(self, factor: Fraction) -> ContextBudget:
        """The budget for a model that counts `factor` times as many tokens as we do: the margin grows by what that takes."""
        if factor <= 1 or self.prompt_limit <= 0:
            return self
        return replace(self, margin=self.hard_limit - math.floor(self.prompt_limit / factor))

    @property
    def prompt_limit(self) -> int:
        """What the prompt is brought down to."""
        return self.hard_limit - self.margin

    @property
    def hard_limit(self) -> int:
        """What the prompt may never exceed."""
        return self.context_limit - self.reply_reserve
