"""The arithmetic of room."""

from __future__ import annotations

from gateway.shifting import ContextBudget


def test_the_margin_is_a_share_of_the_limit_rounded_up_and_none_when_exact() -> None:
    assert ContextBudget.of(1001, 200, safety_margin=0.05, exact=False) == ContextBudget(1001, 200, 51)
    assert ContextBudget.of(1001, 200, safety_margin=0.05, exact=True).margin == 0


def test_the_prompt_is_brought_below_the_margin_but_refused_only_beyond_the_hard_limit() -> None:
    budget = ContextBudget(1000, 200, 50)
    assert (budget.prompt_limit, budget.hard_limit) == (750, 800)
