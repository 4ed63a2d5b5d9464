"""The real gateway as a process of its own: its configuration, its address, its end."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx
from openai import AsyncOpenAI, OpenAI

from tests.house.tree import ROOT
from tests.scenarios.loopback.waiting import until

DATABASE = "audits.db"
SMALL = """\
model = "small"
aliases = ["small-*"]
provider = "fake"
context_limit = 200
reply_reserve = 50
tokenizer = "o200k_base"
"""
_COMMAND = [sys.executable, "-m", "gateway"]
_START_S = 30.0


def write_config(
    folder: Path,
    upstream_url: str,
    *,
    server: str = "",
    provider: str = "",
    more: str = "",
    models: Mapping[str, str] | None = None,
) -> Path:
    """A configuration with one provider and small models; the extra lines go into their tables. Gives its directory."""
    config = folder / "config"
    (config / "models").mkdir(parents=True, exist_ok=True)
    text = f"""\
[server]
{server}
[store]
url = "sqlite:///{DATABASE}"
[defaults]
cut_step = 0.0
[providers.fake]
kind = "openai"
base_url = "{upstream_url}"
{provider}
{more}
"""
    (config / "gateway.toml").write_text(text)
    for name, model in (models or {"small": SMALL}).items():
        (config / "models" / f"{name}.toml").write_text(model)
    return config


def environment(**more: str) -> dict[str, str]:
    """What a gateway process sees: the repository to import from, and no settings of the machine."""
    own = {name: value for name, value in os.environ.items() if not name.startswith("SLUICEGATE_")}
    return {**own, "PYTHONPATH": str(ROOT), **more}


def run_command(folder: Path, *arguments: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """One command of the command line, to its end."""
    return subprocess.run(  # noqa: S603  # our own command
        [*_COMMAND, *arguments], cwd=folder, env=environment(**environ), capture_output=True, text=True, timeout=60, check=False
    )


class RunningGateway:
    """A gateway that serves the configuration in `folder/config`. Entered, it answers; at the end it is asked to end."""

    def __init__(self, folder: Path, *arguments: str, **environ: str) -> None:
        self.folder = folder
        self.log = folder / "gateway.log"
        self.url = ""
        self._arguments = arguments
        self._environ = environ
        self._process: subprocess.Popen[str]
        self.http = httpx.Client(trust_env=False, timeout=30)

    def __enter__(self) -> RunningGateway:
        self.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self.http.close()
        self.end()

    def start(self) -> None:
        """Starts the process and waits for the line that names its address."""
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(  # noqa: S603  # our own command
                [*_COMMAND, "serve", "--config", "config", "--port", "0", *self._arguments],
                cwd=self.folder,
                env=environment(**self._environ),
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
            )
        line = self._first_line()
        if "http://" not in line:
            self.end()
            raise AssertionError(f"the gateway did not start: {line!r} {self.log.read_text()}")
        self.url = line.split()[-1]
        self.http.base_url = httpx.URL(self.url)

    def _first_line(self) -> str:
        lines: queue.SimpleQueue[str] = queue.SimpleQueue()
        assert self._process.stdout is not None
        threading.Thread(target=lambda: lines.put(self._process.stdout.readline()), daemon=True).start()
        try:
            return lines.get(timeout=_START_S)
        except queue.Empty:
            return "(no line)"

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the process alone."""
        self._process.send_signal(number)

    def ended(self, seconds: float = 20.0) -> int:
        """The exit code, once the process has ended."""
        code = self._process.wait(seconds)
        if self._process.stdout is not None:
            self._process.stdout.close()
        return code

    @property
    def alive(self) -> bool:
        """Whether the process runs."""
        return self._process.poll() is None

    def end(self) -> None:
        """SIGTERM, and SIGKILL for one that does not obey."""
        if self.alive:
            self.signal(signal.SIGTERM)
        try:
            self.ended()
        except subprocess.TimeoutExpired:
            self._process.kill()
            self.ended()
            raise

    def openai(self, **options: Any) -> OpenAI:
        """The official client for this gateway; retries only when told to."""
        return OpenAI(**{"base_url": f"{self.url}/v1", "api_key": "unused", "max_retries": 0, **options})

    def async_openai(self, **options: Any) -> AsyncOpenAI:
        """The same, for coroutines."""
        return AsyncOpenAI(**{"base_url": f"{self.url}/v1", "api_key": "unused", "max_retries": 0, **options})

    def post(self, body: dict[str, Any], **headers: str) -> httpx.Response:
        """A chat completion request; header names with `_` for `-`."""
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.post("/v1/chat/completions", json=body, headers=named)

    def audit(self, chat_id: str, view: str = "full", **headers: str) -> dict[str, Any] | None:
        """The chat's audit; None where there is no such chat."""
        path = f"/api/v2/chats/{quote(chat_id, safe='')}/context-audit"
        response = self.http.get(path, params={"view": view}, headers=headers)
        if response.status_code == 404:
            assert response.json()["error"]["code"] == "CHAT_NOT_FOUND"
            return None
        assert response.status_code == 200, response.text
        audit: dict[str, Any] = response.json()["audit"]
        return audit

    def audit_when(self, chat_id: str, holds: Callable[[dict[str, Any]], bool], what: str) -> dict[str, Any]:
        """The chat's audit, once something holds of it."""

        def found() -> dict[str, Any] | None:
            audit = self.audit(chat_id)
            return audit if audit is not None and holds(audit) else None

        return until(found, f"audit of {chat_id} {what}: {self.audit(chat_id, 'summary')}") or {}

    def ended_audit(self, chat_id: str) -> dict[str, Any]:
        """The chat's audit, once its generation has ended."""
        return self.audit_when(chat_id, lambda audit: audit["status"] != "prepared", "ends")

    def require_clean_log(self) -> None:
        """Fails when the gateway has logged a defect."""
        log = self.log.read_text()
        assert "Traceback" not in log, log
        assert "internal error" not in log, log
