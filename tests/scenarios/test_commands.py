"""The command line from outside: one clear line for what is wrong, exit codes as promised, and secrets in no output."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from gateway.cli import main
from tests.scenarios.loopback.running_gateway import SMALL, run_command, write_config

NOWHERE = "http://127.0.0.1:9/v1"
SECRETS = ("sk-very-secret", "header-secret", "query-secret", "password-in-url", "from-environment")

BAD_SETTINGS = [
    ("[server]\nprot = 1\n", "server.prot", "port"),
    ("[server]\nport = 70000\n", "server.port", "70000"),
    ('[server]\nport = "http"\n', "server.port", "number"),
    ('[store]\nurl = "mysql://x"\n', "store.url", "sqlite"),
    ("[defaults]\ncut_step = 2.0\n", "defaults.cut_step", "1"),
    ('[defaults]\ncontext_strategy = "magic"\n', "defaults.context_strategy", "truncate"),
    ('[providers.fake]\napi_key = "${NO_SUCH_VARIABLE}"\n', "providers.fake.api_key", "NO_SUCH_VARIABLE"),
    ('[providers.fake]\nkind = "openai"\n', "providers.fake.base_url", "needed"),
    ('[[auth.keys]]\nname = "a"\nsha256 = "short"\n', "auth.keys[0].sha256", "64"),
    ("[timeouts]\nidle_s = -1\n", "timeouts.idle_s", ""),
    ("[server\n", "line 1", "TOML"),
    ('[server]\nhost = "0.0.0.0"\n', "server.host", "auth.keys"),
]
BAD_MODELS = [
    ("contxt_limit = 5\n", "contxt_limit", "context_limit"),
    ("context_limit = 0\n", "context_limit", "1"),
    ('provider = "nobody"\n', "provider", "fake"),
    ('tokenizer = "nonsense"\n', "tokenizer", "o200k_base"),
    ('context_strategy = "magic"\n', "context_strategy", "truncate"),
    ('fallbacks = ["nobody"]\n', "fallbacks", "nobody"),
]


@pytest.fixture
def complaint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[[], str]:
    """Gives the one line that `sluicegate check` ends with, on stderr. In this process: a new one a case would take long."""
    monkeypatch.chdir(tmp_path)

    def one_line() -> str:
        code = main(["check", "--config", "config"])
        printed = capsys.readouterr()
        assert (code, printed.out) == (1, "")
        (line,) = printed.err.splitlines()
        assert line.startswith("sluicegate: ")
        return line

    return one_line


@pytest.mark.parametrize(("text", "key", "hint"), BAD_SETTINGS, ids=[case[1] for case in BAD_SETTINGS])
def test_bad_settings_are_one_line_that_names_file_and_key(
    tmp_path: Path, complaint: Callable[[], str], text: str, key: str, hint: str
) -> None:
    (write_config(tmp_path, NOWHERE) / "models" / "small.toml").unlink()
    (tmp_path / "config" / "gateway.toml").write_text(text)
    line = complaint()
    assert f"config/gateway.toml: {key}" in line
    assert hint in line


@pytest.mark.parametrize(("text", "key", "hint"), BAD_MODELS, ids=[case[1] for case in BAD_MODELS])
def test_a_bad_model_file_is_one_line_that_names_file_and_key(
    tmp_path: Path, complaint: Callable[[], str], text: str, key: str, hint: str
) -> None:
    replaced = text.partition(" =")[0]
    kept = "".join(line for line in SMALL.splitlines(keepends=True) if not line.startswith(replaced))
    write_config(tmp_path, NOWHERE, models={"small": kept + text})
    line = complaint()
    assert f"config/models/small.toml: {key}" in line
    assert hint in line


@pytest.mark.parametrize("command", ["serve", "check", "models"])
def test_every_command_refuses_a_bad_configuration(tmp_path: Path, command: str) -> None:
    write_config(tmp_path, NOWHERE, server="port = 0.5\nhots = 1", more="[timeouts]\nidle_s = 0")
    run = run_command(tmp_path, command, "--config", "config")
    assert (run.returncode, run.stdout) == (1, "")
    for key in ("server.port", "server.hots", "timeouts.idle_s"):
        assert f"config/gateway.toml: {key}: " in run.stderr
    assert "Traceback" not in run.stderr


def test_a_missing_directory_is_named(complaint: Callable[[], str]) -> None:
    assert "config: no such directory" in complaint()


@pytest.mark.parametrize(
    "arguments",
    [[], ["fly"], ["serve", "--workers", "0"], ["serve", "--workers", "many"], ["serve", "--nonsense"], ["check", "extra"]],
    ids=" ".join,
)
def test_wrong_usage_has_a_code_of_its_own(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    printed = capsys.readouterr()
    assert (ended.value.code, printed.out) == (2, "")
    assert "usage: sluicegate" in printed.err


def test_the_process_ends_with_that_code(tmp_path: Path) -> None:
    run = run_command(tmp_path, "serve", "--port")
    assert (run.returncode, run.stdout) == (2, "")
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("port", ["-1", "65536", "http"])
def test_a_port_that_is_none_is_said_to_come_from_the_option(tmp_path: Path, port: str) -> None:
    write_config(tmp_path, NOWHERE)
    run = run_command(tmp_path, "serve", "--config", "config", f"--port={port}")
    assert run.returncode in (1, 2)
    assert run.stdout == ""
    assert re.search("port", run.stderr, re.IGNORECASE)
    assert "Traceback" not in run.stderr


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_taken_port_is_said_without_a_traceback(tmp_path: Path, workers: str) -> None:
    write_config(tmp_path, NOWHERE)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        run = run_command(tmp_path, "serve", "--config", "config", "--port", port, "--workers", workers)
    assert (run.returncode, run.stdout) == (1, "")
    assert port in run.stderr
    assert "Traceback" not in run.stderr


def test_several_workers_can_not_share_memory(tmp_path: Path) -> None:
    write_config(tmp_path, NOWHERE)
    run = run_command(tmp_path, "serve", "--config", "config", "--port", "0", "--workers", "2", SLUICEGATE_STORE__URL="memory:")
    assert run.returncode == 1
    assert "store.url" in run.stderr


@pytest.mark.parametrize("command", ["check", "models"])
def test_no_secret_is_printed(tmp_path: Path, command: str) -> None:
    provider = 'api_key = "sk-very-secret"\nheaders = { x-key = "header-secret" }\nquery = { sig = "query-secret" }'
    digest = "ab" * 32
    more = f"""
