"""What the audit costs: requests a second with audits in SQLite, next to the same gateway with a store that keeps nothing.

Both run in turns within one run, at 32 connections with a small body. `--check` ends with 1 when the floor is missed.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import statistics
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent))
from load import measure
from overhead import chat_body
from servers import ROOT, Server, free_port, gateway, running, write_config

from gateway import cli
from gateway.stores import builtin
from gateway.stores.base import AuditHead, AuditKey, AuditOutcome
from gateway.stores.memory import MemoryStore

FLOOR = 0.6
CONNECTIONS, REQUESTS = 32, 1600
WITHOUT = "--without-audits"


class NoStore(MemoryStore):
    """Takes audits and keeps none."""

    async def replace(self, head: AuditHead, body: bytes) -> None:
        """Nothing is kept."""

    async def finish(self, key: AuditKey, outcome: AuditOutcome) -> None:
        """Nothing ends."""


def serve_without(arguments: list[str]) -> int:
    """The gateway's own command, with that store in place of the one in memory."""
    builtin.BUILTIN = {"memory": NoStore.from_url}
    return cli.main(["serve", *arguments])


@contextlib.contextmanager
def both() -> Iterator[dict[str, Server]]:
    """The two gateways, in front of one upstream."""
    ports = {name: free_port() for name in ("upstream", "with", "without")}
    base = f"http://127.0.0.1:{ports['upstream']}/v1"
    here = {"PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'benchmarks'}"}
    with contextlib.ExitStack() as stack:
        folders = [stack.enter_context(tempfile.TemporaryDirectory()) for _ in range(2)]
        for folder in folders:
            write_config(Path(folder), base)
        with Path(folders[1], "gateway.toml").open("a") as settings:
            settings.write('[store]\nurl = "memory:"\n')
        start = ["--host", "127.0.0.1", "--no-access-log", "--log-level", "warning", "--loop", "uvloop", "--http", "httptools"]
        command = [sys.executable, "-m", "uvicorn", "servers:upstream", *start, "--port", str(ports["upstream"])]
        stack.enter_context(running(command, f"http://127.0.0.1:{ports['upstream']}/healthz", here, folders[0]))
        kept = stack.enter_context(gateway(folders[0], ports["with"]))
        command = [sys.executable, __file__, WITHOUT, "--config", folders[1], "--port", str(ports["without"])]
        none = stack.enter_context(running(command, f"http://127.0.0.1:{ports['without']}/healthz", here, folders[1]))
        yield {"with": Server(ports["with"], kept.pid), "without": Server(ports["without"], none.pid)}


async def run(servers: dict[str, Server], rounds: int) -> dict[str, list[float]]:
    """Requests a second, round by round; the first round warms up."""
    body = chat_body(6, 1000)
    rates: dict[str, list[float]] = {name: [] for name in servers}
    for number in range(rounds + 1):
        for name, server in servers.items():
            found = await measure(server.port, body, connections=CONNECTIONS, requests=REQUESTS)
            if number:
                rates[name].append(found.rate)
    return rates


def main() -> int:
    """Runs everything and prints the ratio."""
    if sys.argv[1:2] == [WITHOUT]:
        return serve_without(sys.argv[2:])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with both() as servers:
        rates = uvloop.run(run(servers, options.rounds))
    ratio = statistics.median(kept / none for kept, none in zip(rates["with"], rates["without"], strict=True))
    kept, none = (statistics.median(rates[name]) for name in ("with", "without"))
    print(f"requests a second: {kept:.0f} with audits in SQLite, {none:.0f} without")
    print(f"{ratio:.2f} of it (at least {FLOOR}){'' if ratio >= FLOOR else '  MISSED'}")
    return 1 if options.check and ratio < FLOOR else 0


if __name__ == "__main__":
    raise SystemExit(main())
