"""Commands end with 0 when all is fine, 1 when the configuration is wrong, 2 when they are; and never with a traceback."""

from __future__ import annotations

import contextlib
import gc
import hashlib
import os
import socket
import tomllib
from pathlib import Path
from typing import Any

import pytest

from gateway import __version__, cli, server
from gateway.app import CONFIG_VARIABLE
from gateway.cli import main
from gateway.providers.openai_compatible import OpenAICompatibleProvider
from gateway.settings import ServerSettings
from tests.support.running_app import GATEWAY, MODEL, write_tree
from tokenizer_profiles import ProfileDescription, ProfileRegistry

PORT, HOST = "SLUICEGATE_SERVER__PORT", "SLUICEGATE_SERVER__HOST"
UNNAMED = 'provider = "up"\ntokenizer = "approximate"\n'


@pytest.fixture(autouse=True)
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The models whose limit an upstream was asked for; the environment is put back at the end."""
    found: list[str] = []

    async def context_limit(self: Any, upstream_model: str) -> int | None:
        found.append(upstream_model)
        return 4096 if upstream_model == "known" else None

    monkeypatch.setattr(OpenAICompatibleProvider, "context_limit", context_limit)
    for name in (PORT, HOST, CONFIG_VARIABLE):
        monkeypatch.setenv(name, "x")
        monkeypatch.delenv(name)
    return found


def config(tmp_path: Path, gateway: str = GATEWAY, **models: str) -> list[str]:
    return ["--config", str(write_tree(tmp_path, gateway, **models))]


def test_check_prints_every_value_with_its_source(tmp_path: Path, capsys: pytest.CaptureFixture[str], asked: list[str]) -> None:
    unknown = UNNAMED + 'model = "unknown-to-all"\n'
    options = config(tmp_path, GATEWAY + 'api_key = "hush"\n', m=MODEL, a=UNNAMED + 'model = "known"', b=unknown)
    assert main(["check", *options]) == 0
    out, err = capsys.readouterr()
    assert (err, sorted(asked)) == ("", ["known", "unknown-to-all"])
    lines = out.splitlines()
    assert lines[-1] == "The configuration is valid."
    assert "server.port = 8787  (default)" in lines
    assert "models.known.context_limit = 4096  (upstream)" in lines
    assert [line for line in lines if line.startswith("warning: ") and "unknown-to-all" in line]
    assert "hush" not in out


def test_models_prints_a_line_for_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = config(tmp_path, m=MODEL + 'aliases = ["m-*"]', known=UNNAMED + 'model = "known"', _default=UNNAMED)
    assert main(["models", *options]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "known  provider up, 4096 tokens (upstream), tokenizer approximate",
        f"m, m-*  provider up, 100 tokens (file {(tmp_path / 'models' / 'm.toml').as_posix()}), tokenizer approximate",
        "_default  provider up, 8192 tokens (default), tokenizer approximate",
    ]


def test_profiles_prints_a_line_for_each(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profiles"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].startswith("o200k_base  text exact, data present, for gpt-4o*, gpt-4.1*")
    assert "approximate  approximate, data present" in lines
    assert [line.split()[0] for line in lines] == list(ProfileRegistry.with_builtins().names())[1:]


def test_profiles_says_what_to_install(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    missing = [ProfileDescription("a", ("A*",), approximate=False, data_present=False, install="install words")]
    missing.append(ProfileDescription("b:", (), approximate=False, data_present=False))
    monkeypatch.setattr(ProfileRegistry, "describe", lambda registry: missing)
    assert main(["profiles"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "a  text exact, data missing: install words, for A*",
        "b:  text exact, data missing: its package is not installed",
    ]


@pytest.mark.parametrize("command", ["check", "models", "serve"])
@pytest.mark.parametrize(
    ("gateway", "words"),
    [
        (GATEWAY + "[server]\nport = 'x'", "gateway.toml: server.port:"),
        (GATEWAY + "[server]\nprot = 1", "gateway.toml: server.prot:"),
        ("[", "gateway.toml"),
    ],
)
def test_a_wrong_configuration_is_one_line_for_people(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str, gateway: str, words: str
) -> None:
    assert main([command, *config(tmp_path, gateway)]) == 1
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert err.startswith("sluicegate: ")
    assert words in err


@pytest.mark.parametrize("command", ["check", "models", "serve"])
def test_a_directory_that_is_not_there_is_one_line_too(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str) -> None:
    assert main([command, "--config", str(tmp_path / "nowhere")]) == 1
    assert "no such directory" in capsys.readouterr().err


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["serve", "--nonsense"],
        ["check", "--port", "1"],
        ["profiles", "--config", "."],
        ["preview"],
        ["preview", "x", "y"],
        ["count", "x", "--strategy", "truncate"],
        ["key", "new"],
        ["key", "old", "team-a"],
        ["serve", "--config"],
        *[["serve", "--workers", number] for number in ("0", "65", "-1", "x", "", "²", "1.0")],
    ],
)
def test_wrong_usage_ends_with_two(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(arguments)
    assert caught.value.code == 2
    assert "usage: sluicegate" in capsys.readouterr().err


def test_the_version_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["--version"])
    assert (caught.value.code, capsys.readouterr().out) == (0, f"sluicegate {__version__}\n")


class Served:
    """What the server was asked to run."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *, answered: bool = True) -> None:
        """`answered` is whether it will have answered."""
        self.one: list[Any] = []
        self.many: list[Any] = []
        self.addresses: list[tuple[str, int]] = []

        def serve_one(app: Any, settings: ServerSettings, bound: socket.socket, ready: Any) -> bool:
            self.one.append((app, settings))
            self._take(bound)
            ready("http://127.0.0.1:1")
            return answered

        def serve_many(factory: str, settings: ServerSettings, workers: int, bound: socket.socket, ready: Any) -> bool:
            self.many.append((factory, settings, workers, ready))
            self._take(bound)
            return answered

        monkeypatch.setattr(server, "serve_one", serve_one)
        monkeypatch.setattr(server, "serve_many", serve_many)

    def _take(self, bound: socket.socket) -> None:
        with bound, contextlib.closing(socket.create_connection(bound.getsockname())):
            assert bound.get_inheritable()
            self.addresses.append(bound.getsockname()[:2])