[providers.other]
base_url = "http://user:password-in-url@127.0.0.1:9/v1"
api_key = "${{OWN_KEY}}"
[[auth.keys]]
name = "team-a"
sha256 = "{digest}"
"""
    write_config(tmp_path, NOWHERE, provider=provider, more=more)
    run = run_command(tmp_path, command, "--config", "config", OWN_KEY="from-environment")
    assert run.returncode == 0, run.stderr
    printed = run.stdout + run.stderr
    assert "small" in printed
    assert [secret for secret in (*SECRETS, digest) if secret in printed] == []


def test_the_check_tells_where_each_value_comes_from(tmp_path: Path) -> None:
    write_config(tmp_path, NOWHERE)
    run = run_command(tmp_path, "check", "--config", "config", SLUICEGATE_SERVER__PORT="1234")
    assert run.returncode == 0, run.stderr
    assert "server.port = 1234  (environment SLUICEGATE_SERVER__PORT)" in run.stdout
    assert "models.small.context_limit = 200  (file config/models/small.toml)" in run.stdout
    assert "timeouts.idle_s = 60.0  (default)" in run.stdout


def test_the_version_is_told(tmp_path: Path) -> None:
    run = run_command(tmp_path, "--version")
    assert run.returncode == 0
    assert re.fullmatch(r"sluicegate \d+\.\d+\.\d+\S*\n", run.stdout)
