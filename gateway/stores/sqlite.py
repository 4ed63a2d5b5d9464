"""The store in one SQLite file: a thread that owns the connection, fed by a queue. Knows nothing of the statements.

Whatever waits in the queue is one batch. The heads callers wait for are committed first, and their callers told in one step.
Bodies and ends, which nobody waits for, are put off some milliseconds and then share a transaction; anything else that is asked
comes after them, so that the effect is that of the calls in their order. Several processes may use the same file.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import sqlite3
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any, TypeVar

from gateway.errors import StoreUnavailable
from gateway.learned import Lesson
from gateway.stores.base import AuditHead, AuditKey, AuditOutcome, AuditStore, Place, StoredAudit, StoredChat, UnknownStore
from gateway.stores.sqlite_file import BUSY_TIMEOUT_S, Row, SqliteFile

BODY_BYTES = 32 * 1024 * 1024  # of bodies in one batch, give or take one, and of those to be tried again; the rest waits its turn
WAITING_JOBS = 10_000  # beyond it `finish` waits for the thread to catch up
LINGER_S = 0.005  # so long a body or an end waits for company: a transaction for it alone costs more than writing it
RETRY_S = 1.0
ATTEMPTS = 30  # for a body or an end that can't be written; those that an outage of the file costs don't count
MOST_RETRIES = 20_000  # ends above all, which are small: none is lost to an outage of many minutes
CLOSE_S = 10.0
PURGE_STEP = 256  # chats deleted in one go, so that a purge doesn't hold up the others

_log = logging.getLogger(__name__)
_T = TypeVar("_T")
_WORDS = {
    sqlite3.SQLITE_BUSY: f"The audit store is locked by another process for more than {BUSY_TIMEOUT_S:g} seconds.",
    sqlite3.SQLITE_FULL: "The audit store can't be written: the disk is full.",
    sqlite3.SQLITE_READONLY: "The audit store can't be written: it is read-only.",
    sqlite3.SQLITE_IOERR: "The audit store can't be read or written: the disk reports an error.",
    sqlite3.SQLITE_CANTOPEN: "The audit store can't be opened.",
    sqlite3.SQLITE_CORRUPT: "The audit store is damaged.",
    sqlite3.SQLITE_NOTADB: "The audit store's file is not a SQLite database.",
}
_OUTAGES = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN}


@dataclass(slots=True, eq=False)
class _Job:
    """One thing for the thread to do: `work`, or a row for it, so that neighbours of a kind are one statement."""

    work: Callable[..., object]
    future: asyncio.Future[Any] | None = None  # None: nobody waits, a failure is tried again later
    row: Row = ()  # empty: `work` takes nothing
    writes: bool = True
    size: int = 0  # bytes of a body
    attempts: int = 0


@dataclass(frozen=True, slots=True)
class _Result:
    """What one caller is told."""

    job: _Job
    value: object = None
    error: StoreUnavailable | None = None


class SqliteStore(AuditStore):
    """Audits in a SQLite file, made with its folder when missing."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._writer: _Writer | None = None
        self._revisions = itertools.count()

    @classmethod
    def from_url(cls, url: str) -> SqliteStore:
        """The store for `sqlite:///relative/path` (to the working directory) or `sqlite:////absolute/path`."""
        path = url.removeprefix("sqlite:///")
        if path == url or not Path(path).name:
            raise UnknownStore("A SQLite store is written sqlite:///relative/path or sqlite:////absolute/path")
        return cls(Path(path))

    @property
    def present(self) -> bool:
        """Whether the file is there."""
        return self._path.exists()

    async def open(self) -> None:
        """Starts the thread; marks as failed what dead processes left prepared."""
        if self._writer is not None:
            return
        writer = _Writer(SqliteFile(self._path))
        try:
            await writer.ask(writer.file.bury)
        except BaseException:
            await writer.stop()
            raise
        self._writer = writer

    async def aclose(self) -> None:
        """Writes what is handed over and ends the thread, within about ten seconds."""
        writer, self._writer = self._writer, None
        if writer is not None:
            await writer.stop()

    async def replace(self, head: AuditHead, body: bytes) -> None:
        """Makes this the chat's audit; the head is committed when it returns."""
        writer, revision = self._opened(), next(self._revisions)
        committed = writer.ask(writer.file.put_heads, row=writer.file.head_row(head, revision))
        writer.tell(_Job(writer.file.put_bodies, row=writer.file.body_row(head.key, revision, body), size=len(body)))
        await committed

    async def amend(self, head: AuditHead, body: bytes) -> None:
        """Changes a prepared audit of exactly this generation; committed when it returns."""
        writer, revision = self._opened(), next(self._revisions)
        committed = writer.ask(partial(writer.file.amend, head, revision))
        writer.tell(_Job(writer.file.put_bodies, row=writer.file.body_row(head.key, revision, body), size=len(body)))
        await committed

    async def finish(self, key: AuditKey, outcome: AuditOutcome) -> None:
        """Ends a prepared audit of exactly this generation; tried again for a while when it can't be written."""
        writer = self._opened()
        writer.tell(_Job(writer.file.end, row=writer.file.end_row(key, outcome)))
        await writer.caught_up()

    async def latest(self, tenant: str, chat_id: str) -> StoredAudit | None:
        """The chat's audit."""
        writer = self._opened()
        return await writer.ask(partial(writer.file.latest, tenant, chat_id), writes=False)

    async def chat(self, tenant: str, chat_id: str) -> StoredChat | None:
        """A chat without its audit."""
        writer = self._opened()
        return await writer.ask(partial(writer.file.chat, tenant, chat_id), writes=False)

    async def chats(self, tenant: str, limit: int, before: Place | None = None) -> list[StoredChat]:
        """The chats of a tenant."""
        writer = self._opened()
        return await writer.ask(partial(writer.file.chats, tenant, limit, before), writes=False)

    async def delete_chat(self, tenant: str, chat_id: str) -> bool:
        """Deletes a chat with its audit."""
        writer = self._opened()
        return await writer.ask(partial(writer.file.delete_chat, tenant, chat_id))

    async def purge(self, before: float) -> int:
        """Deletes audits created before this time, in small steps, and lessons that have expired."""
        total, deleted = 0, PURGE_STEP
        while deleted == PURGE_STEP:
            writer = self._opened()  # each time: it may have been closed meanwhile, and would never answer
            deleted = await writer.ask(partial(writer.file.purge, before, PURGE_STEP))
            total += deleted
        return total

    async def learn(self, lesson: Lesson, now: float) -> None:
        """Keeps a lesson; committed when it returns."""
        writer = self._opened()
        await writer.ask(partial(writer.file.learn, lesson, now))

    async def lessons(self, now: float) -> list[Lesson]:
        """The lessons that haven't expired."""
        writer = self._opened()
        return await writer.ask(partial(writer.file.lessons, now), writes=False)

    async def check(self) -> None:
        """Writes a page that changes nothing, unless one was written a moment ago."""
        writer = self._opened()
        await writer.ask(writer.file.prove)

    def _opened(self) -> _Writer:
        if self._writer is None:
            raise StoreUnavailable("The audit store is not open.")
        return self._writer


