"""Calls that pile up in front of a store's thread, so that it finds them waiting together."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from unittest.mock import patch

from gateway.stores.base import AuditStore
from gateway.stores.sqlite import SqliteStore
from gateway.stores.sqlite_file import SqliteFile


async def in_one_batch(store: AuditStore, calls: Sequence[Coroutine[None, None, object]]) -> list[object]:
    """The answers, or the errors, of calls made in this order while the thread is held up; a store without one just answers."""
    busy, release, real = threading.Event(), threading.Event(), SqliteFile.begin

    def held_up(file: SqliteFile, *, writes: bool) -> None:
        busy.set()
        release.wait(5)
        real(file, writes=writes)

    with patch.object(SqliteFile, "begin", held_up):
        holding = asyncio.create_task(store.check())
        if isinstance(store, SqliteStore):
            await until(busy.is_set)
        made = [asyncio.create_task(call) for call in calls]
        await asyncio.sleep(0)
        release.set()
        answers = await asyncio.wait_for(asyncio.gather(*made, return_exceptions=True), 10)
        await holding
    return list(answers)


async def until(claim: Callable[[], bool]) -> None:
    """Waits until something that no event tells has come about; not longer than five seconds."""
    async with asyncio.timeout(5):
        while not claim():  # noqa: ASYNC110  # another thread makes it true
            await asyncio.sleep(0.0002)
