"""The sign of life of one open PostgreSQL store: an advisory lock that its own session holds. Part of `postgresql`.

The server lets go of the lock when the session ends, however it ends, so a lock that can be taken means: dead. It is shared, so
that a session which the server hasn't given up yet is not in the way of the one that follows it; who looks whether an owner
lives tries to take it alone. The owner's id is the key of its lock. Only a session of one's own can hold it: a pooler that
hands sessions around between transactions makes the dead look alive.
"""

from __future__ import annotations

import asyncio
import secrets
from contextlib import suppress

from gateway.errors import StoreUnavailable
from gateway.stores.postgresql_link import ANSWER_S, Connection, Link
from gateway.stores.postgresql_schema import migrate

LOOK_S = 5.0  # so often the session is asked whether it still stands
RETRY_S = 0.5


class Lease:
    """Holds the lock, and takes it again as soon as possible when the session is lost."""

    def __init__(self, url: str) -> None:
        self.owner = secrets.randbits(64) - 2**63
        self._lost = asyncio.Event()
        self._link = Link(url, greet=self._take, lost=self._lost.set)
        self._one_at_a_time = asyncio.Lock()
        self._keeping: asyncio.Task[None] | None = None

    @property
    def held(self) -> bool:
        """Whether the lock is held, as far as is known."""
        return self._link.alive

    async def hold(self, *, within: float = ANSWER_S) -> None:
        """Takes the lock unless it is held, and keeps it from then on; brings the tables up to date. Raises StoreUnavailable."""
        if self.held:
            return
        async with self._one_at_a_time:
            await self._link.run(_look, within=within)
        if self._keeping is None:
            self._keeping = asyncio.create_task(self._keep())

    async def release(self) -> None:
        """Ends the sign of life."""
        keeping, self._keeping = self._keeping, None
        if keeping is not None:
            keeping.cancel()
            await asyncio.wait({keeping})
        await self._link.close()

    async def _keep(self) -> None:
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_S):
                    await self._lost.wait()
            self._lost.clear()
            try:
                async with self._one_at_a_time:
                    await self._link.run(_look)
            except StoreUnavailable:
                await asyncio.sleep(RETRY_S)
                self._lost.set()

    async def _take(self, connection: Connection) -> None:
        await migrate(connection)
        await connection.execute("SELECT pg_advisory_lock_shared($1)", self.owner)


async def _look(connection: Connection) -> None:
    await connection.execute("SELECT 1")
