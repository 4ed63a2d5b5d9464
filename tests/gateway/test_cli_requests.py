"""`sluicegate preview` and `sluicegate count`: a request from a file, without a server; wrong input ends with 1, in one line."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from gateway import cli, previewing
from gateway.cli import main
from tests.support.running_app import GATEWAY, MODEL, write_tree
from tokenizer_profiles import ProfileDataMissing


def config(tmp_path: Path, gateway: str = GATEWAY, **models: str) -> list[str]:
    return ["--config", str(write_tree(tmp_path, gateway, **models))]


HELLO = {"model": "m", "messages": [{"role": "user", "content": "hello world"}]}


@pytest.fixture
def request_file(tmp_path: Path) -> str:
    """A request of the model `m` in a file."""
    file = tmp_path / "request.json"
    file.write_text(json.dumps(HELLO))
    return str(file)


def test_preview_tells_people_what_would_be_sent(tmp_path: Path, request_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preview", request_file, *config(tmp_path)]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert (lines[0], err) == ("m at up, strategy truncate, tokenizer approximate, approximate", "")
    assert lines[-1].split()[1:] == ["kept", "current-turn", "m0", "user:", "hello", "world"]


def test_preview_compares_strategies(tmp_path: Path, request_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preview", request_file, "--strategy", "manual", "--strategy", "truncate", *config(tmp_path)]) == 0
    first, second = (part for part in capsys.readouterr().out.split("\n\nm at up, "))
    assert "strategy manual" in first
    assert "strategy truncate" in second


@pytest.mark.parametrize("strategies", [[], ["manual"], ["manual", "truncate"]])
def test_preview_tells_programs_the_same_as_the_endpoint(
    tmp_path: Path, request_file: str, capsys: pytest.CaptureFixture[str], strategies: list[str]
) -> None:
    chosen = [word for name in strategies for word in ("--strategy", name)]
    assert main(["preview", request_file, "--json", *chosen, *config(tmp_path)]) == 0
    found = json.loads(capsys.readouterr().out)
    previews = found["previews"] if len(strategies) > 1 else [found]
    assert [each["contextStrategy"] for each in previews] == (strategies or ["truncate"])
    assert all(each["providerMessages"] == HELLO["messages"] and each["fits"] for each in previews)


def test_over_budget_is_an_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    long = json.dumps({**HELLO, "messages": [{"role": "user", "content": "word " * 500}]}).encode()
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(long)))
    assert main(["preview", "-", *config(tmp_path)]) == 0
    assert "does not fit: " in capsys.readouterr().out


def test_count_is_by_the_configured_tokenizer(tmp_path: Path, request_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["count", request_file, *config(tmp_path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].endswith("  message 0, user, approximate")
    assert lines[-1].endswith("  total, approximate (profile approximate)")


def test_count_finds_the_configuration_where_the_gateway_does(
    tmp_path: Path, request_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    write_tree(tmp_path / "config", m=MODEL.replace('"approximate"', '"o200k_base"'))
    monkeypatch.chdir(tmp_path)
    assert main(["count", request_file]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "        9  total, exact (profile o200k_base)"


def test_count_needs_no_configuration(
    tmp_path: Path, request_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["count", request_file, "--model", "gpt-4o"]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "        9  total, exact (profile o200k_base)"
    assert main(["count", request_file]) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "approximate: no tokenizer is known for a model of this name"


@pytest.mark.parametrize("command", ["preview", "count"])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "not valid JSON"),
        ("[]", "must be a JSON object"),
        ('{"model": "m"}', "no `messages`"),
        ('{"messages": [{"role": "user", "content": "x"}]}', "no `model`"),
        (None, "It can't be read: No such file or directory."),
    ],
)
def test_a_request_that_is_none_is_wrong_input(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, text: str | None, words: str
) -> None:
    file = tmp_path / "request.json"
    if text is not None:
        file.write_text(text)
    assert main([command, str(file), *config(tmp_path)]) == 1
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert err.startswith(f"sluicegate: {file}: ")
    assert words in err


def test_what_a_preview_cannot_find_is_wrong_input(tmp_path: Path, request_file: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preview", request_file, "--strategy", "nonsense", *config(tmp_path)]) == 1
    assert "There is no such context strategy; known are " in capsys.readouterr().err
    assert main(["preview", request_file, *config(tmp_path, other=MODEL.replace('"m"', '"other"'), m="model = 1")]) == 1
    assert "m.toml: model" in capsys.readouterr().err


def test_a_tokenizer_that_cannot_be_had_is_wrong_input(
    tmp_path: Path, request_file: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def missing(*arguments: Any) -> Any:
        raise ProfileDataMissing("install something")

    monkeypatch.setattr(previewing, "count", missing)
    assert main(["count", request_file]) == 1
    assert capsys.readouterr().err == "sluicegate: install something\n"


def test_a_terminal_that_knows_few_characters_gets_what_it_can_show(
    tmp_path: Path, request_file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path(request_file).write_text(json.dumps({**HELLO, "messages": [{"role": "user", "content": "世界"}]}))
    printed = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    monkeypatch.setattr("sys.stdout", printed)
    assert main(["preview", request_file, *config(tmp_path)]) == 0
    printed.seek(0)
    assert printed.read().endswith("m0 user: \\u4e16\\u754c\n")


def test_nothing_is_written_once_nobody_reads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def print_all(lines: object) -> None:
        raise BrokenPipeError

    monkeypatch.setattr(cli, "_print_all", print_all)
    with (tmp_path / "out").open("w") as out:
        monkeypatch.setattr("sys.stdout", out)
        assert main(["key", "new", "a"]) == 0
        out.write("the last flush")
    assert (tmp_path / "out").read_text() == ""


def test_output_that_nobody_reads_any_more_is_no_error() -> None:
    command = [sys.executable, "-m", "gateway", "profiles"]
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as nobody:
        done = subprocess.run(command, stdout=nobody, stderr=subprocess.PIPE, check=False)  # noqa: S603  (our own)
    assert (done.returncode, done.stderr) == (0, b"")
