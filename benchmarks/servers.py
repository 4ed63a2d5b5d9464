"""The other side of the benchmarks: a quick upstream, a plain Starlette + stock httpx pass-through, the gateway, a LiteLLM proxy.

Each runs as a process of its own on a loopback port and is ended by its pid.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
STREAM_PAUSE_S = 0.005
LITELLM_QUIET = {  # everything that it would fetch from elsewhere comes from its own package
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOCAL_ANTHROPIC_BETA_HEADERS": "True",
    "LITELLM_LOCAL_POLICY_TEMPLATES": "True",
    "LITELLM_LOCAL_BLOG_POSTS": "True",
    "LITELLM_LOCAL_AUTOROUTER_PRESETS": "True",
    "LITELLM_LOG": "ERROR",
    "LITELLM_MODE": "PRODUCTION",
}
_ANSWER = {
    "id": "cmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "gpt-4o",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "word " * 60}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 200, "completion_tokens": 60, "total_tokens": 260},
}
_ANSWER_BYTES = json.dumps(_ANSWER).encode()


def _chunk(content: str | None, finish: str | None) -> bytes:
    delta = {} if content is None else {"content": content}
    chunk = {"id": "c", "object": "chat.completion.chunk", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


async def upstream(scope: Any, receive: Any, send: Any) -> None:
    """Answers every chat completion alike; streams are paced, their first chunk comes at once."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    body, more = b"", True
    while more:
        message = await receive()
        body, more = body + message.get("body", b""), message.get("more_body", False)
    if b'"stream":true' not in body[-200:]:
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(_ANSWER_BYTES)).encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": _ANSWER_BYTES})
        return
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/event-stream")]})
    for number in range(int(os.environ["BENCHMARK_CHUNKS"])):
        await send({"type": "http.response.body", "body": _chunk(f"word {number} ", None), "more_body": True})
        await asyncio.sleep(float(os.environ["BENCHMARK_PAUSE_S"]))
    await send({"type": "http.response.body", "body": _chunk(None, "stop") + b"data: [DONE]\n\n"})


def passthrough() -> Any:
    """The peer: the common recipe for a reverse proxy with Starlette and stock httpx, which streams both ways.

    It neither counts nor remembers.
    """
    import httpx
    from starlette.applications import Starlette
    from starlette.background import BackgroundTask
    from starlette.requests import Request
    from starlette.responses import Response, StreamingResponse
    from starlette.routing import Route

    client = httpx.AsyncClient(base_url=os.environ["BENCHMARK_UPSTREAM"].removesuffix("/v1"), timeout=60)

    async def proxy(request: Request) -> Response:
        url = httpx.URL(path=request.url.path, query=request.url.query.encode())
        sent = client.build_request(request.method, url, headers=request.headers.raw, content=request.stream())
        answer = await client.send(sent, stream=True)
        return StreamingResponse(answer.aiter_raw(), answer.status_code, answer.headers, background=BackgroundTask(answer.aclose))

    async def health(request: Request) -> Response:
        return Response("ok")

    return Starlette(routes=[Route("/healthz", health), Route("/{path:path}", proxy, methods=["GET", "POST"])])


@dataclass(frozen=True, slots=True)
class Server:
    """A server process under load."""

    port: int
    pid: int

    def cpu_seconds(self) -> float:
        """CPU time it has used so far, in all its threads, to the nanosecond (Linux: the CPU clock of another process)."""
        return time.clock_gettime((~self.pid << 3) | 2)

    def resident_mb(self) -> float:
        """Its resident memory in MB."""
        lines = Path(f"/proc/{self.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS:")) / 1024


@contextlib.contextmanager
def running(command: list[str], url: str, environment: dict[str, str], folder: str) -> Iterator[subprocess.Popen[bytes]]:
    """A server process that answers at a URL; ended by its pid."""
    process = subprocess.Popen(command, env=os.environ | environment, cwd=folder, stdout=subprocess.DEVNULL)
    try:
        _wait(url, process)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


