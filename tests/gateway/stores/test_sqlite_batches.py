"""What waits together: how few statements it takes, that nobody pays for another's fault, and that nobody waits for ever."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from gateway.errors import StoreUnavailable
from gateway.stores import sqlite as module
from gateway.stores.base import AuditOutcome, AuditStatus, StoredAudit
from gateway.stores.sqlite import SqliteStore
from gateway.stores.sqlite_file import MOST_ROWS, Row, SqliteFile
from tests.gateway.stores.audits import COMPLETED, head, opened
from tests.gateway.stores.batches import in_one_batch, until

UNSPEAKABLE = "\ud800"  # half a surrogate pair: no SQLite text, so its row, and with it the whole statement, is refused

Call = Callable[[SqliteStore], Coroutine[None, None, object]]


@pytest.fixture
def endless(monkeypatch: pytest.MonkeyPatch) -> None:
    """An end waits for company as long as it takes."""
    monkeypatch.setattr(module, "LINGER_S", 3600.0)


@contextmanager
def counted(*names: str) -> Iterator[dict[str, list[int]]]:
    """How many rows each call of these methods got (0 for one without rows)."""
    calls: dict[str, list[int]] = {name: [] for name in names}

    def watched(name: str, real: Callable[..., object]) -> Callable[..., object]:
        def method(file: SqliteFile, rows: Sequence[Row] = ()) -> object:
            calls[name].append(len(rows))
            return real(file, rows) if rows else real(file)

        return method

    with pytest.MonkeyPatch.context() as patch:
        for name in names:
            patch.setattr(SqliteFile, name, watched(name, getattr(SqliteFile, name)))
        yield calls


def completed_on_disk(path: Path) -> int:
    """How many audits have ended, as another process sees it."""
    with closing(sqlite3.connect(path)) as other:
        found = other.execute("SELECT count(*) FROM heads WHERE status = 'completed'")
        return int(found.fetchone()[0])


def test_what_waits_together_is_one_commit_and_one_statement_a_kind(path: Path) -> None:
    async def turn(store: SqliteStore, chat: int, generation: int) -> None:
        await store.finish(head(f"c{chat}", f"g{generation - 1}").key, COMPLETED)
        await store.replace(head(f"c{chat}", f"g{generation}"), b"[]")

    async def story() -> None:
        async with opened(path) as store:
            await in_one_batch(store, [turn(store, n, 1) for n in range(32)])
            await store.check()
            with counted("put_heads", "end", "put_bodies", "commit") as calls:
                await in_one_batch(store, [turn(store, n, 2) for n in range(32)])
                await store.check()
        assert calls == {"put_heads": [32], "end": [32], "put_bodies": [32], "commit": [0] * 4}  # two are of the checks

    asyncio.run(story())


def test_of_a_chat_that_stands_in_a_batch_several_times_one_body_is_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    written: list[int] = []
    write = SqliteFile._write

    def watched(file: SqliteFile, statement: str, rows: Sequence[Row]) -> None:
        written.append(len(rows))
        write(file, statement, rows)

    monkeypatch.setattr(SqliteFile, "_write", watched)

    async def story() -> None:
        async with opened(path) as store:
            await in_one_batch(store, [store.replace(head("c", f"g{n}"), b"%d" % n) for n in range(9)])
            assert await store.latest("", "c") == StoredAudit(head("c", "g8"), None, b"8")

    asyncio.run(story())
    assert written == [9, 1]


def test_a_head_after_an_end_of_its_own_generation_starts_anew(path: Path) -> None:
    async def story() -> None:
        async with opened(path) as store:
            again = [store.replace(head("c"), b"1"), store.finish(head("c").key, COMPLETED), store.replace(head("c"), b"2")]
            with counted("put_heads", "end") as calls:
                await in_one_batch(store, again)
            assert await store.latest("", "c") == StoredAudit(head("c"), None, b"2")
        assert calls == {"put_heads": [1, 1], "end": [1]}

    asyncio.run(story())


def test_more_calls_than_rows_in_a_statement(path: Path) -> None:
    many = 3 * MOST_ROWS + 1

    async def story() -> None:
        async with opened(path) as store:
            await in_one_batch(store, [store.replace(head(f"c{n}"), b"%d" % n) for n in range(many)])
            await in_one_batch(store, [store.finish(head(f"c{n}").key, COMPLETED) for n in range(many)])
            found = [await store.latest("", f"c{n}") for n in range(many)]
        assert found == [StoredAudit(head(f"c{n}"), COMPLETED, b"%d" % n) for n in range(many)]

    asyncio.run(story())


@pytest.mark.parametrize("place", range(9))
def test_one_that_cannot_be_stored_does_not_fail_the_others(path: Path, place: int) -> None:
    async def story() -> None:
        async with opened(path) as store:
            await store.replace(head("old"), b"old")
            calls = [
                store.replace(head("a"), b"a"),
                store.replace(head("b"), b"b"),
                store.latest("", "b"),
                store.finish(head("a").key, COMPLETED),
                store.replace(head("b", "g2"), b"b2"),
                store.delete_chat("", "old"),
                store.latest("", "a"),
                store.check(),
            ]
            calls.insert(place, store.replace(head("bad", model=UNSPEAKABLE), b"[]"))
            answers = await in_one_batch(store, calls)
            assert isinstance(answers.pop(place), StoreUnavailable)
            a, b = StoredAudit(head("a"), COMPLETED, b"a"), StoredAudit(head("b"), None, b"b")
            assert answers == [None, None, b, None, None, True, a, None]
            assert await store.latest("", "bad") is None
            assert await store.latest("", "b") == StoredAudit(head("b", "g2"), None, b"b2")

    asyncio.run(story())


def test_when_none_can_be_stored_all_are_told(path: Path) -> None:
    async def story() -> None:
        async with opened(path) as store:
            bad = [store.replace(head(f"c{n}", model=UNSPEAKABLE), b"[]") for n in range(2 * MOST_ROWS)]
            answers = await in_one_batch(store, bad)
            assert {type(answer) for answer in answers} == {StoreUnavailable}
            await store.check()

    asyncio.run(story())


def test_an_end_that_cannot_be_stored_is_given_up_and_takes_no_other_along(
    path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    monkeypatch.setattr(module, "ATTEMPTS", 3)

    async def story() -> None:
        async with opened(path) as store:
            for chat in ("a", "bad", "b"):
                await store.replace(head(chat), b"[]")
            for chat in ("a", "bad", "b"):
                reason = UNSPEAKABLE if chat == "bad" else None
                await store.finish(head(chat).key, AuditOutcome(AuditStatus.COMPLETED, 2.0, finish_reason=reason))
            found = [await store.latest("", chat) for chat in ("a", "bad", "b")]
            assert [audit and audit.outcome for audit in found] == [COMPLETED, None, COMPLETED]
            await until(lambda: "given up (attempt 3)" in caplog.text)

    asyncio.run(story())


@pytest.mark.parametrize("method", ["put_bodies", "end"])
def test_what_failed_together_is_tried_again_alone(path: Path, monkeypatch: pytest.MonkeyPatch, method: str) -> None:
    monkeypatch.setattr(module, "RETRY_S", 0.01)
    real, rows_seen = getattr(SqliteFile, method), list[int]()

    def failing_together(file: SqliteFile, rows: Sequence[Row]) -> None:
        rows_seen.append(len(rows))
        if len(rows) > 1:
            raise sqlite3.OperationalError("disk I/O error")
        real(file, rows)

    monkeypatch.setattr(SqliteFile, method, failing_together)

    async def story() -> None:
        async with opened(path) as store:
            await in_one_batch(store, [store.replace(head(f"c{n}"), b"[]") for n in range(8)])
            await in_one_batch(store, [store.finish(head(f"c{n}").key, COMPLETED) for n in range(8)])
            await until(lambda: completed_on_disk(path) == 8)
        assert rows_seen == [8, *[1] * 8]

    asyncio.run(story())


CALLS: dict[str, tuple[Call, object]] = {
    "latest": (lambda store: store.latest("", "c"), StoredAudit(head("c"), COMPLETED, b"[]")),
    "delete": (lambda store: store.delete_chat("", "other"), False),
    "purge": (lambda store: store.purge(0.5), 0),
    "check": (lambda store: store.check(), None),
    "aclose": (lambda store: store.aclose(), None),
}


@pytest.mark.parametrize("name", CALLS)
def test_every_call_but_a_replacement_is_behind_the_ends_before_it(path: Path, endless: None, name: str) -> None:
    call, answer = CALLS[name]

    async def story() -> None:
        async with opened(path) as store:
            await store.replace(head("c"), b"[]")
            await store.finish(head("c").key, COMPLETED)
            assert await call(store) == answer
            assert completed_on_disk(path) == 1

    asyncio.run(story())


def test_an_end_is_written_soon_though_nobody_calls(path: Path) -> None:
    async def story() -> None:
        async with opened(path) as store:
            for already, chat in enumerate(("a", "b")):
                await store.replace(head(chat), b"[]")
                await store.finish(head(chat).key, COMPLETED)
                await until(lambda seen=already + 1: completed_on_disk(path) == seen)  # type: ignore[misc]  # a bound default

    asyncio.run(story())


def test_a_purge_that_outlives_its_store_does_not_wait_for_ever(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PURGE_STEP", 1)

    async def story() -> None:
        async with opened(path) as store:
            for chat in ("a", "b"):
                await store.replace(head(chat), b"[]")
            purging = asyncio.create_task(store.purge(2.0))
            await asyncio.sleep(0)
        async with asyncio.timeout(5):
            with pytest.raises(StoreUnavailable, match="not open"):
                await purging

    asyncio.run(story())
