"""The example plug-in is found by its own entry point's name, loads, and needs no correction."""

from __future__ import annotations

import asyncio
import re
import subprocess
import sys
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest

from gateway.plugins.loader import GROUP, load_plugins
from gateway.settings import PluginSettings, Settings
from gateway.shifting import ShiftOptions
from tests.gateway.plugins.prompts import CONTEXT, blocks_of, counted

ROOT = Path(__file__).parents[3]
EXAMPLE = ROOT / "examples" / "plugin"


def test_the_example_loads_and_its_work_stands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(EXAMPLE))
    entry = tomllib.loads((EXAMPLE / "pyproject.toml").read_text(encoding="utf-8"))["project"]["entry-points"][GROUP]["example"]
    host = load_plugins(replace(Settings(), plugins=PluginSettings((entry,))))
    said = [("user", "first"), ("assistant", "<think>hm</think>yes"), ("user", "w " * 9), ("assistant", "two"), ("user", "now")]
    blocks = blocks_of([{"role": role, "content": text} for role, text in said])
    result = asyncio.run(host.shift(host.strategies.get("keep-opening"), blocks, counted, 20, ShiftOptions()))
    assert ([block.id for block in result.kept], list(result.diagnostics)) == (["m0", "m1", "m3", "m4"], [])
    found = asyncio.run(host.intercept(result.kept, CONTEXT))
    assert ([block.content for block in found.blocks], found.diagnostics) == (["first", "yes", "two", "now"], ())
    host.close()
    assert "keep-opening" not in host.strategies.names()


def test_the_examples_own_tests_pass() -> None:
    script = (
        "import sys, pytest; sys.path[:0] = sys.argv[1:3]; sys.exit(pytest.main(['-q', '-p', 'no:cacheprovider', sys.argv[1]]))"
    )
    run = subprocess.run([sys.executable, "-c", script, str(EXAMPLE), str(ROOT)], capture_output=True, text=True, check=False)  # noqa: S603
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_code_of_the_guide_runs() -> None:
    guide = (ROOT / "docs" / "guides" / "plugins.md").read_text(encoding="utf-8")
    (code,) = re.findall(r"```python\n(.*?)```", guide, re.DOTALL)
    names: dict[str, object] = {}
    exec(code, names)  # noqa: S102 - the guide's own code
    kept = names["NewestOnly"]().shift(
        blocks_of([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}]), counted, 7
    )  # type: ignore[operator]
    assert [block.content for block in kept.kept] == ["b"]
