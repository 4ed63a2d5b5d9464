"""What is PostgreSQL's own about its store: URLs, words without secrets, several at once, a server that goes and comes."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from gateway.errors import StoreUnavailable
from gateway.stores.base import AuditHead, AuditKey, AuditOutcome, AuditStatus, StoredAudit, UnknownStore
from gateway.stores.builtin import open_store
from gateway.stores.postgresql import PostgresqlStore
from tests.support.postgresql_server import PASSWORD, PostgresqlServer, running

DONE = AuditOutcome(AuditStatus.COMPLETED, 2.0)


def head(generation: str, chat: str = "c") -> AuditHead:
    return AuditHead(AuditKey("", chat, generation), "m", 1.0, b"{}")


def told(url: str, *stories: Callable[[PostgresqlStore], Awaitable[None]]) -> None:
    """Each story with a store of its own on the same tables, at the same time."""

    async def one(story: Callable[[PostgresqlStore], Awaitable[None]]) -> None:
        store = PostgresqlStore.from_url(url)
        await store.open()
        try:
            await story(store)
        finally:
            await store.aclose()

    async def all_of_them() -> None:
        async with asyncio.timeout(30):
            await asyncio.gather(*map(one, stories))

    asyncio.run(all_of_them())


@pytest.fixture
def own_server() -> Iterator[PostgresqlServer]:
    """A server that a test may stop."""
    with PostgresqlServer() as server:
        yield server


@pytest.mark.parametrize(
    "url",
    [
        "postgresql:",
        "postgresql:/x",
        "postgres://u:hush@h/d",
        "postgresql://u:hush@h:port/d",
        "postgresql://u:hu/sh@h/d",
        "postgresql://[::1/hush",
        "postgresql://h/d#hush",
        "postgresql://h/d?hush",
    ],
)
def test_a_url_that_can_not_be_read_is_refused_and_not_shown(url: str) -> None:
    with pytest.raises(UnknownStore) as caught:
        open_store(url)
    assert "hush" not in str(caught.value)


@pytest.mark.parametrize(
    ("url", "words"),
    [
        ("postgresql://gateway:hush@127.0.0.1:{port}/postgres", "refuses the user or the password"),
        ("postgresql://gateway:hush@127.0.0.1:1/postgres", "can't be reached"),
        ("postgresql://nobody-here@/postgres?host=/nowhere/hush", "can't be reached"),
    ],
)
def test_what_keeps_it_from_opening_is_told_without_secrets(url: str, words: str) -> None:
    with pytest.raises(StoreUnavailable, match=words) as caught:
        told(url.format(port=running().port), lambda store: store.check())
    assert "hush" not in caught.value.message
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


def test_a_database_that_does_not_exist_is_named_as_the_reason() -> None:
    url = running().url(tcp=True).replace("/postgres?", "/nothing-here?")
    with pytest.raises(StoreUnavailable, match="database does not exist"):
        told(url, lambda store: store.check())


def test_many_that_open_at_once_make_the_tables_once() -> None:
    async def story(store: PostgresqlStore) -> None:
        await store.check()

    url = running().new_url()
    told(url, *[story] * 6)
    assert [row[0] for row in running().sql("SELECT version FROM sluicegate_schema", url=url)] == [1]


def test_tables_of_a_newer_gateway_are_left_alone() -> None:
    url = running().new_url()
    told(url, lambda store: store.check())
    running().sql("UPDATE sluicegate_schema SET version = 99", url=url)
    with pytest.raises(StoreUnavailable, match=r"newer gateway \(schema 99, known is 1\)"):
        told(url, lambda store: store.check())


def test_a_large_body_lies_packed_and_comes_back_as_it_was() -> None:
    body = b"the same words again and again " * 10_000

    async def story(store: PostgresqlStore) -> None:
        await store.replace(head("g"), body)
        found = await store.latest("", "c")
        assert found is not None
        assert found.body == body

    url = running().new_url()
    told(url, story)
    ((size, packed),) = running().sql("SELECT length(body), packed FROM sluicegate_audits", url=url)
    assert packed
    assert size < len(body) / 10


def test_a_living_neighbours_audits_are_left_alone_and_a_closed_ones_end() -> None:
    url = running().new_url()

    async def story(store: PostgresqlStore) -> None:
        await store.replace(head("mine"), b"")
        other = PostgresqlStore.from_url(url)
        await other.open()
        await other.replace(head("theirs", "d"), b"")
        await other.aclose()
        await store.purge(0.0)  # looks for the dead, too
        mine, theirs = await store.latest("", "c"), await store.latest("", "d")
        assert mine is not None
        assert mine.outcome is None
        assert theirs is not None
        assert theirs.outcome is not None
        assert theirs.outcome.error_code == "GATEWAY_RESTARTED"

    told(url, story)


def test_a_server_that_goes_and_comes_back_loses_nothing_that_waits(own_server: PostgresqlServer) -> None:
    async def story(store: PostgresqlStore) -> None:
        await store.replace(head("g"), b"body")
        await asyncio.to_thread(own_server.stop, "immediate")
        await store.finish(head("g").key, DONE)
        with pytest.raises(StoreUnavailable):
            await store.replace(head("later"), b"")
        with pytest.raises(StoreUnavailable):
            await store.check()
        await asyncio.to_thread(own_server.start)
        async with asyncio.timeout(20):
            while (found := await latest(store)) is None or found.outcome != DONE:  # noqa: ASYNC110  # no event tells it
                await asyncio.sleep(0.05)
        assert found.body == b"body"
        await store.replace(head("later"), b"")

    async def latest(store: PostgresqlStore) -> StoredAudit | None:
        try:
            return await store.latest("", "c")
        except StoreUnavailable:
            return None

    told(own_server.new_url(), story)


def test_a_row_that_another_session_holds_is_told_after_a_while() -> None:
    server = running()
    url = server.new_url()

    async def story(store: PostgresqlStore) -> None:
        await store.replace(head("g"), b"")

        async def hold(connection: Any) -> None:
            async with connection.transaction():
                await connection.execute("LOCK TABLE sluicegate_audits")
                await asyncio.sleep(3.0)

        holding = asyncio.create_task(asyncio.to_thread(server.work, hold, url))
        await asyncio.sleep(0.5)
        with pytest.raises(StoreUnavailable, match="locked by another process"):
            await store.replace(head("later"), b"")
        await holding
        await store.replace(head("later"), b"")

    told(url, story)
