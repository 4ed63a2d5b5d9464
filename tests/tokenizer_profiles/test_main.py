from __future__ import annotations

import io
import json
import subprocess
import sys

import pytest

from tokenizer_profiles import tiktoken_bpe
from tokenizer_profiles.__main__ import main

HELLO = {"messages": [{"role": "user", "content": "hello world"}]}


def run(monkeypatch: pytest.MonkeyPatch, request: object, *arguments: str) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(request if isinstance(request, str) else json.dumps(request)))
    return main(list(arguments))


def test_a_request_is_counted_part_by_part(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, {**HELLO, "response_format": {"type": "json_object"}}, "gpt-4o") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "        6  message 0"
    assert lines[1].endswith("response format, approximate")
    assert lines[2] == "        3  template"
    assert lines[3:] == ["       15  total, approximate (profile o200k_base)"]


def test_an_exact_count_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, HELLO, "gpt-4o") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "        9  total, exact (profile o200k_base)"


def test_an_unknown_model_says_why_it_is_only_estimated(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, HELLO, "claude-sonnet-4") == 0
    assert capsys.readouterr().out.splitlines()[-1] == "approximate: no tokenizer is known for a model of this name"


def test_programs_get_json(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, HELLO, "gpt-4o", "--json") == 0
    nothing = {"tokens": 0, "approximate": False}
    assert json.loads(capsys.readouterr().out) == {
        "profile": "o200k_base",
        "total": 9,
        "approximate": False,
        "messages": [{"tokens": 6, "approximate": False}],
        "tools": nothing,
        "response_format": nothing,
        "template": {"tokens": 3, "approximate": False},
    }
    assert run(monkeypatch, HELLO, "never-heard-of", "--json") == 0
    assert json.loads(capsys.readouterr().out)["reason"] == "no tokenizer is known for a model of this name"


def test_a_profile_may_be_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, {"messages": []}, "gpt-4o", "--profile", "approximate") == 0
    assert capsys.readouterr().out.splitlines()[-1].endswith("total, approximate (profile approximate)")


@pytest.mark.parametrize("request_text", ["", "{", "[]", '{"messages": 1}', '{"messages": [1]}', "[" * 200_000])
def test_wrong_input_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], request_text: str) -> None:
    assert run(monkeypatch, request_text, "gpt-4o") == 2
    captured = capsys.readouterr()
    assert (captured.out, len(captured.err.splitlines())) == ("", 1)
    assert captured.err.startswith("the input is")


def test_an_unknown_profile_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, HELLO, "gpt-4o", "--profile", "o300k") == 2
    assert "unknown tokenizer profile 'o300k'; known: auto, o200k_base" in capsys.readouterr().err


def test_a_profile_that_cannot_be_had_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, HELLO, "gpt-4o", "--profile", "remote") == 1
    assert "remote" in capsys.readouterr().err
    monkeypatch.setattr(tiktoken_bpe, "find_spec", lambda name: None)
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    assert run(monkeypatch, HELLO, "gpt-4o", "--profile", "cl100k_base") == 1
    assert "install sluicegate[litellm]" in capsys.readouterr().err


def test_it_runs_as_a_module() -> None:
    command = [sys.executable, "-m", "tokenizer_profiles", "gpt-4o", "--json"]
    done = subprocess.run(command, input=json.dumps(HELLO), capture_output=True, text=True, check=True)  # noqa: S603  (our own)
    assert json.loads(done.stdout)["total"] == 9
