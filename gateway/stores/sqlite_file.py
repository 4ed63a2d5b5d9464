"""One SQLite file with audits: schema, migrations, statements. Part of `sqlite`; used by one thread at a time.

Knows nothing of event loops, queues or retries. Raises sqlite3's errors and OSError as they come, and StoreUnavailable for a file
of a newer version. Heads and bodies lie apart: a change of status must not rewrite a body of some hundred kilobytes. A body
serves only the head whose revision it bears; the next one overwrites it, and a trigger takes it along when the head goes. A new
head touches one page of the file, for a client waits for its commit: hence no index but the chat's own.
"""

from __future__ import annotations

import math
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import lru_cache
from operator import itemgetter
from pathlib import Path
from typing import Any

from gateway.errors import StoreUnavailable
from gateway.learned import Learned, Lesson
from gateway.stores.base import AuditHead, AuditKey, AuditOutcome, AuditStatus, Place, StoredAudit, StoredChat
from gateway.stores.sqlite_owners import OwnerLock

OLDEST_SQLITE = (3, 37, 0)  # has STRICT tables; UPDATE FROM came with 3.33
BUSY_TIMEOUT_S = 2.0
PROOF_S = 1.0  # so long a written page proves that the file can be written
LOG_PAGES = 3000  # 48 MB of log before it moves into the file: what is rewritten meanwhile moves only once
PAGE_BYTES = 16_384  # of a new file: bodies of 300 KB took 0.6 of the time that they took with SQLite's own 4096

# One entry a version, each a list of statements; what has been released is never edited.
MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE heads (
            id INTEGER PRIMARY KEY,
            tenant TEXT NOT NULL,
            chat_id TEXT NOT NULL,
            generation_id TEXT NOT NULL,
            owner TEXT NOT NULL,
            revision INTEGER NOT NULL,
            status TEXT NOT NULL,
            model TEXT NOT NULL,
            created_at REAL NOT NULL,
            auxiliary INTEGER NOT NULL,
            finished_at REAL,
            error_code TEXT,
            finish_reason TEXT,
            usage BLOB,
            document BLOB NOT NULL,
            UNIQUE (tenant, chat_id)
        ) STRICT""",
        """CREATE TABLE bodies (
            head_id INTEGER PRIMARY KEY,
            owner TEXT NOT NULL,
            revision INTEGER NOT NULL,
            document BLOB NOT NULL
        ) STRICT""",
        """CREATE TRIGGER head_deleted AFTER DELETE ON heads
            BEGIN DELETE FROM bodies WHERE head_id = old.id; END""",
    ),
    (
        """CREATE TABLE lessons (
            provider TEXT NOT NULL,
            model TEXT NOT NULL,
            account TEXT NOT NULL,
            context_limit INTEGER,
            sixteenths INTEGER NOT NULL,
            expires_at REAL NOT NULL,
            PRIMARY KEY (provider, model, account)
        ) STRICT, WITHOUT ROWID""",
        "ALTER TABLE heads ADD COLUMN began_at REAL NOT NULL DEFAULT 0",
        "UPDATE heads SET began_at = created_at",
    ),
)

Row = tuple[object, ...]
MOST_ROWS = 64  # in one statement; every number of rows is a statement of its own, and all of them fit into the cache
MOST_BYTES = 65_536  # of documents in one statement of several rows: it holds copies of its values until it is used again

_PUT_HEADS = """
INSERT INTO heads (tenant, chat_id, generation_id, owner, revision, status, model, created_at, auxiliary, began_at, document)
VALUES {rows} ON CONFLICT (tenant, chat_id) DO UPDATE SET
    generation_id = excluded.generation_id, owner = excluded.owner, revision = excluded.revision, status = excluded.status,
    model = excluded.model, created_at = excluded.created_at, auxiliary = excluded.auxiliary, document = excluded.document,
    finished_at = NULL, error_code = NULL, finish_reason = NULL, usage = NULL"""
# CROSS: in this order, and without a temporary table that holds the bodies once more
_PUT_BODIES = """
WITH given (tenant, chat_id, owner, revision, document) AS (VALUES {rows})
INSERT OR REPLACE INTO bodies (head_id, owner, revision, document)
SELECT id, owner, revision, given.document FROM given CROSS JOIN heads USING (tenant, chat_id, owner, revision)"""
_END = """
WITH given (tenant, chat_id, generation_id, status, finished_at, error_code, finish_reason, usage) AS (VALUES {rows})
UPDATE heads SET status = given.status, finished_at = given.finished_at, error_code = given.error_code,
    finish_reason = given.finish_reason, usage = given.usage
