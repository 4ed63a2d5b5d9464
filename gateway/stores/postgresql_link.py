"""One connection to a PostgreSQL server, made when first needed and again after a failure. Part of `postgresql`; knows no audits.

Whatever goes wrong leaves here as StoreUnavailable in our own words: never the server's text, an address, a user or a password.
One piece of work at a time; nobody cancels it but who ends the store, and then the connection goes with it.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import asyncpg  # type: ignore[import-untyped]

from gateway.errors import StoreUnavailable

CONNECT_S = 5.0
LOCKED_S = 2.0  # the server gives up waiting for a lock
STATEMENT_S = 5.0  # the server gives up a statement
ANSWER_S = 7.0  # after it a server that says nothing at all counts as gone
CLOSE_S = 2.0
_T = TypeVar("_T")
Connection = Any  # asyncpg has no types
Work = Callable[[Connection], Awaitable[_T]]

# A plan must not depend on when the server last looked at its tables: they are only ever reached through an index.
_SETTINGS = """
SELECT set_config(name, value, false) FROM unnest(
    ARRAY['statement_timeout', 'lock_timeout', 'tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count',
          'enable_seqscan', 'bytea_output', 'client_min_messages'],
    ARRAY[$1::text, $2::text, '15', '5', '3', 'off', 'hex', 'error']) AS settings (name, value)"""

_REFUSED = frozenset({"40P01", "55P03", "57014"})  # deadlock, lock, too slow: another statement may do well
_REFUSED_CLASSES = frozenset({"22", "23", "54"})  # the values themselves
_LOST_CLASSES = frozenset({"08", "57"})
_WORDS = {
    "25006": "The audit store can't be written: it is read-only.",
    "28": "The audit store refuses the user or the password of store.url.",
    "3D000": "The audit store's database does not exist: create it, or name another in store.url.",
    "40P01": f"The audit store is locked by another process for more than {LOCKED_S:g} seconds.",
    "42501": "The audit store's user may not create or write the tables: give it the right, or a schema of its own.",
    "3F000": "The audit store has no schema to write to: check the search_path of store.url.",
    "53100": "The audit store can't be written: the disk is full.",
    "53300": "The audit store takes no more connections: a gateway process needs three.",
    "55P03": f"The audit store is locked by another process for more than {LOCKED_S:g} seconds.",
    "57014": f"The audit store took more than {STATEMENT_S:g} seconds.",
}
_UNREACHED = "The audit store can't be reached."
_UNREAD = "The audit store's URL can't be used: write postgresql://user:password@host:port/database, percent-encoded."


class Refused(StoreUnavailable):
    """The connection works; this one statement was refused, and others may not be."""


class Lost(StoreUnavailable):
    """The connection is gone; whether the work was done is not known."""


class Link:
    """The connection. `greet` is done on every new one before any work; `lost` is told when one ends by itself."""

    def __init__(self, url: str, greet: Work[None] | None = None, lost: Callable[[], None] | None = None) -> None:
        self._url = url
        self._greet = greet
        self._lost = lost
        self._open: Connection = None

    @property
    def alive(self) -> bool:
        """Whether there is a connection, as far as is known."""
        return self._open is not None and not self._open.is_closed()

    async def run(self, work: Work[_T], *, within: float = ANSWER_S) -> _T:
        """What comes of it. Once more on a new connection when one that had stood idle turns out to be gone.

        So the work is done once or twice: it must not mind. Raises StoreUnavailable.
        """
        if self.alive:
            with suppress(Lost):
                return await self._attempt(work, within)
        return await self._attempt(work, within)

    async def close(self) -> None:
        """Says good-bye to the server if it listens; safe without a connection."""
        connection, self._open = self._open, None
        if connection is not None:
            with suppress(OSError, TimeoutError, asyncpg.PostgresError, asyncpg.InterfaceError):
                await connection.close(timeout=CLOSE_S)

    def drop(self) -> None:
        """Lets go of the connection at once; the next work makes another."""
        connection, self._open = self._open, None
        if connection is not None:
            connection.terminate()

    async def _attempt(self, work: Work[_T], within: float) -> _T:
        try:
            if not self.alive:
                await self._connect(within)
            return await _answer(work, self._open, within)
        except asyncio.CancelledError:
            self.drop()
            raise
        except Exception as cause:  # a driver may raise anything, and who writes must outlive it
            error = _error(cause)
            if not isinstance(error, Refused):
                self.drop()
            raise error from cause

    async def _connect(self, within: float) -> None:
        self.drop()
        connection = await _reached(self._url)
        try:
            milliseconds = [str(round(seconds * 1000)) for seconds in (STATEMENT_S, LOCKED_S)]
            await _answer(lambda opened: opened.execute(_SETTINGS, *milliseconds), connection, within)
            if self._greet is not None:
                await _answer(self._greet, connection, within)
        except BaseException:
            connection.terminate()
            raise
        if self._lost is not None:
            connection.add_termination_listener(self._ended)
        self._open = connection

    def _ended(self, connection: Connection) -> None:
        if connection is self._open and self._lost is not None:
            self._lost()


async def _reached(url: str) -> Connection:
    """A connection; asyncpg's own time limit is the one that tidies up behind itself."""
    return await asyncpg.connect(url, timeout=CONNECT_S, command_timeout=None)


async def _answer(work: Work[_T], connection: Connection, within: float) -> _T:
    """What comes of it, in time. A cancelled statement would ask the server to end it, over another connection: no use here."""
    task = asyncio.ensure_future(work(connection))
    try:
        done, _ = await asyncio.wait({task}, timeout=within)
    except asyncio.CancelledError:
        connection.terminate()
        await asyncio.wait({task})
        raise
    if done:
        return task.result()
    connection.terminate()
    await asyncio.wait({task})
    task.exception()
    raise TimeoutError


def _error(cause: Exception) -> StoreUnavailable:
    """What a client is told."""
    if isinstance(cause, StoreUnavailable):
        return cause
    if isinstance(cause, asyncpg.PostgresError):
        return _server_error(cause.sqlstate or "")
    if isinstance(cause, asyncpg.ClientConfigurationError):
        return StoreUnavailable(_UNREAD)
    if isinstance(cause, ssl.SSLError):
        return StoreUnavailable("The audit store can't be reached: TLS failed; check sslmode and sslrootcert in store.url.")
    if isinstance(cause, TimeoutError):
        return StoreUnavailable(_UNREACHED)
    if isinstance(cause, OSError | EOFError):
        return Lost(_UNREACHED)
    if isinstance(cause, ValueError | TypeError | OverflowError):  # asyncpg's DataError is one
        return Refused("The audit store can't hold a value of this request.")
    return Lost(_UNREACHED)


def _server_error(state: str) -> StoreUnavailable:
    """By the code the server gave; the first two characters are its class."""
    kind = state[:2]
    words = _WORDS.get(state) or _WORDS.get(kind) or "The audit store does not answer."
    if state in _REFUSED or kind in _REFUSED_CLASSES:
        return Refused(words)
    return Lost(words) if kind in _LOST_CLASSES else StoreUnavailable(words)
