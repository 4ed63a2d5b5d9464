"""The arithmetic of room."""

from __future__ import annotations

from fractions import Fraction

from gateway.shifting import ContextBudget


def test_the_margin_is_a_share_of_the_limit_rounded_up_and_none_when_exact() -> None:
    assert ContextBudget.of(1001, 200, safety_margin=0.05, exact=False) == ContextBudget(1001, 200, 51)
    assert ContextBudget.of(1001, 200, safety_margin=0.05, exact=True).margin == 0


def test_the_prompt_is_brought_below_the_margin_but_refused_only_beyond_the_hard_limit() -> None:
    budget = ContextBudget(1000, 200, 50)
    assert (budget.prompt_limit, budget.hard_limit) == (750, 800)


def test_a_model_that_counts_more_shrinks_what_is_filled_and_refuses_nothing_more() -> None:
    budget = ContextBudget(1000, 200, 50)
    scaled = budget.scaled(Fraction(4, 3))
    assert (scaled.prompt_limit, scaled.hard_limit, scaled.margin) == (562, 800, 238)
    assert budget.scaled(Fraction(1)) is budget
    assert budget.scaled(Fraction(1, 2)) is budget


def test_a_budget_without_room_is_not_scaled() -> None:
    budget = ContextBudget(100, 200, 5)
    assert budget.scaled(Fraction(2)) is budget
