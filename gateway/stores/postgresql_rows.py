"""Audits as rows of PostgreSQL tables: the statements. Part of `postgresql`; knows no queue and no connection of its own.

Every statement may be done twice, and names its chat by the primary key. A body is taken only by the head of its owner and
revision. An owner whose sign of life was lost for a moment may find its generation declared dead: its true end still counts.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from typing import Any

from gateway.learned import Learned, Lesson
from gateway.stores.base import AuditHead, AuditKey, AuditOutcome, AuditStatus, Place, StoredAudit, StoredChat
from gateway.stores.postgresql_link import Connection

Row = tuple[object, ...]

_OPEN = "(status = 'prepared' OR (owner = $4 AND status = 'failed' AND error_code = 'GATEWAY_RESTARTED'))"
PUT_HEAD = """
INSERT INTO sluicegate_audits
    (tenant, chat_id, generation_id, owner, revision, model, created_at, began_at, auxiliary, document, status)
VALUES ($1, $2, $3, $4, $5, $6, $7, $7, $8, $9, 'prepared')
ON CONFLICT (tenant, chat_id) DO UPDATE SET
    generation_id = excluded.generation_id, owner = excluded.owner, revision = excluded.revision, status = excluded.status,
    model = excluded.model, created_at = excluded.created_at, auxiliary = excluded.auxiliary, document = excluded.document,
    finished_at = NULL, error_code = NULL, finish_reason = NULL, usage = NULL, packed = false, body = NULL"""
AMEND = f"""
UPDATE sluicegate_audits SET owner = $4, revision = $5, document = $6, packed = false, body = NULL,
    status = 'prepared', finished_at = NULL, error_code = NULL
WHERE tenant = $1 AND chat_id = $2 AND generation_id = $3 AND {_OPEN}"""  # noqa: S608  # constant
PUT_BODY = """
UPDATE sluicegate_audits SET packed = $5, body = $6
WHERE tenant = $1 AND chat_id = $2 AND owner = $3 AND revision = $4"""
END = f"""
UPDATE sluicegate_audits SET status = $5, finished_at = $6, error_code = $7, finish_reason = $8, usage = $9
WHERE tenant = $1 AND chat_id = $2 AND generation_id = $3 AND {_OPEN}"""  # noqa: S608  # constant
_LATEST = """
SELECT generation_id, model, created_at, auxiliary, document, status, finished_at, error_code, finish_reason, usage, packed, body
FROM sluicegate_audits WHERE tenant = $1 AND chat_id = $2"""
_LISTED = "SELECT chat_id, began_at, created_at, model, status, generation_id FROM sluicegate_audits"
_CHAT = f"{_LISTED} WHERE tenant = $1 AND chat_id = $2"
_CHATS = f"""{_LISTED}
WHERE tenant = $1 AND NOT auxiliary AND (created_at, chat_id) < ($2, $3) ORDER BY created_at DESC, chat_id DESC LIMIT $4"""
_DELETE = "DELETE FROM sluicegate_audits WHERE tenant = $1 AND chat_id = $2 RETURNING true"
# What is locked is being written, and so neither old nor anybody's remains; waiting for it could end in a deadlock.
_PURGE = """
WITH old AS (SELECT tenant, chat_id FROM sluicegate_audits WHERE created_at < $1 LIMIT $2 FOR UPDATE SKIP LOCKED),
gone AS (DELETE FROM sluicegate_audits AS audits USING old
    WHERE audits.tenant = old.tenant AND audits.chat_id = old.chat_id RETURNING 1)
SELECT count(*) FROM gone"""
_OWNERS = "SELECT DISTINCT owner FROM sluicegate_audits WHERE status = 'prepared' AND owner <> $1"
_BURY = """
WITH left_open AS (
    SELECT tenant, chat_id FROM sluicegate_audits WHERE status = 'prepared' AND owner = $1 FOR UPDATE SKIP LOCKED)
