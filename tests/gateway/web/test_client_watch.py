"""A departure cancels the work it was watched for, and nothing before or after."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gateway.errors import ClientCancelled, ShuttingDown
from gateway.web.client_watch import ClientWatch
from tests.support.rooms import Connection, body_message, run

Story = Callable[[Connection], Awaitable[None]]


def told(story: Story, *before: dict[str, object]) -> None:
    async def tell() -> None:
        await story(Connection(list(before)))

    run(tell())


def test_a_departure_cancels_who_entered() -> None:
    async def story(connection: Connection) -> None:
        with ClientWatch(connection.receive) as watch:
            assert not watch.departed
            connection.leaves.set()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.Event().wait()
            assert watch.departed
            assert isinstance(watch.why_cancelled(), ClientCancelled)

    told(story)


def test_what_else_the_client_sends_is_no_departure() -> None:
    async def story(connection: Connection) -> None:
        with ClientWatch(connection.receive) as watch:
            await asyncio.sleep(0.05)
            assert connection.waiting == []
            assert not watch.departed

    told(story, body_message(b""), body_message(b""))


def test_who_cancels_otherwise_is_the_gateway_going_down() -> None:
    async def story(connection: Connection) -> None:
        with ClientWatch(connection.receive) as watch:
            error = watch.why_cancelled()
            assert isinstance(error, ShuttingDown)
            assert "Try again" in error.message

    told(story)


def test_after_the_last_word_a_departure_means_nothing() -> None:
    async def story(connection: Connection) -> None:
        with ClientWatch(connection.receive) as watch:
            watch.over()
            connection.leaves.set()
            await asyncio.sleep(0.05)
            assert not watch.departed

    told(story)


def test_after_the_work_nobody_watches_any_more() -> None:
    async def story(connection: Connection) -> None:
        with ClientWatch(connection.receive) as watch:
            pass
        connection.leaves.set()
        await asyncio.sleep(0.05)
        assert not watch.departed
        assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task() and "_wait" in repr(task)] == []

    told(story)


def test_the_watch_ends_with_an_error_too() -> None:
    async def story(connection: Connection) -> None:
        with pytest.raises(ZeroDivisionError), ClientWatch(connection.receive):
            raise ZeroDivisionError
        connection.leaves.set()
        await asyncio.sleep(0.05)

    told(story)


def test_a_watch_that_never_began_ends_in_silence() -> None:
    ClientWatch(Connection().receive).__exit__(None, None, None)
