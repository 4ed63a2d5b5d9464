"""The database file: how it comes to be, which versions it accepts, who may read it."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway.errors import StoreUnavailable
from gateway.stores import sqlite_file
from gateway.stores.base import AuditHead, AuditKey
from gateway.stores.sqlite_file import MIGRATIONS, SqliteFile


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
    file.put_head(head(generation), revision)
    file.commit()


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


def test_a_body_is_dropped_when_its_head_was_replaced(file: SqliteFile) -> None:
    put(file, "g1", 1)
    file.put_body(head("g1").key, 1, b"one")
    put(file, "g1", 2)
    file.put_body(head("g1").key, 1, b"late")
    found = file.latest("", "chat")
    assert found is not None
    assert found.body is None


def test_what_was_not_committed_is_gone_after_a_drop(file: SqliteFile) -> None:
    file.begin(writes=True)
    file.put_head(head("g1"), 1)
    file.drop()
    file.drop()
    assert file.latest("", "chat") is None


def test_a_deleted_head_takes_its_body_along(path: Path, file: SqliteFile) -> None:
    put(file, "g1", 1)
    file.put_body(head("g1").key, 1, b"one")
    assert file.delete_chat("", "chat") is True
    connection = sqlite3.connect(path)
    assert connection.execute("SELECT count(*) FROM bodies").fetchone() == (0,)
    connection.close()


def test_a_purge_stops_at_its_limit(file: SqliteFile) -> None:
    for chat in ("a", "b", "c"):
        file.put_head(AuditHead(AuditKey("", chat, "g"), "gpt-4o", 1.0, b"{}"), 1)
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
