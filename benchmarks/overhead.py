"""What the gateway costs: against the same upstream direct, and against a plain Starlette + stock httpx pass-through.

All three are measured in turns within one run, so that only ratios are told; counting and auditing are on. `--check` ends with
1 when a floor is missed.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from dataclasses import replace
from pathlib import Path

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent))
from load import Measured, measure
from servers import Server, all_three

WORDS = ("the", "a", "context", "window", "message", "token", "budget", "river", "keeps", "leaves", "oldest", "newest", "reply")
TARGETS = ("direct", "plain", "gateway")


def chat_body(messages: int, size: int, *, stream: bool = False, seed: int = 7) -> bytes:
    """A chat of so many messages that is about `size` bytes long."""
    chance = random.Random(seed)
    words = max(3, size // messages // 7)
    texts = [" ".join(chance.choices(WORDS, k=words)) for _ in range(messages)]
    roles = ["system", *(["user", "assistant"] * messages)]
    listed = [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]
    listed[-1]["role"] = "user"
    body = {"model": "gpt-4o", "messages": listed, "max_tokens": 500, **({"stream": True} if stream else {})}
    return json.dumps(body, separators=(",", ":")).encode()


CASES = {
    "small, 1 connection": (chat_body(6, 1000), 1, 400),
    "small, 32 connections": (chat_body(6, 1000), 32, 1600),
    "300 KB, 1 connection": (chat_body(400, 300_000), 1, 60),
    "300 KB, 32 connections": (chat_body(400, 300_000), 32, 320),
    "stream, 1 connection": (chat_body(6, 1000, stream=True), 1, 40),
}


async def run(servers: dict[str, Server], rounds: int) -> dict[str, dict[str, list[Measured]]]:
    """Every case against every target, in turns."""
    results: dict[str, dict[str, list[Measured]]] = {case: {target: [] for target in TARGETS} for case in CASES}
    for number in range(rounds + 1):
        for case, (body, connections, requests) in CASES.items():
            for target in TARGETS:
                server = servers[target]
                before = server.cpu_seconds()
                measured = await measure(server.port, body, connections=connections, requests=requests)
                found = replace(measured, cpu=(server.cpu_seconds() - before) / requests)
                if number:  # the first round warms everything up
                    results[case][target].append(found)
    return results


def ratios(results: dict[str, dict[str, list[Measured]]]) -> list[tuple[str, float, float, str]]:
    """What is measured, its ratio to the peer, its floor or ceiling, and which of both."""

    def rate(case: str) -> float:
        found = results[case]
        return statistics.median(g.rate / p.rate for g, p in zip(found["gateway"], found["plain"], strict=True))

    def added(case: str) -> float:
        found = zip(*(results[case][target] for target in ("gateway", "plain", "direct")), strict=True)
        return statistics.median((g.median - d.median) / (p.median - d.median) for g, p, d in found)

    def first(case: str) -> float:
        found = results[case]
        return statistics.median(g.first / p.first for g, p in zip(found["gateway"], found["plain"], strict=True))

    return [
        ("requests/s, small, 1 connection", rate("small, 1 connection"), 1.5, "at least"),
        ("requests/s, small, 32 connections", rate("small, 32 connections"), 4.0, "at least"),
        ("requests/s, 300 KB, 32 connections", rate("300 KB, 32 connections"), 1.0, "at least"),
        ("added p50, small, 1 connection", added("small, 1 connection"), 2 / 3, "at most"),
        ("first chunk of a stream, 1 connection", first("stream, 1 connection"), 0.5, "at most"),
    ]


def main() -> int:
    """Runs everything and prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with all_three() as servers:
        results = uvloop.run(run(servers, options.rounds))
    for case, found in results.items():
        told = []
        for target, measured in found.items():
            rate, cpu = (statistics.median(getattr(one, name) for one in measured) for name in ("rate", "cpu"))
            told.append(f"{target} {rate:.0f}/s, {cpu * 1e6:.0f} µs")
        print(f"{case} (requests a second, CPU a request): {'; '.join(told)}")
    missed = 0
    for name, ratio, bound, sense in ratios(results):
        holds = ratio >= bound if sense == "at least" else ratio <= bound
        missed += not holds
        print(f"{name}: {ratio:.2f} times the peer ({sense} {bound:.2f}){'' if holds else '  MISSED'}")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