FROM given WHERE heads.tenant = given.tenant AND heads.chat_id = given.chat_id
    AND heads.generation_id = given.generation_id AND heads.status = 'prepared'"""
_AMEND = """
UPDATE heads SET revision = ?, owner = ?, document = ?
WHERE tenant = ? AND chat_id = ? AND generation_id = ? AND status = 'prepared'"""
_LATEST = """
SELECT generation_id, model, created_at, auxiliary, heads.document,
       status, finished_at, error_code, finish_reason, usage, bodies.document
FROM heads LEFT JOIN bodies ON head_id = id AND bodies.owner = heads.owner AND bodies.revision = heads.revision
WHERE tenant = ? AND chat_id = ?"""
_CHAT = "SELECT chat_id, began_at, created_at, model, status, generation_id FROM heads WHERE tenant = ? AND chat_id = ?"
_CHATS = """
SELECT chat_id, began_at, created_at, model, status, generation_id FROM heads
WHERE tenant = ? AND auxiliary = 0 AND (created_at, chat_id) < (?, ?) ORDER BY created_at DESC, chat_id DESC LIMIT ?"""
_BURY = """
UPDATE heads SET status = 'failed', error_code = 'GATEWAY_RESTARTED', finished_at = ?
WHERE status = 'prepared' AND owner = ?"""
_LESSON = """
SELECT provider, model, account, context_limit, sixteenths, expires_at
FROM lessons WHERE provider = ? AND model = ? AND account = ?"""
_LESSONS = """
SELECT provider, model, account, context_limit, sixteenths, expires_at
FROM lessons WHERE expires_at > ? ORDER BY provider, model, account"""
_LEARN = """
INSERT OR REPLACE INTO lessons (provider, model, account, context_limit, sixteenths, expires_at) VALUES (?, ?, ?, ?, ?, ?)"""


class SqliteFile:
    """The database file, opened when first needed and again after every failure."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._owner = OwnerLock(path.with_name(f"{path.name}.owners"))
        self._opened: sqlite3.Connection | None = None
        self._proved_at = -math.inf

    def begin(self, *, writes: bool) -> None:
        """Starts a transaction. One that only reads doesn't wait for the writers of other processes."""
        self._connection.execute("BEGIN IMMEDIATE" if writes else "BEGIN")

    def commit(self) -> None:
        """Ends the transaction: now it counts."""
        self._connection.execute("COMMIT")

    def drop(self) -> None:
        """Undoes the transaction and lets go of the connection, which may be broken; the next use opens another."""
        connection, self._opened, self._proved_at = self._opened, None, -math.inf
        if connection is not None:
            with suppress(sqlite3.Error):
                connection.close()

    def close(self) -> None:
        """Moves the log into the file as far as nobody is in the way, closes, ends the sign of life."""
        try:
            if self._opened is not None:
                self._opened.execute("PRAGMA wal_checkpoint(PASSIVE)")
        finally:
            self.drop()
            self._owner.release()

    def prove(self) -> None:
        """Writes the first page as it is, inside a writing transaction: the lock alone can be had on a full disk, too.

        Not again within `PROOF_S`, while nothing fails: who asks all the time must not fill the log.
        """
        now = time.monotonic()
        if now - self._proved_at >= PROOF_S:
            self._connection.execute(f"PRAGMA user_version = {_version(self._connection)}")
            self._proved_at = now

    def bury(self) -> None:
        """Marks as failed what the dead left prepared.

        Inside a writing transaction: whoever commits a prepared head after it had shown its sign of life before.
        """
        prepared = self._connection.execute("SELECT DISTINCT owner FROM heads WHERE status = 'prepared'").fetchall()
        dead = {owner for (owner,) in prepared} - self._owner.living()
        self._connection.executemany(_BURY, [(time.time(), owner) for owner in dead])

    def head_row(self, head: AuditHead, revision: int) -> Row:
        """A row for `put_heads`."""
        key = head.key
        named = (key.tenant, key.chat_id, key.generation_id, self._owner.id, revision, AuditStatus.PREPARED.value)
        return (*named, head.model, head.created_at, head.auxiliary, head.created_at, head.document)

    def put_heads(self, rows: Sequence[Row]) -> None:
        """Writes heads over whatever their chats held, but for when those began, in this order; the old bodies go with it."""
        self._write(_PUT_HEADS, rows)

    def amend(self, head: AuditHead, revision: int) -> None:
        """Puts another document into a prepared head of exactly this generation; its old body no longer counts."""
        key = head.key
        values = (revision, self._owner.id, head.document, key.tenant, key.chat_id, key.generation_id)
        self._connection.execute(_AMEND, values)

    def body_row(self, key: AuditKey, revision: int, body: bytes) -> Row:
        """A row for `put_bodies`."""
        return (key.tenant, key.chat_id, self._owner.id, revision, body)

    def put_bodies(self, rows: Sequence[Row]) -> None:
        """Writes the bodies of heads, where the chats still hold exactly those; of a chat's only the newest can be that."""
        last = {row[:2]: row for row in sorted(rows, key=itemgetter(3))}
        self._write(_PUT_BODIES, list(last.values()))

    def end_row(self, key: AuditKey, outcome: AuditOutcome) -> Row:
        """A row for `end`."""
        how = (outcome.status.value, outcome.finished_at, outcome.error_code, outcome.finish_reason, outcome.usage)
        return (key.tenant, key.chat_id, key.generation_id, *how)

    def end(self, rows: Sequence[Row]) -> None:
        """Ends prepared audits of exactly these generations; of several ends of one the first counts."""
        first = {row[:3]: row for row in reversed(rows)}
        self._write(_END, list(first.values()))

    def _write(self, statement: str, rows: Sequence[Row]) -> None:
        """Many rows in one statement: each statement costs the thread its turn among Python's threads, a row does not."""
        for some in _portions(rows):
            values = [value for row in some for value in row]
            self._connection.execute(_with_rows(statement, len(some), len(some[0])), values)

    def latest(self, tenant: str, chat_id: str) -> StoredAudit | None:
        """The chat's audit."""
        row = self._connection.execute(_LATEST, (tenant, chat_id)).fetchone()
        if row is None:
            return None
        generation_id, model, created_at, auxiliary, document, status, finished_at, error, reason, usage, body = row
        head = AuditHead(AuditKey(tenant, chat_id, generation_id), model, created_at, document, bool(auxiliary))
        if status == AuditStatus.PREPARED:
            return StoredAudit(head, None, body)
        return StoredAudit(head, AuditOutcome(AuditStatus(status), finished_at, error, usage, reason), body)

    def chat(self, tenant: str, chat_id: str) -> StoredChat | None:
        """A chat without its audit."""
        row = self._connection.execute(_CHAT, (tenant, chat_id)).fetchone()
        return None if row is None else _chat(row)

    def chats(self, tenant: str, limit: int, before: Place | None) -> list[StoredChat]:
        """The chats of a tenant after a place. Reads through all heads: an index would cost every request a page."""
        rows = self._connection.execute(_CHATS, (tenant, *(before or (math.inf, "")), limit))
        return [_chat(row) for row in rows]

    def delete_chat(self, tenant: str, chat_id: str) -> bool:
        """Deletes a head with its body; False when there was none."""
        return self._connection.execute("DELETE FROM heads WHERE tenant = ? AND chat_id = ?", (tenant, chat_id)).rowcount > 0

    def learn(self, lesson: Lesson, now: float) -> None:
        """Keeps a lesson on top of the one that is there."""
        subject = (lesson.provider, lesson.model, lesson.account)
        row = self._connection.execute(_LESSON, subject).fetchone()
        kept = lesson.after(_lesson(row) if row else None, now)
        values = (*subject, kept.learned.context_limit, kept.learned.sixteenths, kept.expires_at)
        self._connection.execute(_LEARN, values)

    def lessons(self, now: float) -> list[Lesson]:
        """The lessons that haven't expired."""
        return [_lesson(row) for row in self._connection.execute(_LESSONS, (now,))]

    def purge(self, before: float, limit: int) -> int:
        """Deletes at most `limit` audits created before this time, and gives their number; and lessons that have expired."""
        self._connection.execute("DELETE FROM lessons WHERE expires_at <= ?", (time.time(),))
        old = "SELECT id FROM heads WHERE created_at < ? LIMIT ?"
        return self._connection.execute(f"DELETE FROM heads WHERE id IN ({old})", (before, limit)).rowcount  # noqa: S608  # constant

    @property
    def _connection(self) -> sqlite3.Connection:
        if self._opened is None:
            self._opened = self._connect()
        return self._opened

    def _connect(self) -> sqlite3.Connection:
        _check_library()
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.close(os.open(self._path, os.O_CREAT | os.O_RDWR, 0o600))
        self._owner.hold()
        connection = sqlite3.connect(self._path, timeout=BUSY_TIMEOUT_S, isolation_level=None, cached_statements=256)
        try:
            connection.execute(f"PRAGMA page_size = {PAGE_BYTES}")
            _use_wal(connection)
            connection.execute("PRAGMA synchronous = NORMAL")
            connection.execute(f"PRAGMA wal_autocheckpoint = {LOG_PAGES}")
            connection.execute("PRAGMA secure_delete = FAST")  # some builds default to ON, which writes a replaced body twice
            _migrate(connection)
        except BaseException:
            connection.close()
            raise
        return connection


