"""The database file: how it comes to be, which versions it accepts, who may read it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from gateway.errors import StoreUnavailable
from gateway.stores import sqlite_file
from gateway.stores.base import AuditHead, AuditKey, AuditOutcome, AuditStatus
from gateway.stores.sqlite_file import MIGRATIONS, MOST_BYTES, MOST_ROWS, SqliteFile


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "var" / "audits.db"


@pytest.fixture
def file(path: Path) -> Iterator[SqliteFile]:
    file = SqliteFile(path)
    yield file
    file.close()


def head(generation: str) -> AuditHead:
    return AuditHead(AuditKey("", "chat", generation), "gpt-4o", 1.0, b"{}")


def put(file: SqliteFile, generation: str, revision: int) -> None:
    file.begin(writes=True)
    file.put_heads([file.head_row(head(generation), revision)])
    file.commit()


@contextmanager
def watched(file: SqliteFile) -> Iterator[list[str]]:
    """The statements that are executed meanwhile, without what their triggers do."""
    statements: list[str] = []
    file._connection.set_trace_callback(lambda text: None if text.startswith("--") else statements.append(text))
    yield statements
    file._connection.set_trace_callback(None)


def plan_of(file: SqliteFile, statement: str) -> list[str]:
    return [step for *_, step in file._connection.execute(f"EXPLAIN QUERY PLAN {statement}")]


def pragma(path: Path, name: str) -> object:
    connection = sqlite3.connect(path)
    try:
        return connection.execute(f"PRAGMA {name}").fetchone()[0]
    finally:
        connection.close()


def test_folder_and_file_are_for_the_owner_only(path: Path, file: SqliteFile) -> None:
    put(file, "g1", 1)
    assert path.parent.stat().st_mode & 0o777 == 0o700
    for name in ("audits.db", "audits.db-wal", "audits.db.owners"):
        assert path.with_name(name).stat().st_mode & 0o077 == 0


def test_an_empty_file_is_brought_to_the_newest_version(path: Path, file: SqliteFile) -> None:
    path.parent.mkdir()
    path.touch()
    put(file, "g1", 1)
    assert pragma(path, "user_version") == len(MIGRATIONS)
    assert pragma(path, "journal_mode") == "wal"


def test_an_older_file_keeps_what_it_holds(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    older = SqliteFile(path)
    put(older, "g1", 1)
    older.close()
    monkeypatch.setattr(sqlite_file, "MIGRATIONS", (*MIGRATIONS, ("ALTER TABLE heads ADD COLUMN note TEXT",)))
    newer = SqliteFile(path)
    assert newer.latest("", "chat") is not None
    newer.close()
    assert pragma(path, "user_version") == len(MIGRATIONS) + 1


def test_a_file_of_a_newer_version_is_refused_in_clear_words(path: Path, file: SqliteFile) -> None:
    path.parent.mkdir()
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreUnavailable, match="newer gateway"):
        file.begin(writes=True)


def test_a_library_that_is_too_old_is_refused_in_clear_words(
    path: Path, file: SqliteFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sqlite3, "sqlite_version_info", (3, 34, 1))
    monkeypatch.setattr(sqlite3, "sqlite_version", "3.34.1")
    with pytest.raises(StoreUnavailable, match=r"needs SQLite 3\.37 or newer, this Python comes with 3\.34\.1"):
        file.begin(writes=True)
    assert not path.exists()


def test_more_rows_than_a_statement_takes_are_several(file: SqliteFile) -> None:
    many = 2 * MOST_ROWS + 1
    keys = [AuditKey("", f"c{n}", "g") for n in range(many)]
    with watched(file) as statements:
        file.put_heads([file.head_row(AuditHead(key, "gpt-4o", 1.0, b"{}"), 1) for key in keys])
        file.put_bodies([file.body_row(key, 1, key.chat_id.encode()) for key in keys])
        file.end([file.end_row(key, AuditOutcome(AuditStatus.FAILED, 2.0, key.chat_id)) for key in keys])
    assert len(statements) == 9
    found = [file.latest("", key.chat_id) for key in keys]
    assert [audit and audit.body for audit in found] == [key.chat_id.encode() for key in keys]
    assert [audit and audit.outcome and audit.outcome.error_code for audit in found] == [key.chat_id for key in keys]


def test_no_rows_are_no_statement(file: SqliteFile) -> None:
    with watched(file) as statements:
        file.end([])
    assert statements == []


def test_large_documents_share_no_statement_for_it_would_hold_them(file: SqliteFile) -> None:
    keys = [AuditKey("", f"c{n}", "g") for n in range(6)]
    file.put_heads([file.head_row(AuditHead(key, "gpt-4o", 1.0, b"{}"), 1) for key in keys])
    sizes = [10, MOST_BYTES - 10, 1, MOST_BYTES, MOST_BYTES + 1, 5]
    with watched(file) as statements:
        file.put_bodies([file.body_row(key, 1, bytes(size)) for key, size in zip(keys, sizes, strict=True)])
    assert len(statements) == 5
    found = [file.latest("", key.chat_id) for key in keys]
    assert [audit and len(audit.body or b"") for audit in found] == sizes


def test_of_one_chat_s_heads_in_a_statement_the_last_counts(file: SqliteFile) -> None:
    put(file, "g0", 1)
    file.put_bodies([file.body_row(head("g0").key, 1, b"zero")])
    file.put_heads([file.head_row(head(f"g{n}"), n) for n in (1, 2, 3)])
    file.put_bodies([file.body_row(head(f"g{n}").key, n, b"body %d" % n) for n in (3, 2, 1)])
    found = file.latest("", "chat")
    assert found is not None
    assert (found.head, found.body) == (head("g3"), b"body 3")


def test_of_one_generation_s_ends_in_a_statement_the_first_counts(file: SqliteFile) -> None:
    put(file, "g1", 1)
    ends = [(head("g0"), 1.0), *((head("g1"), float(n)) for n in range(2, MOST_ROWS * 2))]
    file.end([file.end_row(new.key, AuditOutcome(AuditStatus.COMPLETED, at)) for new, at in ends])
    found = file.latest("", "chat")
    assert found is not None
    assert found.outcome == AuditOutcome(AuditStatus.COMPLETED, 2.0)


def test_bodies_and_ends_find_their_heads_by_the_index_and_bodies_are_not_copied_aside(file: SqliteFile) -> None:
    put(file, "g1", 1)
    with watched(file) as statements:
        file.put_bodies([file.body_row(head("g1").key, 1, b"one")] * 3)
        file.end([file.end_row(head(f"g{n}").key, AuditOutcome(AuditStatus.COMPLETED, 2.0)) for n in range(3)])
    plans = [plan_of(file, statement) for statement in statements]
    assert all("SEARCH heads USING INDEX sqlite_autoindex_heads_1 (tenant=? AND chat_id=?)" in plan for plan in plans)
    assert not any(step.startswith(("SCAN heads", "MATERIALIZE")) for step in plans[0])


def test_a_body_is_dropped_when_its_head_was_replaced(file: SqliteFile) -> None:
    put(file, "g1", 1)
    file.put_bodies([file.body_row(head("g1").key, 1, b"one")])
    put(file, "g1", 2)
    file.put_bodies([file.body_row(head("g1").key, 1, b"late")])
    found = file.latest("", "chat")
    assert found is not None
    assert found.body is None


def test_what_was_not_committed_is_gone_after_a_drop(file: SqliteFile) -> None:
    file.begin(writes=True)
    file.put_heads([file.head_row(head("g1"), 1)])
    file.drop()
    file.drop()
    assert file.latest("", "chat") is None


def test_a_deleted_head_takes_its_body_along(path: Path, file: SqliteFile) -> None:
    put(file, "g1", 1)
    file.put_bodies([file.body_row(head("g1").key, 1, b"one")])
    assert file.delete_chat("", "chat") is True
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM bodies").fetchone() == (0,)
    connection.close()


def test_a_purge_stops_at_its_limit(file: SqliteFile) -> None:
    heads = [AuditHead(AuditKey("", chat, "g"), "gpt-4o", 1.0, b"{}") for chat in ("a", "b", "c")]
    file.put_heads([file.head_row(new, 1) for new in heads])
    assert [file.purge(2.0, 2), file.purge(2.0, 2), file.purge(2.0, 2)] == [2, 1, 0]


def test_the_switch_to_a_log_waits_for_others_who_switch(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Contested(sqlite3.Connection):
        refusals = 2

        def execute(self, sql: str, *parameters: object) -> sqlite3.Cursor:  # type: ignore[override]
            if "journal_mode" in sql and Contested.refusals:
                Contested.refusals -= 1
                error = sqlite3.OperationalError("database is locked")
                error.sqlite_errorcode = sqlite3.SQLITE_BUSY
                raise error
            return super().execute(sql, *parameters)  # type: ignore[arg-type]

    real = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *where, **how: real(*where, **how, factory=Contested))
    file = SqliteFile(path)
    put(file, "g1", 1)
    file.close()
    assert Contested.refusals == 0
    assert pragma(path, "journal_mode") == "wal"
