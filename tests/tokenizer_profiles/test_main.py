from __future__ import annotations

import io
import json

import pytest

from tokenizer_profiles.__main__ import main


def run(monkeypatch: pytest.MonkeyPatch, request: object, *arguments: str) -> int:
    monkeypatch.setattr("sys.stdin", io.StringIO(request if isinstance(request, str) else json.dumps(request)))
    return main(list(arguments))


def test_a_request_is_counted_part_by_part(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    request = {"messages": [{"role": "user", "content": "hello world"}], "response_format": {"type": "json_object"}}
    assert run(monkeypatch, request, "gpt-4o") == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "        6  message 0"
    assert lines[1].endswith("response format, approximate")
    assert lines[2] == "        3  template"
    assert lines[-1].endswith("total (o200k_base), approximate")


def test_a_profile_may_be_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, {"messages": []}, "gpt-4o", "--profile", "approximate") == 0
    assert "total (approximate), approximate" in capsys.readouterr().out


@pytest.mark.parametrize("request_text", ["{", "[]", '{"messages": 1}', '{"messages": [1]}'])
def test_wrong_input_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], request_text: str) -> None:
    assert run(monkeypatch, request_text, "gpt-4o") == 1
    assert len(capsys.readouterr().err.splitlines()) == 1


def test_a_wrong_profile_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(monkeypatch, {"messages": []}, "gpt-4o", "--profile", "remote") == 1
    assert "remote" in capsys.readouterr().err
