"""The library's example: every prompt fits, its start changes seldom, and what can't be done is said."""

from __future__ import annotations

import pytest

from examples import library


def test_every_prompt_fits_and_the_start_changes_seldom(capsys: pytest.CaptureFixture[str]) -> None:
    assert library.main([]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 40
    assert all(int(line.split()[2]) <= 400 for line in lines)
    assert 2 <= sum("the start has changed" in line for line in lines) <= 10


def test_without_steps_the_start_changes_every_turn(capsys: pytest.CaptureFixture[str]) -> None:
    assert library.main(["--cut-step", "0"]) == 0
    assert "the start has changed" in capsys.readouterr().out.splitlines()[-1]


def test_what_must_stay_and_does_not_fit_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert library.main(["--budget", "10"]) == 1
    assert "tokens must stay and don't fit 10" in capsys.readouterr().err


def test_a_model_that_is_counted_as_a_whole_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert library.main(["--model", "qwen2.5-7b-instruct"]) == 1
    assert "counts whole prompts only" in capsys.readouterr().err
