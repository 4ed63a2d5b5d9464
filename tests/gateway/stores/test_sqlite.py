"""The writer thread: batches, bounds, failures and what comes after them. The contract is in tests/families."""

from __future__ import annotations

import asyncio
import logging
import resource
import sqlite3
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from gateway.errors import StoreUnavailable
from gateway.stores import sqlite as module
from gateway.stores import sqlite_file
from gateway.stores.base import AuditHead, AuditKey, StoredAudit
from gateway.stores.sqlite import SqliteStore
from gateway.stores.sqlite_file import Row, SqliteFile
from tests.gateway.stores.audits import COMPLETED, head, opened


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Waits that a test can sit out."""
    monkeypatch.setattr(sqlite_file, "BUSY_TIMEOUT_S", 0.05)
    monkeypatch.setattr(module, "RETRY_S", 0.02)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Another writer that does not let go."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


async def until(claim: Callable[[StoredAudit | None], bool], look: Callable[[], Awaitable[StoredAudit | None]]) -> None:
    deadline = time.monotonic() + 5
    while not claim(await look()):
        assert time.monotonic() < deadline
        await asyncio.sleep(0.01)


def failing(times: int, error: Exception, real: Callable[..., None]) -> Callable[..., None]:
    """A method that fails a number of times before it works."""
    left = iter(range(times))

    def method(*arguments: object) -> None:
        if next(left, None) is not None:
            raise error
        real(*arguments)

    return method


def writers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "audit-store"]


def test_closing_writes_what_was_handed_over_and_ends_the_thread(path: Path) -> None:
    async def story() -> None:
        async with opened(path) as store:
            await asyncio.gather(*(store.replace(head(f"c{n}"), b"[]") for n in range(200)))
            for n in range(200):
                await store.finish(head(f"c{n}").key, COMPLETED)
        assert writers() == []
        async with opened(path) as store:
            assert [await store.latest("", f"c{n}") for n in range(200)] == [
                StoredAudit(head(f"c{n}"), COMPLETED, b"[]") for n in range(200)
            ]

    asyncio.run(story())


def test_closing_gives_up_on_a_thread_that_hangs(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    release = threading.Event()
    monkeypatch.setattr(module, "CLOSE_S", 0.05)
    monkeypatch.setattr(SqliteFile, "end", lambda *_: release.wait(10))

    async def story() -> None:
        async with opened(path) as store:
            await store.finish(head("c").key, COMPLETED)
        assert "could not be closed within 0.05 seconds" in caplog.text
        release.set()
        for thread in writers():
            await asyncio.to_thread(thread.join, 5)

    asyncio.run(story())


def test_a_locked_file_is_unavailable_and_works_again_afterwards(path: Path, hasty: None) -> None:
    async def story() -> None:
        async with opened(path) as store:
            await store.replace(head("old"), b"[]")
            await store.check()
            with locked(path):
                with pytest.raises(StoreUnavailable, match="locked by another process") as caught:
                    await store.replace(head("new"), b"[]")
                with pytest.raises(StoreUnavailable):
                    await store.check()
                await store.finish(head("old").key, COMPLETED)
                assert await store.latest("", "new") is None
            assert isinstance(caught.value.__cause__, sqlite3.OperationalError)
            await store.replace(head("new"), b"[]")
            assert await store.latest("", "new") is not None
            await until(lambda audit: audit is not None and audit.outcome == COMPLETED, lambda: store.latest("", "old"))

    asyncio.run(story())


def test_a_head_waits_for_a_locked_file_once(path: Path, hasty: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINGER_S", 3600.0)  # its body is handed over at the end
    put_heads, begin, tries = SqliteFile.put_heads, SqliteFile.begin, list[str]()

    def watched_head(file: SqliteFile, rows: Sequence[Row]) -> None:
        tries.append("head")
        put_heads(file, rows)

    def watched_begin(file: SqliteFile, *, writes: bool) -> None:
        tries.append("begin")
        begin(file, writes=writes)

    async def story() -> None:
        async with opened(path) as store:
            monkeypatch.setattr(SqliteFile, "put_heads", watched_head)
            monkeypatch.setattr(SqliteFile, "begin", watched_begin)
            with locked(path), pytest.raises(StoreUnavailable, match="locked by another process"):
                await store.replace(head("c"), b"[]")
            assert tries == ["head"]

    asyncio.run(story())


def test_a_file_that_is_locked_while_it_is_opened_is_unavailable(path: Path, hasty: None) -> None:
    async def story() -> None:
        with locked(path), pytest.raises(StoreUnavailable, match="locked by another process"):
            await SqliteStore(path).open()
        async with opened(path) as store:
            await store.check()

    asyncio.run(story())


def test_a_reader_does_not_mind_a_locked_file(path: Path, hasty: None) -> None:
    async def story() -> None:
        async with opened(path) as store:
            await store.replace(head("c"), b"[]")
            await store.check()  # the body has been written as well
            with locked(path):
                assert await store.latest("", "c") == StoredAudit(head("c"), None, b"[]")

    asyncio.run(story())


def test_a_full_disk_is_unavailable_and_works_again_afterwards(path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    async def story() -> None:
        async with opened(path) as store:
            big = AuditHead(AuditKey("", "c", "g1"), "gpt-4o", 1.0, bytes(8_000_000))
            resource.setrlimit(resource.RLIMIT_FSIZE, (2_000_000, limits[1]))
            try:
                with pytest.raises(StoreUnavailable) as caught:
                    await store.replace(big, b"[]")
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            assert str(path) not in str(caught.value)
            await store.replace(big, b"[]")
            assert await store.latest("", "c") == StoredAudit(big, None, b"[]")

    asyncio.run(story())


def test_a_folder_that_cannot_be_made_is_unavailable_until_it_can(tmp_path: Path) -> None:
    async def story() -> None:
        (tmp_path / "var").touch()
        store = SqliteStore(tmp_path / "var" / "audits.db")
        with pytest.raises(StoreUnavailable, match="can't be opened") as caught:
            await store.open()
        assert "var" not in str(caught.value)
        assert writers() == []
        (tmp_path / "var").unlink()
        await store.open()
        await store.check()
        await store.aclose()

    asyncio.run(story())


def test_another_kind_of_file_is_refused_and_left_as_it_is(path: Path) -> None:
    content = b"no database, but long enough" * 50
    path.write_bytes(content)
    with pytest.raises(StoreUnavailable, match="not a SQLite database"):
        asyncio.run(SqliteStore(path).open())
    assert path.read_bytes() == content


def test_a_file_of_a_newer_version_is_refused_with_its_own_words(path: Path) -> None:
    async def story() -> None:
        with closing(sqlite3.connect(path)) as connection:
            connection.execute("PRAGMA user_version = 99")
        with pytest.raises(StoreUnavailable, match="newer gateway"):
            await SqliteStore(path).open()

    asyncio.run(story())


def test_a_body_that_could_not_be_written_is_tried_again(path: Path, hasty: None, monkeypatch: pytest.MonkeyPatch) -> None:
    error = sqlite3.OperationalError("disk I/O error")
    monkeypatch.setattr(SqliteFile, "put_bodies", failing(3, error, SqliteFile.put_bodies))

    async def story() -> None:
        async with opened(path) as store:
            await store.replace(head("c"), b"[]")
            await until(lambda audit: audit is not None and audit.body == b"[]", lambda: store.latest("", "c"))

    asyncio.run(story())


def test_what_never_succeeds_is_given_up(
    path: Path, hasty: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    monkeypatch.setattr(module, "ATTEMPTS", 3)
    monkeypatch.setattr(SqliteFile, "end", failing(1000, sqlite3.OperationalError("no"), SqliteFile.end))

    async def story() -> None:
        async with opened(path) as store:
            await store.replace(head("c"), b"[]")
            await store.finish(head("c").key, COMPLETED)
            deadline = time.monotonic() + 5
            while "given up (attempt 3)" not in caplog.text:
                assert time.monotonic() < deadline
                await asyncio.sleep(0.01)
            await store.replace(head("other"), b"[]")

    asyncio.run(story())


def test_closing_tries_a_failed_end_once_more(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(SqliteFile, "end", failing(1, sqlite3.OperationalError("no"), SqliteFile.end))

    async def story() -> None:
        async with opened(path) as store:
            await store.replace(head("c"), b"[]")
            await store.finish(head("c").key, COMPLETED)
        async with opened(path) as store:
            assert await store.latest("", "c") == StoredAudit(head("c"), COMPLETED, b"[]")

    asyncio.run(story())


def test_beyond_the_bound_replacements_wait_until_the_bodies_before_are_written(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BODY_BYTES", 1000)
    release, real = threading.Event(), SqliteFile.put_bodies

    def held_up(file: SqliteFile, rows: Sequence[Row]) -> None:
        release.wait(5)
        real(file, rows)

    monkeypatch.setattr(SqliteFile, "put_bodies", held_up)

    async def story() -> None:
        async with opened(path) as store:
            writes = [asyncio.create_task(store.replace(head(f"c{n}"), bytes(600))) for n in range(20)]
            await asyncio.sleep(0.1)
            assert 1 <= sum(write.done() for write in writes) <= 2
            release.set()
            await asyncio.gather(*writes)
            assert await store.purge(2.0) == 20

    asyncio.run(story())


def test_failed_bodies_beyond_the_bound_are_given_up(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "BODY_BYTES", 1000)
    monkeypatch.setattr(SqliteFile, "put_bodies", failing(1, sqlite3.OperationalError("no"), SqliteFile.put_bodies))

    async def story() -> None:
        async with opened(path) as store:
            await store.replace(head("c"), bytes(1001))
            found = await store.latest("", "c")
            assert found == StoredAudit(head("c"), None, None)

    asyncio.run(story())
    assert "given up (attempt 1)" in caplog.text


def test_ends_wait_when_the_thread_is_far_behind(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "WAITING_JOBS", 3)

    async def story() -> None:
        async with opened(path) as store:
            busy, release = threading.Event(), threading.Event()
            monkeypatch.setattr(SqliteFile, "end", lambda *_: busy.set() or release.wait(5))
            await store.finish(head("c").key, COMPLETED)
            assert await asyncio.to_thread(busy.wait, 5)
            for _ in range(8):
                await store.finish(head("c").key, COMPLETED)
            await asyncio.sleep(0.02)  # now they are handed over
            late = asyncio.create_task(store.finish(head("c").key, COMPLETED))
            await asyncio.sleep(0.02)
            assert not late.done()
            release.set()
            await late

    asyncio.run(story())


def test_a_close_that_fails_is_said_in_the_log_only(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    real = SqliteFile.close

    def broken(file: SqliteFile) -> None:
        real(file)
        raise sqlite3.OperationalError("disk I/O error")

    monkeypatch.setattr(SqliteFile, "close", broken)

    async def story() -> None:
        async with opened(path):
            pass

    asyncio.run(story())
    assert "not closed cleanly" in caplog.text
    assert writers() == []


def test_the_thread_survives_a_loop_that_is_gone(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    release = threading.Event()
    monkeypatch.setattr(SqliteFile, "delete_chat", lambda *_: release.wait(5))

    async def story() -> None:
        store = SqliteStore(path)
        await store.open()
        deletion = asyncio.create_task(store.delete_chat("", "c"))
        await asyncio.sleep(0.01)
        closing_down = asyncio.create_task(store.aclose())
        await asyncio.sleep(0.01)
        del deletion, closing_down

    asyncio.run(story())
    release.set()
    for thread in writers():
        thread.join(5)
    assert writers() == []
