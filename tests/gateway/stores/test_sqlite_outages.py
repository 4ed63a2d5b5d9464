"""A file that can't be written for a while: a check finds out, and what nobody waits for is written when it is over."""

from __future__ import annotations

import asyncio
import resource
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from gateway.errors import StoreUnavailable
from gateway.stores import sqlite as module
from gateway.stores import sqlite_file
from gateway.stores.base import StoredAudit
from gateway.stores.sqlite import SqliteStore
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


async def ended(store: SqliteStore, chat: str) -> None:
    """Waits until the chat's audit is completed; not longer than five seconds."""
    async with asyncio.timeout(5):
        while (audit := await store.latest("", chat)) is None or audit.outcome != COMPLETED:  # noqa: ASYNC110  # another thread ends it
            await asyncio.sleep(0.01)


def test_a_check_finds_a_full_disk_and_its_end(path: Path) -> None:
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)

    async def story() -> None:
        async with opened(path) as store:
            resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
            try:
                for _ in range(2):
                    with pytest.raises(StoreUnavailable, match="disk"):
                        await store.check()
            finally:
                resource.setrlimit(resource.RLIMIT_FSIZE, limits)
            await store.check()

    asyncio.run(story())


def test_checks_in_a_row_write_once(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = path.with_name(f"{path.name}-wal")

    async def story() -> None:
        async with opened(path) as store:
            sizes = []
            for _ in range(4):
                await store.check()
                sizes.append(log.stat().st_size)
            assert sizes == [sizes[0]] * 4
            monkeypatch.setattr(sqlite_file, "PROOF_S", 0.0)
            await store.check()
            assert log.stat().st_size > sizes[0]

    asyncio.run(story())


def test_an_outage_costs_no_end_however_long_it_lasts(path: Path, hasty: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ATTEMPTS", 2)

    async def story() -> None:
        async with opened(path) as store:
            await store.replace(head("c"), b"[]")
            with locked(path):
                await store.finish(head("c").key, COMPLETED)
                await asyncio.sleep(0.5)  # some six attempts
            await ended(store, "c")

    asyncio.run(story())


def test_what_an_outage_leaves_to_do_is_bounded(
    path: Path, hasty: None, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "MOST_RETRIES", 1)

    async def story() -> None:
        async with opened(path) as store:
            for chat in ("a", "b"):
                await store.replace(head(chat), b"[]")
            await store.check()  # the bodies have been written as well
            with locked(path):
                for chat in ("a", "b"):
                    await store.finish(head(chat).key, COMPLETED)
                with pytest.raises(StoreUnavailable):
                    await store.check()
            await ended(store, "a")
            assert await store.latest("", "b") == StoredAudit(head("b"), None, b"[]")

    asyncio.run(story())
    assert "given up" in caplog.text
