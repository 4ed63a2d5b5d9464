"""Bodies and ends on their way to PostgreSQL, which nobody waits for. Part of `postgresql`; knows rows, not what they mean.

They are sent in their order, as many as wait in one transaction. What fails is tried again, each alone, for some minutes. A body
or an end changes nothing but the row of its own head, so bodies and ends never mind each other's order.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter, deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import partial

from gateway.errors import StoreUnavailable
from gateway.stores.base import AuditKey
from gateway.stores.postgresql_link import Link, Refused
from gateway.stores.postgresql_packing import packed
from gateway.stores.postgresql_rows import END, PUT_BODY, Row, write

BODY_BYTES = 32 * 1024 * 1024  # of bodies on their way, give or take one, and of those to be tried again
MOST_PARTS = 10_000  # on their way or to be tried again
MOST_ROWS = 64  # in one transaction
MOST_BYTES = 1024 * 1024  # of bodies in one transaction, give or take one
RETRY_S = 1.0
GIVE_UP_S = 300.0

_log = logging.getLogger(__name__)


@dataclass(slots=True, eq=False)
class Part:
    """A body, or an end (`body` is None), of a generation's audit. `row` lacks what comes of packing the body."""

    key: AuditKey
    row: Row
    body: bytes | None = None
    failed_at: float = 0.0  # first, by the monotonic clock

    @property
    def size(self) -> int:
        """Bytes of the body."""
        return len(self.body or b"")

    @property
    def marks(self) -> tuple[object, ...]:
        """What can't be asked before this is written: its chat; and an end stands in the way of its generation's next head."""
        chat = (self.key.tenant, self.key.chat_id)
        return (chat, self.key) if self.body is None else (chat,)


class Backlog:
    """The parts, and a task while there are any. Belongs to the event loop."""

    def __init__(self, url: str) -> None:
        self._link = Link(url)
        self._parts: deque[Part] = deque()
        self._failed: list[Part] = []
        self._marks: Counter[object] = Counter()  # of what waits or is under way
        self._bytes = 0  # of the same
        self._sending: asyncio.Task[None] | None = None
        self._again: asyncio.TimerHandle | None = None

    def add(self, parts: Iterable[Part]) -> None:
        """Sends them, soon."""
        for part in parts:
            self._parts.append(part)
            self._marks.update(part.marks)
            self._bytes += part.size
        if self._parts and self._sending is None:
            self._sending = asyncio.create_task(self._send())

    def holds(self, mark: object) -> bool:
        """Whether something of this chat, or an end of this generation, is not written yet. What failed doesn't count."""
        return mark in self._marks

    @property
    def empty(self) -> bool:
        """Whether all is written but for what failed."""
        return not self._marks

    @property
    def room(self) -> int:
        """For so many bytes of bodies; below 0 it should grow no further."""
        return BODY_BYTES - self._bytes if len(self._parts) <= MOST_PARTS else -1

    async def caught_up(self) -> None:
        """Waits until all is written, or has failed."""
        while self._sending is not None:
            await asyncio.wait({self._sending})

    async def close(self) -> None:
        """Writes everything, what failed once more, and closes the connection."""
        await self.caught_up()
        self._retry()
        await self.caught_up()
        self._forget_timer()
        await self._link.close()

    def drop(self) -> None:
        """Lets go of everything at once."""
        self._forget_timer()
        if self._sending is not None:
            self._sending.cancel()
        self._link.drop()

    async def _send(self) -> None:
        try:
            while self._parts:
                some = self._next()
                if not await self._written(some):
                    self._try_again([*self._emptied(), *some])  # it was not their fault, and others shouldn't wait as long
                self._leave(some)
        finally:
            self._sending = None

    def _next(self) -> list[Part]:
        """What goes together. What has failed before goes alone: it may be to blame."""
        some, size = [self._parts.popleft()], 0
        while self._parts and not some[0].failed_at and not self._parts[0].failed_at:
            size += some[-1].size
            if len(some) == MOST_ROWS or size > MOST_BYTES:
                break
            some.append(self._parts.popleft())
        return some

    async def _written(self, parts: Sequence[Part]) -> bool:
        """False when the server can't be written; parts that it refuses one by one are put aside."""
        bodies = [part for part in parts if part.body is not None]
        ends = [part for part in parts if part.body is None]
        try:
            if bodies:
                packs = await packed([part.body or b"" for part in bodies])
                rows = [(*part.row, *pack) for part, pack in zip(bodies, packs, strict=True)]
                await self._link.run(partial(write, statement=PUT_BODY, rows=rows))
            if ends:
                await self._link.run(partial(write, statement=END, rows=[part.row for part in ends]))
        except Refused:
            if len(parts) == 1:
                self._try_again(parts)
                return True
            return all([await self._written([part]) for part in parts])
        except StoreUnavailable:
            return False
        return True

    def _emptied(self) -> list[Part]:
        parts = list(self._parts)
        self._parts.clear()
        self._leave(parts)
        return parts

    def _leave(self, parts: Iterable[Part]) -> None:
        """They are not on their way any more."""
        for part in parts:
            self._bytes -= part.size
            for mark in part.marks:
                self._marks[mark] -= 1
                if not self._marks[mark]:
                    del self._marks[mark]

    def _try_again(self, parts: Sequence[Part]) -> None:
        """Puts them aside for a while, within bounds."""
        now, size, given_up = time.monotonic(), sum(part.size for part in self._failed), 0
        for part in parts:
            part.failed_at = part.failed_at or now
            size += part.size
            if now - part.failed_at < GIVE_UP_S and size <= BODY_BYTES and len(self._failed) < MOST_PARTS:
                self._failed.append(part)
            else:
                size -= part.size
                given_up += 1
        if given_up:
            _log.warning("%d parts of audits could not be stored and are given up", given_up)
        if self._failed and self._again is None:
            self._again = asyncio.get_running_loop().call_later(RETRY_S, self._retry)

    def _retry(self) -> None:
        self._forget_timer()
        parts, self._failed = self._failed, []
        self.add(parts)

    def _forget_timer(self) -> None:
        if self._again is not None:
            self._again.cancel()
            self._again = None
