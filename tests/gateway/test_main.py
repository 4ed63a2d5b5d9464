"""`python -m gateway` is the command `sluicegate`."""

from __future__ import annotations

import runpy
import sys

import pytest

from gateway import __version__


def test_the_package_runs_as_the_command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["gateway", "--version"])
    with pytest.raises(SystemExit) as caught:
        runpy.run_module("gateway", run_name="__main__")
    assert (caught.value.code, capsys.readouterr().out) == (0, f"sluicegate {__version__}\n")