@contextlib.contextmanager
def all_three(*, chunks: int = 6, pause_s: float = STREAM_PAUSE_S, litellm: Path | None = None) -> Iterator[dict[str, Server]]:
    """Upstream, pass-through and gateway, by name, and a LiteLLM proxy where its command is given.

    The gateway counts and audits to SQLite; the proxy has no database. Streams have so many chunks, a pause
    apart, the last with the reason.
    """
    ports = {name: free_port() for name in ("direct", "plain", "gateway", "litellm")}
    base = f"http://127.0.0.1:{ports['direct']}/v1"
    processes: dict[str, subprocess.Popen[bytes]] = {}
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        start = ["--host", "127.0.0.1", "--no-access-log", "--log-level", "warning", "--loop", "uvloop", "--http", "httptools"]
        start += ["--timeout-keep-alive", "120"]  # stock httpx fails on a connection that was closed between two rounds
        here = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'benchmarks'}", "BENCHMARK_UPSTREAM": base}
        here |= {"BENCHMARK_CHUNKS": str(chunks - 1), "BENCHMARK_PAUSE_S": str(pause_s)}
        for name, app, more in (("direct", "servers:upstream", []), ("plain", "servers:passthrough", ["--factory"])):
            command = [sys.executable, "-m", "uvicorn", app, *start, "--port", str(ports[name]), *more]
            processes[name] = stack.enter_context(running(command, f"http://127.0.0.1:{ports[name]}/healthz", here, folder))
        write_config(Path(folder), base)
        processes["gateway"] = stack.enter_context(gateway(folder, ports["gateway"]))
        if litellm is not None:
            processes["litellm"] = stack.enter_context(litellm_proxy(litellm, folder, ports["litellm"], base))
        yield {name: Server(ports[name], process.pid) for name, process in processes.items()}


@contextlib.contextmanager
def gateway(folder: str, port: int) -> Iterator[subprocess.Popen[bytes]]:
    """The gateway, configured in a folder."""
    command = [sys.executable, "-m", "gateway", "serve", "--config", folder, "--port", str(port)]
    with running(command, f"http://127.0.0.1:{port}/healthz", {"PYTHONPATH": str(ROOT)}, folder) as process:
        yield process


@contextlib.contextmanager
def litellm_proxy(command: Path, folder: str, port: int, base_url: str) -> Iterator[subprocess.Popen[bytes]]:
    """A LiteLLM proxy of one worker that knows one model behind a base URL: no database, no key, no telemetry."""
    model = {"model": "openai/gpt-4o", "api_base": base_url, "api_key": "none"}
    config = {
        "model_list": [{"model_name": "gpt-4o", "litellm_params": model}],
        "litellm_settings": {"telemetry": False},
        "general_settings": {"dangerously_permit_weak_or_unset_master_key": True},  # it listens on loopback alone
    }
    Path(folder, "litellm.json").write_text(json.dumps(config))
    started = [str(command), "--config", "litellm.json", "--host", "127.0.0.1", "--port", str(port), "--telemetry", "False"]
    with running(started, f"http://127.0.0.1:{port}/health/liveliness", LITELLM_QUIET, folder) as process:
        yield process


def write_config(folder: Path, base_url: str) -> None:
    """A configuration with one model, gpt-4o, behind a base URL."""
    (folder / "models").mkdir()
    (folder / "gateway.toml").write_text(f'[providers.bench]\nkind = "openai"\nbase_url = "{base_url}"\n')
    (folder / "models" / "gpt-4o.toml").write_text('model = "gpt-4o"\nprovider = "bench"\ncontext_limit = 128000\n')


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _wait(url: str, process: subprocess.Popen[bytes]) -> None:
    for _ in range(2400):
        if process.poll() is not None:
            raise SystemExit(f"a benchmark server ended with {process.returncode}")
        with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=1):
            return
        time.sleep(0.05)
    raise SystemExit("a benchmark server did not answer within 120 s")
