"""How quickly the gateway starts, against a bare Starlette app in the same run, and how much memory it holds after a load."""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from contextlib import suppress
from pathlib import Path

import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent))
from load import measure
from overhead import chat_body
from servers import ROOT, all_three, free_port, write_config

BARE = """
import sys, uvicorn
from starlette.applications import Starlette
from starlette.responses import PlainTextResponse
from starlette.routing import Route
async def health(request): return PlainTextResponse("ok")
uvicorn.run(Starlette(routes=[Route("/healthz", health)]), port=int(sys.argv[1]), log_level="warning")
"""
REQUESTS = 10_000


def seconds_to_first_answer(command: list[str], port: int, folder: str) -> float:
    """From the start of a process to its first 200."""
    start = time.perf_counter()
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            with suppress(OSError), urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1):
                return time.perf_counter() - start
            time.sleep(0.005)
    finally:
        process.terminate()
        process.wait(10)
    raise SystemExit("a server ended before it answered")


def start_ratio(rounds: int) -> float:
    """The gateway's start over the bare app's, the median of rounds in turns."""
    ratios = []
    for _ in range(rounds):
        with tempfile.TemporaryDirectory() as folder:
            write_config(Path(folder), "http://127.0.0.1:9/v1")
            port = free_port()
            bare = seconds_to_first_answer([sys.executable, "-c", BARE, str(port)], port, folder)
            port = free_port()
            command = [sys.executable, "-m", "gateway", "serve", "--config", folder, "--port", str(port)]
            ratios.append(seconds_to_first_answer(command, port, str(ROOT)) / bare)
    return statistics.median(ratios)


def resident_mb() -> float:
    """The gateway's resident memory in MB after ten thousand small requests, each text new; o200k is loaded."""
    with all_three() as servers:
        for number in range(10):
            body = chat_body(6, 1000, seed=number)
            uvloop.run(measure(servers["gateway"].port, body, connections=32, requests=REQUESTS // 10))
        return servers["gateway"].resident_mb()


def main() -> int:
    """Measures both and prints them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    ratio, memory = start_ratio(options.rounds), resident_mb()
    print(f"start to first answer: {ratio:.2f} times a bare Starlette app (at most 4)")
    print(f"resident memory after {REQUESTS} requests: {memory:.0f} MB (at most 150)")
    return 1 if options.check and (ratio > 4 or memory > 150) else 0


if __name__ == "__main__":
    raise SystemExit(main())
