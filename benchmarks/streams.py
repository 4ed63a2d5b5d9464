"""What a stream costs: CPU a chunk, and what is added to the first chunk; the gateway next to a pass-through and LiteLLM's proxy.

The pass-through is plain Starlette with stock httpx; the gateway counts and audits. All are measured in turns within one run, so
that only ratios are told. LiteLLM's proxy lives in an environment of its own, its command is named by `--litellm`. `--check` ends
with 1 when a floor is missed.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import urllib.request
from dataclasses import replace
from pathlib import Path

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent))
from load import Measured, measure
from overhead import chat_body
from servers import ROOT, Server, all_three

CHUNKS = 51
TARGETS = ("direct", "plain", "gateway", "litellm")
STREAMS = {1: 16, 32: 192}  # how many a round, by connections
FLOORS = {"CPU a chunk": {"plain": 1 / 3, "litellm": 1 / 15}, "added to the first chunk": {"plain": 1 / 2, "litellm": 1 / 8}}
PEERS = {"plain": "Starlette + httpx", "litellm": "LiteLLM's proxy"}
LITELLM = ROOT / "benchmarks" / ".venv" / "litellm-proxy" / "bin" / "litellm"
Results = dict[int, dict[str, list[Measured]]]


def require_whole_stream(server: Server, body: bytes) -> None:
    """Ends the run when a server doesn't pass every chunk on: then it would be quick for the wrong reason."""
    url = f"http://127.0.0.1:{server.port}/v1/chat/completions"
    request = urllib.request.Request(url, body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        chunks = sum(b'"choices"' in line for line in answer)
    if chunks < CHUNKS:
        raise SystemExit(f"the server on port {server.port} passed on {chunks} of {CHUNKS} chunks")


async def run(servers: dict[str, Server], rounds: int) -> Results:
    """Streams through every target, in turns; the first round warms everything up."""
    body = chat_body(6, 1000, stream=True)
    results: Results = {connections: {target: [] for target in TARGETS} for connections in STREAMS}
    for number in range(rounds + 1):
        for connections, streams in STREAMS.items():
            for target in TARGETS:
                server = servers[target]
                before = server.cpu_seconds()
                measured = await measure(server.port, body, connections=connections, requests=streams)
                found = replace(measured, cpu=(server.cpu_seconds() - before) / streams / CHUNKS)
                if number:
                    results[connections][target].append(found)
    return results


def ratios(results: Results) -> list[tuple[str, float, float]]:
    """What is measured next to whom, the gateway's share of the other's, and the most it may be."""
    told = []
    for connections, found in results.items():
        for peer, name in PEERS.items():
            where = f"{connections} connection{'s' if connections > 1 else ''}, next to {name}"
            rounds = list(zip(found["gateway"], found[peer], found["direct"], strict=True))
            cpu = statistics.median(ours.cpu / theirs.cpu for ours, theirs, _ in rounds)
            first = statistics.median((ours.first - none.first) / (theirs.first - none.first) for ours, theirs, none in rounds)
            for what, share in (("CPU a chunk", cpu), ("added to the first chunk", first)):
                told.append((f"{what}, {where}", share, FLOORS[what][peer]))
    return told


def main() -> int:
    """Runs everything and prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--litellm", type=Path, default=LITELLM, metavar="COMMAND", help="the proxy's command")
    parser.add_argument("--pause-ms", type=float, default=5, help="between chunks; 0: faster than they are read")
    options = parser.parse_args()
    if not options.litellm.exists():
        raise SystemExit(f"there is no {options.litellm}: set it up by `make peers`, or name its command")
    with all_three(chunks=CHUNKS, pause_s=options.pause_ms / 1000, litellm=options.litellm) as servers:
        for server in servers.values():
            require_whole_stream(server, chat_body(6, 1000, stream=True))
        results = uvloop.run(run(servers, options.rounds))
    for connections, found in results.items():
        for target, measured in found.items():
            cpu, first = (statistics.median(getattr(one, name) for one in measured) for name in ("cpu", "first"))
            print(f"{connections:2} connections, {target}: {cpu * 1e6:.0f} µs a chunk, first chunk after {first * 1e3:.2f} ms")
    missed = 0
    for name, share, most in ratios(results):
        missed += share > most
        print(f"{name}: {share:.3f} of it (at most {most:.3f}){'  MISSED' if share > most else ''}")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
