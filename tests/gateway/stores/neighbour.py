"""Another process at the same file, started by the tests: `neighbour.py FILE hold|hammer|forget NAME`.

hold: leaves a prepared audit in the chat NAME, says so and waits to be killed. hammer: replaces and ends the chat `shared` many
times. forget: ends without closing.
"""

from __future__ import annotations

import asyncio
import sys
import time
from pathlib import Path

from gateway.stores.base import AuditHead, AuditKey, AuditOutcome, AuditStatus
from gateway.stores.sqlite import SqliteStore

TURNS = 150


def head(chat: str, generation: str) -> AuditHead:
    return AuditHead(AuditKey("", chat, generation), "gpt-4o", time.time(), generation.encode())


async def hold(store: SqliteStore, name: str) -> None:
    await store.replace(head(name, "g1"), b"[]")
    print("prepared", flush=True)  # noqa: T201  # what the test waits for
    await asyncio.sleep(60)


async def hammer(store: SqliteStore, name: str) -> None:
    for turn in range(TURNS):
        new = head("shared", f"{name}-{turn}")
        await store.replace(new, new.document * 500)
        await store.finish(new.key, AuditOutcome(AuditStatus.COMPLETED, time.time()))
    await store.aclose()


async def forget(store: SqliteStore, name: str) -> None:
    await store.replace(head(name, "g1"), b"[]")


async def main(file: str, story: str, name: str) -> None:
    store = SqliteStore(Path(file))
    await store.open()
    await {"hold": hold, "hammer": hammer, "forget": forget}[story](store, name)


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