class _Writer:
    """The thread. A daemon: a store that nobody closed must not keep the interpreter from ending."""

    def __init__(self, file: SqliteFile) -> None:
        self.file = file
        self._loop = asyncio.get_running_loop()
        self._queue: SimpleQueue[_Job] = SimpleQueue()
        self._told: list[_Job] = []  # in the order of the calls, before whatever is asked next
        self._hand_over_later: asyncio.TimerHandle | None = None
        self._retries: deque[_Job] = deque()
        self._retry_bytes = 0
        self._retry_at = 0.0
        self._put_off: list[_Job] = []  # bodies and ends
        self._put_off_until = 0.0
        self._ended: set[Row] = set()  # what the rows among them are about, the generations of ends among it
        self._stopped: asyncio.Future[None] = self._loop.create_future()
        self._last = _Job(_nothing, self._stopped)
        self._thread = Thread(target=self._run, name="audit-store", daemon=True)
        self._thread.start()

    def ask(self, work: Callable[..., _T], *, row: Row = (), writes: bool = True) -> asyncio.Future[_T]:
        """Hands a job over at once; the future holds what comes of it."""
        future: asyncio.Future[_T] = self._loop.create_future()
        self._hand_over()
        self._queue.put(_Job(work, future, row, writes))
        return future

    def tell(self, job: _Job) -> None:
        """Hands a job over that nobody waits for, within `LINGER_S` or with the next that is asked."""
        self._told.append(job)
        if self._hand_over_later is None:
            self._hand_over_later = self._loop.call_later(LINGER_S, self._hand_over)

    async def caught_up(self) -> None:
        """Waits while the thread is far behind."""
        while self._queue.qsize() > WAITING_JOBS:  # noqa: ASYNC110  # rare, and no event of the loop tells it
            await asyncio.sleep(0.001)

    async def stop(self) -> None:
        """Ends the thread after everything handed over; gives up waiting for it after `CLOSE_S`."""
        self._hand_over()
        self._queue.put(self._last)
        done, _ = await asyncio.wait([self._stopped], timeout=CLOSE_S)
        if done:
            self._thread.join()
        else:
            _log.warning("the audit store could not be closed within %g seconds", CLOSE_S)

    def _hand_over(self) -> None:
        """Gives the thread what nobody waits for."""
        if self._hand_over_later is not None:
            self._hand_over_later.cancel()
            self._hand_over_later = None
        told, self._told = self._told, []
        for job in told:
            self._queue.put(job)

    def _run(self) -> None:
        batch: list[_Job] = []
        while self._last not in batch:
            batch = self._next_batch()
            self._do([job for job in batch if job is not self._last], last=self._last in batch)
            if self._retries and time.monotonic() >= self._retry_at:
                self._retry()
        self._retry()
        try:
            self.file.close()
        except (sqlite3.Error, OSError):
            _log.warning("the audit store was not closed cleanly; nothing is lost, the next start tidies up")
        self._tell([_Result(self._last)])

    def _next_batch(self) -> list[_Job]:
        """What waits in the queue, up to so many bytes of bodies; nothing when something that was put off is due."""
        times = ([self._retry_at] if self._retries else []) + ([self._put_off_until] if self._put_off else [])
        timeout = max(0.0, min(times) - time.monotonic()) if times else None
        try:
            batch = [self._queue.get(timeout=timeout)]
        except Empty:
            return []
        size = batch[0].size
        while size <= BODY_BYTES and self._queue.qsize():  # nobody else takes from the queue
            batch.append(self._queue.get())
            size += batch[-1].size
        return batch

    def _do(self, batch: Sequence[_Job], *, last: bool) -> None:
        """One batch: rows between two jobs of another kind are done together, what was put off before each of those."""
        rows: list[_Job] = []
        for job in batch:
            if job.future is not None and (not job.row or job.row[:3] in self._ended):
                self._do_rows(rows)
                self._catch_up()
                rows = []
            if not job.row:
                self._tell(self._transact([job]))
                continue
            rows.append(job)
            if job.future is None:
                self._ended.add(job.row[:3])
        self._do_rows(rows)
        if last or time.monotonic() >= self._put_off_until or sum(job.size for job in self._put_off) > BODY_BYTES:
            self._catch_up()

    def _do_rows(self, rows: Sequence[_Job]) -> None:
        """Heads at once. Bodies and ends wait for company: they change nothing but the head of their own generation."""
        self._tell(self._put_heads([job for job in rows if job.future is not None]))
        later = [job for job in rows if job.future is None]
        if later and not self._put_off:
            self._put_off_until = time.monotonic() + LINGER_S
        self._put_off += later

    def _put_heads(self, heads: Sequence[_Job]) -> list[_Result]:
        """A head that comes alone is a transaction by itself, which spares its client the time of two more statements."""
        if len(heads) != 1:
            return self._transact(heads)
        try:
            self.file.put_heads([heads[0].row])
        except Exception as cause:  # noqa: BLE001  # as in `_transact`; trying again would double the wait for a locked file
            self.file.drop()
            return [self._failed(heads[0], cause)]
        return [_Result(heads[0])]

    def _catch_up(self) -> None:
        """Does what was put off."""
        jobs, self._put_off = self._put_off, []
        self._ended.clear()
        self._transact(jobs)

    def _transact(self, jobs: Sequence[_Job]) -> list[_Result]:
        """Rows, or one other job, in one transaction, all or none."""
        if not jobs:
            return []
        try:
            self.file.begin(writes=jobs[0].writes)
            results = _perform(jobs)
            self.file.commit()
        except Exception as cause:  # noqa: BLE001  # the thread must outlive any job, or every later call would wait forever
            self.file.drop()
            if len(jobs) > 1 and not isinstance(cause, sqlite3.OperationalError | OSError | StoreUnavailable):
                return [self._transact([job])[0] for job in jobs]  # one row is to blame, not the file as a whole
            return [self._failed(job, cause) for job in jobs]
        return results

    def _failed(self, job: _Job, cause: Exception) -> _Result:
        if job.future is None:
            self._try_again(job, cause)
        error = StoreUnavailable(_words(cause))
        error.__cause__ = cause
        return _Result(job, error=error)

    def _try_again(self, job: _Job, cause: Exception) -> None:
        job.attempts += not _is_outage(cause)
        size = self._retry_bytes + job.size
        if job.attempts < ATTEMPTS and size <= BODY_BYTES and len(self._retries) < MOST_RETRIES:
            self._retries.append(job)
            self._retry_bytes = size
            self._retry_at = time.monotonic() + RETRY_S
        else:
            _log.warning("a part of an audit could not be stored and is given up (attempt %d)", job.attempts)

    def _retry(self) -> None:
        """Failed jobs, each alone, until one fails again (it goes to the end of the line)."""
        while self._retries:
            job = self._retries.popleft()
            self._retry_bytes -= job.size
            result = self._transact([job])
            if result[0].error is not None:
                return

    def _tell(self, results: Sequence[_Result]) -> None:
        heard = [result for result in results if result.job.future is not None]
        if heard:
            try:
                self._loop.call_soon_threadsafe(_settle, heard)
            except RuntimeError:  # the loop is closed: nobody waits any more
                _log.debug("nobody waits for the audit store any more")


