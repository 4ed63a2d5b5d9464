"""Strategies by name, stacked and cleaned up."""

from __future__ import annotations

import pytest

from gateway.shifting import ContextStrategyRegistry, UnknownStrategy


def test_the_built_in_strategies_are_registered_by_the_same_door() -> None:
    assert ContextStrategyRegistry().names() == ()
    assert "truncate" in ContextStrategyRegistry.with_builtins().names()


def test_an_unknown_name_lists_the_known_ones() -> None:
    registry = ContextStrategyRegistry.with_builtins()
    with pytest.raises(UnknownStrategy) as caught:
        registry.get("no-such")
    assert isinstance(caught.value, KeyError)
    assert caught.value.names() == registry.names()
    assert "truncate" in str(caught.value)


def test_the_newest_registration_serves_and_a_cleanup_removes_only_its_own() -> None:
    registry = ContextStrategyRegistry.with_builtins()
    builtin = registry.get("truncate")
    first, second = object(), object()
    undo_first = registry.register("truncate", first)
    undo_second = registry.register("truncate", second)
    assert registry.get("truncate") is second
    undo_first()
    undo_first()
    assert registry.get("truncate") is second
    undo_second()
    undo_second()
    assert registry.get("truncate") is builtin


def test_a_name_whose_last_registration_is_undone_is_unknown() -> None:
    registry = ContextStrategyRegistry()
    undo = registry.register("mine", object())
    undo()
    undo()
    assert registry.names() == ()
    with pytest.raises(UnknownStrategy):
        registry.get("mine")