@pytest.mark.parametrize(("answered", "code"), [(True, 0), (False, 1)])
def test_serve_runs_the_gateway_and_says_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], answered: bool, code: int
) -> None:
    served = Served(monkeypatch, answered=answered)
    assert main(["serve", *config(tmp_path), "--host", "localhost", "--port", "0"]) == code
    assert capsys.readouterr().out == "sluicegate answers at http://127.0.0.1:1\n"
    app, settings = served.one[0]
    assert callable(app)
    assert (settings.host, settings.port) == ("localhost", 0)
    (host, port) = served.addresses[0]
    assert (host, port > 0) == ("127.0.0.1", True)


@pytest.mark.parametrize("host", ["::1", "[::1]"])
def test_an_address_of_version_six_is_bound_with_brackets_or_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], host: str
) -> None:
    bound: list[Any] = []

    class Socket(socket.socket):
        def bind(self, address: Any) -> None:
            bound.append((self.family, address))
            raise OSError(99, "no such interface")

    monkeypatch.setattr(cli.socket, "socket", Socket)
    assert main(["serve", *config(tmp_path), "--host", host, "--port", "7"]) == 1
    assert bound == [(socket.AF_INET6, ("::1", 7))]
    assert "::1 port 7 can't be used: no such interface" in capsys.readouterr().err


def test_options_outlive_a_reload(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    served = Served(monkeypatch)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    assert main(["serve", *config(tmp_path), "--port", str(port)]) == 0
    assert (os.environ[PORT], os.environ.get(HOST), served.addresses) == (str(port), None, [("127.0.0.1", port)])


@pytest.mark.parametrize(("answered", "code"), [(True, 0), (False, 1)])
def test_several_workers_share_a_factory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answered: bool, code: int) -> None:
    served = Served(monkeypatch, answered=answered)
    url = f"sqlite:///{tmp_path / 'audits.db'}"
    assert main(["serve", *config(tmp_path, GATEWAY.replace("memory:", url)), "--workers", "3", "--port", "0"]) == code
    factory, settings, workers, ready = served.many[0]
    assert (factory, settings.port, workers, callable(ready)) == ("gateway.app:app_from_environment", 0, 3, True)
    assert served.addresses[0][1] > 0
    assert (os.environ[CONFIG_VARIABLE], os.environ[HOST], served.one) == (str(tmp_path), "127.0.0.1", [])