UPDATE sluicegate_audits AS audits SET status = 'failed', error_code = 'GATEWAY_RESTARTED', finished_at = $2
FROM left_open WHERE audits.tenant = left_open.tenant AND audits.chat_id = left_open.chat_id"""
_LESSON = "SELECT provider, model, account, context_limit, sixteenths, expires_at FROM sluicegate_lessons"
_LEARN = """
INSERT INTO sluicegate_lessons (provider, model, account, context_limit, sixteenths, expires_at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (provider, model, account) DO UPDATE
SET context_limit = excluded.context_limit, sixteenths = excluded.sixteenths, expires_at = excluded.expires_at"""
# A row that never counts: that it could be written is all there is to know.
_PROBE = "BEGIN; INSERT INTO sluicegate_schema VALUES (0); ROLLBACK"


def head_row(head: AuditHead, owner: int, revision: int) -> Row:
    """Values for PUT_HEAD."""
    return (*_generation(head.key), owner, revision, _bytes(head.model), head.created_at, head.auxiliary, head.document)


def amended_row(head: AuditHead, owner: int, revision: int) -> Row:
    """Values for AMEND."""
    return (*_generation(head.key), owner, revision, head.document)


def body_row(key: AuditKey, owner: int, revision: int) -> Row:
    """Values for PUT_BODY but the last two: whether the body is packed, and the body."""
    return (_bytes(key.tenant), _bytes(key.chat_id), owner, revision)


def end_row(key: AuditKey, owner: int, outcome: AuditOutcome) -> Row:
    """Values for END."""
    reason = None if outcome.finish_reason is None else _bytes(outcome.finish_reason)
    how = (outcome.status.value, outcome.finished_at, outcome.error_code, reason, outcome.usage)
    return (*_generation(key), owner, *how)


async def write(connection: Connection, statement: str, rows: Sequence[Row]) -> None:
    """One statement for all rows, all or none, in one round trip.

    By chat, so that two gateways never wait for each other; the rows of one chat stay in their order.
    """
    await connection.executemany(statement, sorted(rows, key=lambda row: row[:2]))


async def latest(connection: Connection, tenant: str, chat_id: str) -> tuple[StoredAudit, bool] | None:
    """The chat's audit, and whether its body is packed."""
    row = await connection.fetchrow(_LATEST, _bytes(tenant), _bytes(chat_id))
    if row is None:
        return None
    generation_id, model, created_at, auxiliary, document, status, finished_at, error, reason, usage, packed, body = row
    head = AuditHead(AuditKey(tenant, chat_id, _text(generation_id)), _text(model), created_at, document, auxiliary)
    if status == AuditStatus.PREPARED:
        return StoredAudit(head, None, body), packed
    outcome = AuditOutcome(AuditStatus(status), finished_at, error, usage, None if reason is None else _text(reason))
    return StoredAudit(head, outcome, body), packed


async def chat(connection: Connection, tenant: str, chat_id: str) -> StoredChat | None:
    """A chat without its audit."""
    row = await connection.fetchrow(_CHAT, _bytes(tenant), _bytes(chat_id))
    return None if row is None else _chat(row)


async def chats(connection: Connection, tenant: str, limit: int, before: Place | None) -> list[StoredChat]:
    """The chats of a tenant after a place."""
    created_at, chat_id = before or (math.inf, "")
    return [_chat(row) for row in await connection.fetch(_CHATS, _bytes(tenant), created_at, _bytes(chat_id), limit)]


async def delete_chat(connection: Connection, tenant: str, chat_id: str) -> bool:
    """Deletes a chat; False when there was none."""
    return bool(await connection.fetchval(_DELETE, _bytes(tenant), _bytes(chat_id)))


async def purge(connection: Connection, before: float, limit: int) -> int:
    """Deletes at most `limit` audits created before this time, and gives their number; and lessons that have expired."""
    await connection.execute("DELETE FROM sluicegate_lessons WHERE expires_at <= $1", time.time())
    return int(await connection.fetchval(_PURGE, before, limit))


async def bury(connection: Connection, owner: int) -> None:
    """Marks as failed what dead owners left prepared: those whose lock can be taken. This owner is not asked."""
    async with connection.transaction():
        for (other,) in await connection.fetch(_OWNERS, owner):
            if await connection.fetchval("SELECT pg_try_advisory_xact_lock($1)", other):
                await connection.execute(_BURY, other, time.time())


async def learn(connection: Connection, lesson: Lesson, now: float) -> None:
    """Keeps a lesson on top of the one that is there; gateways take turns."""
    subject = (_bytes(lesson.provider), _bytes(lesson.model), _bytes(lesson.account))
    async with connection.transaction():
        await connection.execute("LOCK TABLE sluicegate_lessons IN SHARE ROW EXCLUSIVE MODE")
        row = await connection.fetchrow(f"{_LESSON} WHERE provider = $1 AND model = $2 AND account = $3", *subject)
        kept = lesson.after(_lesson(row) if row else None, now)
        await connection.execute(_LEARN, *subject, kept.learned.context_limit, kept.learned.sixteenths, kept.expires_at)


async def lessons(connection: Connection, now: float) -> list[Lesson]:
    """The lessons that haven't expired."""
    rows = await connection.fetch(f"{_LESSON} WHERE expires_at > $1 ORDER BY provider, model, account", now)
    return [_lesson(row) for row in rows]


async def probe(connection: Connection) -> None:
    """Raises when the tables can't be written."""
    await connection.execute(_PROBE)


def _generation(key: AuditKey) -> Row:
    return (_bytes(key.tenant), _bytes(key.chat_id), _bytes(key.generation_id))


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _text(stored: bytes) -> str:
    return stored.decode("utf-8", "surrogatepass")


def _chat(row: Sequence[Any]) -> StoredChat:
    chat_id, began_at, created_at, model, status, generation_id = row
    return StoredChat(_text(chat_id), began_at, created_at, _text(model), AuditStatus(status), _text(generation_id))


def _lesson(row: Sequence[Any]) -> Lesson:
    provider, model, account, context_limit, sixteenths, expires_at = row
    return Lesson(_text(provider), _text(model), _text(account), Learned(context_limit, sixteenths), expires_at)
