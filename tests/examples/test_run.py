"""`make run`: both processes start, the person is told what to try, and both end together."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from examples.local_model import run

STAND_IN = """
import http.server, signal, sys, time
name, port, ends = sys.argv[1], int(sys.argv[sys.argv.index("--port") + 1]) if "--port" in sys.argv else 0, "--ends" in sys.argv
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if self.path in ("/health", "/healthz") else 404)
        self.end_headers()
    def log_message(self, *_): pass
def leave(*_):
    print(name, "was asked to end", flush=True)
    sys.exit(0)
signal.signal(signal.SIGTERM, leave)
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(name, f"is ready at http://127.0.0.1:{server.server_address[1]}", flush=True)
server.timeout = 0.1
for _ in range(8 if ends else 600):
    server.handle_request()
"""
RUNNER = "import sys; from examples.local_model import run; sys.exit(run.supervise({model!r}, {gateway!r}))"


def stand_in(name: str, *options: str) -> list[str]:
    """A process that looks like the model or the gateway."""
    return [sys.executable, "-c", STAND_IN, name, *options]


def start(model: list[str], gateway: list[str], **environment: str) -> subprocess.Popen[str]:
    """The runner itself, as a process."""
    env = {name: value for name, value in os.environ.items() if name != "OPENAI_API_KEY"} | environment
    script = RUNNER.format(model=model, gateway=gateway)
    return subprocess.Popen(
        [sys.executable, "-c", script], cwd=run.ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def read_until(process: subprocess.Popen[str], words: str) -> str:
    """What it printed, up to a line with these words or its end."""
    assert process.stdout is not None
    seen = ""
    for line in process.stdout:
        seen += line
        if words in line:
            break
    return seen


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_both_end_when_the_runner_is_asked_to(number: signal.Signals) -> None:
    with start(stand_in("model"), stand_in("gateway")) as process:
        started = read_until(process, "Ctrl-C")
        process.send_signal(number)
        rest = read_until(process, "never")
    assert process.returncode == 0
    assert "gateway is ready" in started
    assert rest.strip().splitlines() == ["gateway was asked to end", "model was asked to end"]


def test_what_it_tells_to_try_can_be_pasted() -> None:
    with start(stand_in("model"), stand_in("gateway")) as process:
        started = read_until(process, "Ctrl-C")
        process.terminate()
        read_until(process, "never")
    commands = [shlex.split(command) for command in re.findall(r"^  (curl (?:.*\\\n)*.*)", started, re.MULTILINE)]
    assert [command[0] for command in commands] == ["curl", "curl"]
    assert json.loads(commands[0][-1])["model"] == "smollm2"
    assert commands[1][1].endswith("/api/v2/chats/demo/context-audit?view=summary")


def test_the_other_ends_when_one_ends() -> None:
    with start(stand_in("model"), stand_in("gateway", "--ends")) as process:
        seen = read_until(process, "never")
    assert process.returncode == 1
    assert "the gateway ended with code 0" in seen
    assert "model was asked to end" in seen


def test_without_the_model_the_gateway_serves_the_others() -> None:
    with start([sys.executable, "-c", "print('no wheel')"], stand_in("gateway"), OPENAI_API_KEY="sk-none") as process:
        seen = read_until(process, "Ctrl-C")
        process.terminate()
        read_until(process, "never")
    assert "no wheel" in seen
    assert "going on with the models of OPENAI_API_KEY" in seen
    assert "none on this machine" in seen


def test_without_any_model_it_says_so_and_ends() -> None:
    with start([sys.executable, "-c", "print('no wheel')"], stand_in("gateway")) as process:
        seen = read_until(process, "never")
    assert process.returncode == 1
    assert "OPENAI_API_KEY isn't set" in seen
    assert "gateway is ready" not in seen


def test_the_configuration_folder_exists() -> None:
    assert (run.ROOT / run.parse([]).config).is_dir()
    assert Path(run.SERVE).is_file()