def test_several_workers_cannot_share_a_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    served = Served(monkeypatch)
    assert main(["serve", *config(tmp_path), "--workers", "2"]) == 1
    assert "gateway.toml: store.url: memory: can't be shared by several workers" in capsys.readouterr().err
    assert served.many == []


@pytest.mark.parametrize("command", ["serve", "check"])
def test_a_gateway_that_everybody_can_reach_needs_keys(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    served = Served(monkeypatch)
    options = config(tmp_path, GATEWAY + '[server]\nhost = "10.0.0.5"\n')
    assert main([command, *options]) == 1
    assert "server.host" in capsys.readouterr().err
    assert served.one == []


@pytest.mark.parametrize("port", ["x", "-1", "65536"])
def test_a_wrong_port_is_told_by_its_variable(tmp_path: Path, capsys: pytest.CaptureFixture[str], port: str) -> None:
    assert main(["serve", *config(tmp_path), f"--port={port}"]) == 1
    assert PORT in capsys.readouterr().err


def test_an_interrupted_command_is_fine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "load_configuration", interrupted)
    assert main(["check", *config(tmp_path)]) == 0


def test_a_new_key_is_shown_with_the_lines_that_know_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["key", "new", "team-a"]) == 0
    key, blank, _, *lines = capsys.readouterr().out.splitlines()
    listed = tomllib.loads("\n".join(lines))["auth"]["keys"]
    assert (blank, listed) == ("", [{"name": "team-a", "sha256": hashlib.sha256(key.encode()).hexdigest()}])


def test_a_name_that_can_be_none_gets_no_key(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["key", "new", "a\nb"]) == 1
    assert capsys.readouterr().out == ""


def ended(arguments: list[str]) -> object:
    """The exit code of a command, however it ends."""
    try:
        return main(arguments)
    except SystemExit as error:
        return error.code


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_port_that_is_taken_is_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], workers: str) -> None:
    url = f"sqlite:///{tmp_path / 'audits.db'}"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        options = config(tmp_path, GATEWAY.replace("memory:", url))
        assert ended(["serve", *options, "--port", port, "--workers", workers]) == 1
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert "gateway.toml: server.port: " in err
    assert port in err
    assert "in use" in err
    gc.collect()


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("host", ["no.such.host.invalid", "a..b", "x" * 300])
def test_a_host_that_is_none_is_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], host: str, workers: str) -> None:
    url = f"sqlite:///{tmp_path / 'audits.db'}"
    options = config(tmp_path, GATEWAY.replace("memory:", url) + "[auth]\nallow_anonymous = true\n")
    assert ended(["serve", *options, "--host", host, "--port", "0", "--workers", workers]) == 1
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert f"{host} port 0 can't be used" in err


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_store_that_does_not_open_is_wrong_input_without_a_traceback(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], workers: str
) -> None:
    (tmp_path / "file").touch()
    options = config(tmp_path, GATEWAY.replace("memory:", f"sqlite:///{tmp_path / 'file' / 'audits.db'}"))
    assert ended(["serve", *options, "--port", "0", "--workers", workers]) == 1
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert "gateway.toml: store.url: " in err


@pytest.mark.parametrize("command", [["serve"], ["serve", "--workers", "2"], ["check"], ["models"]])
def test_a_store_that_nobody_has_is_wrong_input(tmp_path: Path, capsys: pytest.CaptureFixture[str], command: list[str]) -> None:
    options = config(tmp_path, GATEWAY.replace("memory:", "mysql://user:hush@host/db"))
    assert ended([*command, *options]) == 1
    out, err = capsys.readouterr()
    assert (out, len(err.splitlines())) == ("", 1)
    assert "gateway.toml: store.url: " in err
    assert "hush" not in err
