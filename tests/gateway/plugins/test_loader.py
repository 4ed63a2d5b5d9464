"""Plug-ins are found by entry point and by name; one that can't be loaded is told by its name, and nothing is left."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable
from dataclasses import replace
from importlib import metadata
from pathlib import Path

import pytest

from gateway.plugins import loader
from gateway.plugins.loader import GROUP, load_plugins
from gateway.settings import PluginSettings, Settings
from gateway.toml_tree import ConfigError

_numbers = itertools.count()
Write = Callable[[str], str]

GOOD = """
from gateway.plugins.base import PluginHost, ShiftResult
log = []

def register(host):
    log.append("in")
    host.strategies.register("kept-all", lambda blocks, count_tokens, budget: ShiftResult(blocks, []))
    return lambda: log.append("out")
"""


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Write:
    """Writes a module that can be imported and gives its name."""
    monkeypatch.syspath_prepend(str(tmp_path))

    def module(source: str) -> str:
        name = f"a_plugin_{next(_numbers)}"
        (tmp_path / f"{name}.py").write_text(source, encoding="utf-8")
        return name

    return module


def naming(*modules: str) -> Settings:
    return replace(Settings(), plugins=PluginSettings(modules))


def test_without_plug_ins_the_built_in_strategies_serve() -> None:
    host = load_plugins(Settings())
    assert (host.names(), host.problems()) == ((), [])
    assert "truncate" in host.strategies.names()


def test_a_named_module_registers_and_is_undone(write: Write) -> None:
    name = write(GOOD)
    host = load_plugins(naming(f"{name}:register", f"{name}:register"))
    assert host.names() == (f"{name}:register",)
    assert "kept-all" in host.strategies.names()
    host.close()
    assert sys.modules[name].log == ["in", "out"]


def test_installed_plug_ins_load_by_name_before_the_named_ones_and_once(write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    name = write(GOOD)
    found = [metadata.EntryPoint(own, f"{name}:register", GROUP) for own in ("zeta", "alpha")]
    monkeypatch.setattr(loader.metadata, "entry_points", lambda *, group: found if group == GROUP else [])
    host = load_plugins(naming(f"{name}:register"))
    assert host.names() == ("alpha",)
    host.close()


@pytest.mark.parametrize(
    ("source", "what"),
    [
        ("raise SystemExit(1)", "it raised SystemExit"),
        ("import nothing_of_that_name", "it raised ModuleNotFoundError"),
        ("", "it raised AttributeError"),
        ("register = 7", "it raised TypeError"),
        ("def register(host): raise KeyboardInterrupt", "it raised KeyboardInterrupt"),
        ("import time\ndef register(host): time.sleep(3)", "it took longer than 1 s"),
    ],
)
def test_one_that_fails_is_named_and_those_before_it_are_undone(write: Write, source: str, what: str) -> None:
    good, bad = write(GOOD), write(source)
    with pytest.raises(ConfigError) as found:
        load_plugins(naming(f"{good}:register", f"{bad}:register"), timeout_s=1)
    assert str(found.value) == f"gateway.toml: plugins.modules[1]: plug-in {bad}:register can't be loaded: {what}"
    assert sys.modules[good].log == ["in", "out"]


def test_an_installed_one_that_fails_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [metadata.EntryPoint("broken", "nothing_of_that_name:register", GROUP)]
    monkeypatch.setattr(loader.metadata, "entry_points", lambda *, group: found)
    with pytest.raises(ConfigError, match="installed plug-ins: broken: plug-in broken can't be loaded"):
        load_plugins(Settings())
