"""Finds the plug-ins that are installed or named in gateway.toml, and lets each register. One that can't is told by its name.

Nothing is loaded in part: where one fails, those before it are undone. Knows nothing of what plug-ins do.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from importlib import metadata
from typing import Any

from gateway.plugins.host import PluginHost
from gateway.plugins.threads import CallFailed
from gateway.settings import Settings
from gateway.shifting import ContextStrategyRegistry
from gateway.toml_tree import Place

GROUP = "sluicegate.plugins"
"""The entry-point group of installed plug-ins."""

LOAD_S = 60.0  # so long importing and registering one plug-in may take


def load_plugins(
    settings: Settings, strategies: ContextStrategyRegistry | None = None, *, timeout_s: float = LOAD_S
) -> PluginHost:
    """A host with all plug-ins: installed ones by name, then those of `plugins.modules` in their order. Raises ConfigError.

    `strategies` are those that are there without any plug-in, the built-in ones by default.
    """
    host = PluginHost(
        ContextStrategyRegistry.with_builtins() if strategies is None else strategies,
        strategy_timeout_s=settings.plugins.strategy_timeout_s,
        interceptor_timeout_s=settings.plugins.interceptor_timeout_s,
    )
    for name, place, find in _found(settings.plugins.modules, Place(settings.provenance.file)):
        try:
            host.load(name, partial(_register, find), timeout_s)
        except CallFailed as failed:
            host.close()
            raise place.error(f"plug-in {name} can't be loaded: {failed}") from None
    return host


def _found(modules: Sequence[str], place: Place) -> Iterator[tuple[str, Place, Callable[[], Any]]]:
    """Each plug-in: its name, where it is named, and how its register function is found. One named twice loads once."""
    seen: set[str] = set()
    for entry in sorted(metadata.entry_points(group=GROUP), key=lambda entry: (entry.name, entry.value)):
        if entry.value not in seen:
            seen.add(entry.value)
            yield entry.name, Place("installed plug-ins", entry.name), entry.load
    for index, name in enumerate(modules):
        if name not in seen:
            seen.add(name)
            yield name, place.at("plugins").at("modules").item(index), partial(_imported, name)


def _imported(name: str) -> Any:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)


def _register(find: Callable[[], Any], host: Any) -> object:
    return find()(host)
