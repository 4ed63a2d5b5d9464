"""One of several processes that hammer one chat: `python -m tests.support.store_hammer URL NAME SECONDS`.

A line on its input tells it to begin. It prints its history, a JSON array a line (`history` has the words), and a `wrong` line
for what can be told at once: an audit made of two, another end than the generation's own, two rows.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections.abc import Awaitable
from typing import TypeVar

from gateway.stores.base import AuditHead, AuditKey, AuditOutcome, AuditStatus, AuditStore, StoredAudit
from gateway.stores.builtin import open_store
from tests.support.store_journal import body, document

CHAT = "shared"
TASKS = 2  # in each process
T = TypeVar("T")


def head(generation: str, *, amended: bool = False) -> AuditHead:
    """The head of a generation, which tells of which one it is."""
    return AuditHead(AuditKey("", CHAT, generation), "gpt-4o", 10.0, document(generation, amended=amended))


def own_end(generation: str) -> AuditOutcome:
    """How a generation ends: its name tells."""
    completed = generation.endswith("-completed")
    return AuditOutcome(AuditStatus.COMPLETED, 20.0) if completed else AuditOutcome(AuditStatus.FAILED, 20.0, "PROVIDER_TIMEOUT")


def other_end(generation: str) -> AuditOutcome:
    """How it doesn't end: what comes too late."""
    return AuditOutcome(AuditStatus.CANCELLED, 30.0, "CLIENT_CANCELLED")


def is_whole(audit: StoredAudit) -> bool:
    """Whether head, body and end are of one generation and one version."""
    generation = audit.head.key.generation_id
    versions = [
        (head(generation, amended=amended), other)
        for amended in (False, True)
        for other in (None, body(generation, amended=amended))
    ]
    return (audit.head, audit.body) in versions and audit.outcome in (None, own_end(generation))


class Hammer:
    """What one process does and sees."""

    def __init__(self, store: AuditStore, name: str) -> None:
        self._store = store
        self._name = name
        self.told: list[list[object]] = []

    async def strike(self, task: int, number: int, chance: random.Random) -> None:
        """One generation, from its head to a late end; reads and deletions in between."""
        generation = f"{self._name}-{task}-{number}-{chance.choice(('completed', 'failed'))}"
        await self._timed("put", generation, self._store.replace(head(generation), body(generation, amended=False)))
        if chance.random() < 0.3:
            await self._store.amend(head(generation, amended=True), body(generation, amended=True))
        if chance.random() < 0.5:
            await self._read()
        await self._store.finish(head(generation).key, own_end(generation))
        if chance.random() < 0.3:
            await self._timed("delete", None, self._store.delete_chat("", CHAT))
        await self._read()
        await self._store.finish(head(generation).key, other_end(generation))
        if chance.random() < 0.2:
            await self._list()

    async def _read(self) -> None:
        began = time.monotonic()
        audit = await self._store.latest("", CHAT)
        self._found(None if audit is None else audit.head.key.generation_id, began)
        if audit is not None and not is_whole(audit):
            self.told.append(["wrong", f"mixed: {audit.head} {(audit.body or b'')[:40]!r} {audit.outcome}"])

    async def _list(self) -> None:
        began = time.monotonic()
        chats = await self._store.chats("", 10)
        if len(chats) > 1:
            self.told.append(["wrong", f"{len(chats)} rows"])
        self._found(chats[0].generation_id if chats else None, began)

    async def _timed(self, what: str, generation: str | None, call: Awaitable[T]) -> T:
        began = time.monotonic()
        answer = await call
        self.told.append([what, generation, began, time.monotonic()])
        return answer

    def _found(self, generation: str | None, began: float) -> None:
        self.told.append(["read", generation, began, time.monotonic()])


async def main(url: str, name: str, seconds: float) -> None:
    """Opens the store, says so, and hammers when told to."""
    store = open_store(url)
    await store.open()
    hammer = Hammer(store, name)
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.readline)
    until = time.monotonic() + seconds

    async def work(task: int) -> None:
        chance, number = random.Random(f"{name}-{task}"), 0  # noqa: S311  # no secret
        while time.monotonic() < until:
            await hammer.strike(task, number, chance)
            number += 1

    try:
        await asyncio.gather(*(work(task) for task in range(TASKS)))
    finally:
        await store.aclose()
    sys.stdout.writelines(json.dumps(line) + "\n" for line in hammer.told)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], float(sys.argv[3])))