def _perform(jobs: Sequence[_Job]) -> list[_Result]:
    """Rows, one statement a kind, or one other job."""
    if not jobs[0].row:
        return [_Result(jobs[0], jobs[0].work())]
    kinds: dict[Callable[..., object], list[Row]] = {}
    for job in jobs:
        kinds.setdefault(job.work, []).append(job.row)
    for write, rows in kinds.items():
        write(rows)
    return [_Result(job) for job in jobs]


def _settle(results: Sequence[_Result]) -> None:
    """Tells the callers, on their own thread; some may have left."""
    for result in results:
        future = result.job.future
        if future is None or future.done():
            continue
        if result.error is None:
            future.set_result(result.value)
        else:
            future.set_exception(result.error)


def _is_outage(cause: Exception) -> bool:
    """Whether the file is to blame rather than what should be written."""
    return isinstance(cause, OSError) or getattr(cause, "sqlite_errorcode", 0) & 0xFF in _OUTAGES


def _words(cause: Exception) -> str:
    """What a client is told: our own words, no path."""
    if isinstance(cause, StoreUnavailable):
        return cause.message
    if isinstance(cause, OSError):
        return _WORDS[sqlite3.SQLITE_CANTOPEN]
    code = getattr(cause, "sqlite_errorcode", 0)
    return _WORDS.get(code & 0xFF, "The audit store does not answer.")  # the low byte is the kind


def _nothing() -> None:
    """Asks for nothing but a transaction."""
