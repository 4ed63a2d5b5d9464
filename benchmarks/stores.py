"""Audits of 100 KB a second: the stores, and next to them a bare asyncpg loop that upserts the same bytes, at 1 and 16 at once.

Everything is measured in turns within one run, against a server started for it, so that only ratios are told. A store has
written an audit when its head and its body are committed. `--check` ends with 1 when PostgreSQL stays behind 0.8 of the loop.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from pathlib import Path

import asyncpg
import uvloop

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from benchmarks.overhead import chat_body
from gateway.stores.base import AuditHead, AuditKey, AuditStore
from gateway.stores.builtin import open_store
from tests.support.postgresql_server import PostgresqlServer

SIZE, FLOOR = 100_000, 0.8
BODIES = {
    "text": [chat_body(120, SIZE, seed=seed) for seed in range(8)],
    "noise": [os.urandom(SIZE) for _ in range(8)],  # what can't be packed
}
UPSERT = "INSERT INTO bare VALUES ($1, $2) ON CONFLICT (chat_id) DO UPDATE SET body = excluded.body"
_numbers = itertools.count()

Write = Callable[[str, bytes], Awaitable[object]]


async def rate(write: Write, settled: Callable[[], Awaitable[object]], bodies: list[bytes], at_once: int, audits: int) -> float:
    """Audits a second, each of another chat, until the last one is written."""
    left = itertools.chain(range(audits))

    async def worker() -> None:
        for number in left:
            await write(f"chat-{number}", bodies[number % len(bodies)])

    began = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(at_once)))
    await settled()
    return audits / (time.perf_counter() - began)


def into(store: AuditStore) -> tuple[Write, Callable[[], Awaitable[object]]]:
    """How a store is written, and how it is known to have written."""

    async def write(chat: str, body: bytes) -> None:
        key = AuditKey("", chat, f"gen-{next(_numbers)}")
        await store.replace(AuditHead(key, "gpt-4o", time.time(), body[:1000]), body)

    return write, lambda: store.chats("", 1)


async def bare(url: str, connections: int) -> tuple[asyncpg.Pool, Write]:
    """The loop: a pool, one statement an audit."""
    pool = await asyncpg.create_pool(url, min_size=connections, max_size=connections)
    await pool.execute("CREATE TABLE IF NOT EXISTS bare (chat_id text PRIMARY KEY, body bytea NOT NULL)")
    await pool.execute("ALTER TABLE bare ALTER body SET STORAGE EXTERNAL")

    async def write(chat: str, body: bytes) -> None:
        await pool.execute(UPSERT, chat, body)

    return pool, write


async def nothing() -> None:
    """The loop has written when its last statement returns."""


async def compare(server: PostgresqlServer, folder: str, rounds: int, audits: int) -> dict[str, dict[str, list[float]]]:
    """Every case against every target, in turns."""
    results: dict[str, dict[str, list[float]]] = {}
    stores = {"postgresql": open_store(server.new_url()), "sqlite": open_store(f"sqlite:///{folder}/audits.db")}
    for store in stores.values():
        await store.open()
    pools = {at_once: await bare(server.new_url(), at_once) for at_once in (1, 16)}
    for number, (kind, at_once) in itertools.product(range(rounds + 1), itertools.product(BODIES, pools)):
        targets = {"bare": (pools[at_once][1], nothing)} | {name: into(store) for name, store in stores.items()}
        for name, (write, settled) in targets.items():
            found = await rate(write, settled, BODIES[kind], at_once, audits)
            if number:  # the first round warms everything up
                results.setdefault(f"{kind}, {at_once} at once", {}).setdefault(name, []).append(found)
    for pool, _ in pools.values():
        await pool.close()
    for store in stores.values():
        await store.aclose()
    return results


def main() -> int:
    """Runs everything and prints the rates and the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--audits", type=int, default=320)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    with (
        PostgresqlServer(fsync="on", shared_buffers="128MB", max_wal_size="1GB") as server,
        tempfile.TemporaryDirectory() as folder,
    ):
        results = uvloop.run(compare(server, folder, options.rounds, options.audits))
    missed = 0
    for case, found in results.items():
        rates = ", ".join(f"{name} {statistics.median(each):.0f}/s" for name, each in found.items())
        ratio = statistics.median(ours / theirs for ours, theirs in zip(found["postgresql"], found["bare"], strict=True))
        missed += ratio < FLOOR
        print(f"{case}: {rates}; postgresql {ratio:.2f} of bare (at least {FLOOR}){'' if ratio >= FLOOR else '  MISSED'}")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