def _chat(row: Sequence[Any]) -> StoredChat:
    chat_id, began_at, created_at, model, status, generation_id = row
    return StoredChat(chat_id, began_at, created_at, model, AuditStatus(status), generation_id)


def _lesson(row: Sequence[Any]) -> Lesson:
    provider, model, account, context_limit, sixteenths, expires_at = row
    return Lesson(provider, model, account, Learned(context_limit, sixteenths), expires_at)


@lru_cache(maxsize=4 * MOST_ROWS)
def _with_rows(statement: str, rows: int, values: int) -> str:
    marks = "(" + ", ".join("?" * values) + ")"
    return statement.format(rows=", ".join([marks] * rows))


def _portions(rows: Sequence[Row]) -> Iterator[list[Row]]:
    """What goes into one statement each; the last value of a row is the large one, if any is."""
    portion: list[Row] = []
    size = 0
    for row in rows:
        weight = len(row[-1]) if isinstance(row[-1], bytes) else 0
        if portion and (len(portion) == MOST_ROWS or size + weight > MOST_BYTES):
            yield portion
            portion, size = [], 0
        portion.append(row)
        size += weight
    if portion:
        yield portion


def _check_library() -> None:
    if sqlite3.sqlite_version_info < OLDEST_SQLITE:
        oldest = ".".join(map(str, OLDEST_SQLITE[:2]))
        raise StoreUnavailable(
            f"The audit store needs SQLite {oldest} or newer, this Python comes with {sqlite3.sqlite_version}: "
            "use another Python, or the store memory:"
        )


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switches a new file to a write-ahead log. SQLite doesn't wait when two do that at once, so this does."""
    deadline = time.monotonic() + BUSY_TIMEOUT_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode & 0xFF != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
        time.sleep(0.01)


def _migrate(connection: sqlite3.Connection) -> None:
    """Brings the schema to the newest version, once, whoever comes first."""
    if _version(connection) == len(MIGRATIONS):
        return
    connection.execute("BEGIN IMMEDIATE")
    for statements in MIGRATIONS[_version(connection) :]:
        for statement in statements:
            connection.execute(statement)
    connection.execute(f"PRAGMA user_version = {len(MIGRATIONS)}")
    connection.execute("COMMIT")


def _version(connection: sqlite3.Connection) -> int:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    known = len(MIGRATIONS)
    if version > known:
        raise StoreUnavailable(
            f"The audit store was written by a newer gateway (schema {version}, known is {known}): update, or use another file."
        )
    return int(version)
