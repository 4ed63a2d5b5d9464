"""The order of calls to a PostgreSQL store. Part of `postgresql`; knows rows, not what they mean.

Calls are taken in their order. Heads that wait together are one transaction; their bodies, and ends, follow on a connection of
their own. Whatever else is asked comes after all that it could see, so that the effect is that of the calls in their order. All
of it runs on the event loop, in one task, and no caller who leaves cancels anything.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from gateway.errors import StoreUnavailable
from gateway.stores.base import AuditKey
from gateway.stores.postgresql_backlog import Backlog, Part
from gateway.stores.postgresql_link import Link, Refused, Work
from gateway.stores.postgresql_rows import Row, write

MOST_ROWS = 64  # in one transaction
WAITING_CALLS = 10_000  # beyond it `finish` waits
CLOSE_S = 10.0
EVERYTHING = object()  # what a call is about that isn't about one chat
NOTHING = object()  # about no audit at all

_log = logging.getLogger(__name__)
_T = TypeVar("_T")


@dataclass(slots=True, eq=False)
class _Head:
    """A row somebody waits for, with the body that follows it."""

    statement: str
    row: Row
    body: Part
    future: asyncio.Future[None]


@dataclass(slots=True, eq=False)
class _Ask:
    """Work on its own, after all that was handed over about something."""

    work: Work[Any]
    about: object
    future: asyncio.Future[Any]


class Writer:
    """What waits, and the task that sees to it. Heads are written only after `lease`, which raises when they may not be."""

    def __init__(self, url: str, lease: Callable[[], Awaitable[None]]) -> None:
        self._loop = asyncio.get_running_loop()
        self._lease = lease
        self._link = Link(url)
        self._backlog = Backlog(url)
        self._waiting: deque[_Head | Part | _Ask] = deque()
        self._promised: set[asyncio.Future[Any]] = set()
        self._woken = asyncio.Event()
        self._stopping = False
        self._task = asyncio.create_task(self._run())

    def put(self, statement: str, row: Row, body: Part) -> asyncio.Future[None]:
        """Writes the row of a head, and soon its body; the future tells when the row is committed."""
        future: asyncio.Future[None] = self._promise()
        self._hand_over(_Head(statement, row, body, future))
        return future

    def tell(self, end: Part) -> None:
        """Writes an end, soon."""
        self._hand_over(end)

    def ask(self, work: Work[_T], about: object = EVERYTHING) -> asyncio.Future[_T]:
        """Does work after what was handed over before about a chat, (tenant, chat id); the future holds what comes of it."""
        future: asyncio.Future[_T] = self._promise()
        self._hand_over(_Ask(work, about, future))
        return future

    async def caught_up(self) -> None:
        """Waits while too much waits."""
        while len(self._waiting) > WAITING_CALLS:  # noqa: ASYNC110  # rare, and no event tells it
            await asyncio.sleep(0.001)

    async def stop(self) -> None:
        """Ends after everything handed over; gives up after `CLOSE_S`."""
        self._stopping = True
        self._woken.set()
        done, _ = await asyncio.wait({self._task}, timeout=CLOSE_S)
        if not done:
            self._task.cancel()
            await asyncio.wait({self._task})
            _log.warning("the audit store could not be closed within %g seconds", CLOSE_S)

    def _promise(self) -> asyncio.Future[Any]:
        future: asyncio.Future[Any] = self._loop.create_future()
        self._promised.add(future)
        future.add_done_callback(self._promised.discard)
        return future

    def _hand_over(self, call: _Head | Part | _Ask) -> None:
        self._waiting.append(call)
        self._woken.set()

    async def _run(self) -> None:
        try:
            while self._waiting or not self._stopping:
                await self._woken.wait()
                self._woken.clear()
                while self._waiting:
                    await self._step()
            await self._backlog.close()
            await self._link.close()
        finally:
            self._backlog.drop()
            self._link.drop()
            for future in list(self._promised):
                _fail(future, StoreUnavailable("The audit store is not open."))

    async def _step(self) -> None:
        """One call on its own, or those at the front that go together."""
        first = self._waiting[0]
        if isinstance(first, _Ask):
            if self._backlog.holds(first.about) or (first.about is EVERYTHING and not self._backlog.empty):
                await self._backlog.caught_up()
            self._waiting.popleft()
            await self._answer(first)
            return
        if isinstance(first, _Head) and self._backlog.holds(first.body.key):
            await self._backlog.caught_up()
        calls = list(self._together())
        heads = [call for call in calls if isinstance(call, _Head)]
        if heads:
            await self._put(heads)
        self._backlog.add(call.body if isinstance(call, _Head) else call for call in calls)
        if self._backlog.room < 0:
            await self._backlog.caught_up()

    def _together(self) -> Iterator[_Head | Part]:
        """Heads of one statement, and ends, up to a call that must see what they do."""
        statement, heads, size, ended = "", 0, 0, set[AuditKey]()
        while self._waiting and heads < MOST_ROWS and size <= self._backlog.room:
            call = self._waiting[0]
            if isinstance(call, _Ask):
                return
            if isinstance(call, _Head):
                if statement not in ("", call.statement) or call.body.key in ended or self._backlog.holds(call.body.key):
                    return
                statement, heads, size = call.statement, heads + 1, size + call.body.size
            else:
                ended.add(call.key)
            self._waiting.popleft()
            yield call

    async def _put(self, heads: Sequence[_Head]) -> None:
        try:
            await self._lease()
            await self._link.run(partial(write, statement=heads[0].statement, rows=[head.row for head in heads]))
        except Refused as refusal:
            for head in heads:
                if len(heads) > 1:
                    await self._put([head])  # one of them is to blame
                else:
                    _fail(head.future, refusal)
        except StoreUnavailable as error:
            for head in heads:
                _fail(head.future, error)
        else:
            for head in heads:
                _fulfil(head.future, None)

    async def _answer(self, ask: _Ask) -> None:
        try:
            value = await self._link.run(ask.work)
        except StoreUnavailable as error:
            _fail(ask.future, error)
        else:
            _fulfil(ask.future, value)


def _fulfil(future: asyncio.Future[Any], value: object) -> None:
    if not future.done():  # else the caller has left
        future.set_result(value)


def _fail(future: asyncio.Future[Any], error: StoreUnavailable) -> None:
    if not future.done():
        told = StoreUnavailable(error.message)  # each its own, for its own traceback
        told.__cause__ = error.__cause__
        future.set_exception(told)
