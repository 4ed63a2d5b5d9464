"""The store in a PostgreSQL database, which several gateways may share. Knows neither SQL nor connections.

A process takes three connections: one for what callers wait for, one for bodies and ends, and one that holds its sign of life.
That one needs a session of its own: no pooler in between that hands sessions around between transactions.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import replace
from functools import partial
from urllib.parse import parse_qsl, urlsplit

from gateway.errors import StoreUnavailable
from gateway.learned import Lesson
from gateway.stores import postgresql_rows as rows
from gateway.stores.base import AuditHead, AuditKey, AuditOutcome, AuditStore, Place, StoredAudit, StoredChat, UnknownStore
from gateway.stores.postgresql_backlog import Part
from gateway.stores.postgresql_lease import Lease
from gateway.stores.postgresql_packing import unpacked
from gateway.stores.postgresql_schema import MIGRATION_S
from gateway.stores.postgresql_writer import NOTHING, Writer

PURGE_STEP = 256  # chats deleted in one go, so that a purge doesn't hold up the others
_HOSTS = re.compile(r"(?:(?:\[[0-9a-fA-F:.]+\]|[^\s:\[\],@/]+)?(?::\d{1,5})?(?:,|$))*")


class PostgresqlStore(AuditStore):
    """Audits in tables of their own, made when missing."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._writer: Writer | None = None
        self._lease: Lease | None = None
        self._revisions = itertools.count()

    @classmethod
    def from_url(cls, url: str) -> PostgresqlStore:
        """The store for `postgresql://user:password@host:port/database?sslmode=…`; what is missing is the driver's default."""
        if not _readable(url):
            raise UnknownStore(
                "A PostgreSQL store is written postgresql://user:password@host:port/database; "
                "what has a meaning in URLs is percent-encoded in its parts"
            )
        return cls(url)

    @property
    def present(self) -> bool:
        """A server has to be asked."""
        return True

    async def open(self) -> None:
        """Connects, brings the tables up to date, shows a sign of life; marks as failed what dead processes left prepared."""
        if self._writer is not None:
            return
        lease = Lease(self._url)
        writer = Writer(self._url, lease.hold)
        try:
            await lease.hold(within=MIGRATION_S)
            await writer.ask(partial(rows.bury, owner=lease.owner))
        except BaseException:
            await writer.stop()
            await lease.release()
            raise
        self._lease, self._writer = lease, writer

    async def aclose(self) -> None:
        """Writes what is handed over and closes the connections, within about ten seconds."""
        writer, lease, self._writer, self._lease = self._writer, self._lease, None, None
        if writer is not None and lease is not None:
            await writer.stop()
            await lease.release()

    async def replace(self, head: AuditHead, body: bytes) -> None:
        """Makes this the chat's audit; the head is committed when it returns."""
        writer, owner, revision = *self._opened(), next(self._revisions)
        part = Part(head.key, rows.body_row(head.key, owner, revision), body)
        await writer.put(rows.PUT_HEAD, rows.head_row(head, owner, revision), part)

    async def amend(self, head: AuditHead, body: bytes) -> None:
        """Changes a prepared audit of exactly this generation; committed when it returns."""
        writer, owner, revision = *self._opened(), next(self._revisions)
        part = Part(head.key, rows.body_row(head.key, owner, revision), body)
        await writer.put(rows.AMEND, rows.amended_row(head, owner, revision), part)

    async def finish(self, key: AuditKey, outcome: AuditOutcome) -> None:
        """Ends a prepared audit of exactly this generation; tried again for some minutes when it can't be written."""
        writer, owner = self._opened()
        writer.tell(Part(key, rows.end_row(key, owner, outcome)))
        await writer.caught_up()

    async def latest(self, tenant: str, chat_id: str) -> StoredAudit | None:
        """The chat's audit."""
        writer, _ = self._opened()
        found = await writer.ask(partial(rows.latest, tenant=tenant, chat_id=chat_id), (tenant, chat_id))
        if found is None:
            return None
        audit, packed = found
        return replace(audit, body=await unpacked(audit.body or b"")) if packed else audit

    async def chat(self, tenant: str, chat_id: str) -> StoredChat | None:
        """A chat without its audit."""
        writer, _ = self._opened()
        return await writer.ask(partial(rows.chat, tenant=tenant, chat_id=chat_id), (tenant, chat_id))

    async def chats(self, tenant: str, limit: int, before: Place | None = None) -> list[StoredChat]:
        """The chats of a tenant."""
        writer, _ = self._opened()
        return await writer.ask(partial(rows.chats, tenant=tenant, limit=limit, before=before))

    async def delete_chat(self, tenant: str, chat_id: str) -> bool:
        """Deletes a chat with its audit."""
        writer, _ = self._opened()
        return await writer.ask(partial(rows.delete_chat, tenant=tenant, chat_id=chat_id), (tenant, chat_id))

    async def purge(self, before: float) -> int:
        """Deletes audits created before this time, in small steps, and expired lessons; looks for what the dead left, too."""
        total, deleted = 0, PURGE_STEP
        while deleted == PURGE_STEP:
            writer, _ = self._opened()  # each time: it may have been closed meanwhile
            deleted = await writer.ask(partial(rows.purge, before=before, limit=PURGE_STEP))
            total += deleted
        writer, owner = self._opened()
        await writer.ask(partial(rows.bury, owner=owner))
        return total

    async def learn(self, lesson: Lesson, now: float) -> None:
        """Keeps a lesson; committed when it returns."""
        writer, _ = self._opened()
        await writer.ask(partial(rows.learn, lesson=lesson, now=now), NOTHING)

    async def lessons(self, now: float) -> list[Lesson]:
        """The lessons that haven't expired."""
        writer, _ = self._opened()
        return await writer.ask(partial(rows.lessons, now=now), NOTHING)

    async def check(self) -> None:
        """Writes a row that never counts."""
        await self._opened()[0].ask(rows.probe, NOTHING)

    def _opened(self) -> tuple[Writer, int]:
        if self._writer is None or self._lease is None:
            raise StoreUnavailable("The audit store is not open.")
        return self._writer, self._lease.owner


def _readable(url: str) -> bool:
    """Whether it has the parts that the driver will look for; the driver tells the rest when it connects."""
    try:
        parts = urlsplit(url)
        hosts = parts.netloc.rpartition("@")[2]
        parse_qsl(parts.query, strict_parsing=bool(parts.query))
    except ValueError:
        return False
    return url.startswith("postgresql://") and not parts.fragment and "@" not in parts.path and bool(_HOSTS.fullmatch(hosts))
