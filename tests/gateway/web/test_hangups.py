"""A client that ends its side, sends requests ahead or takes nothing more is noticed, and only then."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from gateway.web import hangups
from gateway.web.asgi import Receive, Scope, Send
from gateway.web.hangups import MOST_AHEAD, HangupProtocol
from tests.support.rooms import run

ASK = b"GET / HTTP/1.1\r\nhost: a\r\n\r\n"
FLOOD = b"x" * 65_536
MUCH = b"x" * 8_000_000


Answer = Callable[[Send], Awaitable[None]]


class Site:
    """An application that answers in one way, and what it sees of its clients."""

    def __init__(self, answer: Answer) -> None:
        self._answer = answer
        self.begun = 0
        self.departed = asyncio.Event()
        self.protocols: list[HangupProtocol] = []

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.begun += 1
        answering = asyncio.ensure_future(self._answer(send))
        try:
            while (await receive())["type"] != "http.disconnect":
                pass
            if not answering.done():
                self.departed.set()
        finally:
            answering.cancel()
            await asyncio.gather(answering, return_exceptions=True)


Story = Callable[[Site, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


async def nothing(send: Send) -> None:
    await asyncio.Event().wait()


async def flood(send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    while True:
        await send({"type": "http.response.body", "body": FLOOD, "more_body": True})
        await asyncio.sleep(0)


async def much(send: Send) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": MUCH})


def visited(
    answer: Callable[[Send], Awaitable[None]],
    story: Callable[[Site, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]],
) -> None:
    """Runs a story with one client that has connected to a site."""

    async def tell() -> None:
        site = Site(answer)
        config = uvicorn.Config(site, ws="none", log_config=None)
        config.load()

        def protocol() -> HangupProtocol:
            site.protocols.append(HangupProtocol(config, ServerState(), {}))
            return site.protocols[-1]

        async with await asyncio.get_running_loop().create_server(protocol, "127.0.0.1", 0) as server:
            reader, writer = await asyncio.open_connection(*server.sockets[0].getsockname())
            try:
                await story(site, reader, writer)
            finally:
                writer.close()
                await asyncio.gather(writer.wait_closed(), return_exceptions=True)
                for task in [*site.protocols[0].tasks]:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)

    run(tell())


async def until(found: Callable[[], Any]) -> None:
    """Waits for something that a test that hangs would never see."""
    while not found():  # noqa: ASYNC110  # what it waits for has no event
        await asyncio.sleep(0)


async def stalled(site: Site) -> None:
    await until(lambda: site.protocols and site.protocols[0].flow and site.protocols[0].flow.write_paused)


@pytest.mark.parametrize("ahead", [1, MOST_AHEAD])
def test_a_departure_is_seen_behind_requests_that_were_sent_ahead(ahead: int) -> None:
    async def story(site: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(ASK)
        await until(lambda: site.begun)
        writer.write(ASK * ahead)
        await until(lambda: len(site.protocols[0].pipeline) == ahead)
        writer.close()
        await site.departed.wait()
        assert site.begun == 1

    visited(nothing, story)


def test_a_connection_with_too_many_requests_ahead_is_not_read() -> None:
    async def story(site: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(ASK)
        await until(lambda: site.begun)
        writer.write(ASK * (MOST_AHEAD + 1))
        await until(lambda: len(site.protocols[0].pipeline) == MOST_AHEAD + 1)
        assert site.protocols[0].flow.read_paused
        site.protocols[0].transport.abort()

    visited(nothing, story)


def test_requests_that_were_sent_ahead_are_answered_in_turn() -> None:
    async def story(site: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(ASK * 3)
        for _ in range(3):
            await reader.readuntil(b"\r\n0\r\n\r\n")
        assert site.begun == 3

    async def briefly(send: Send) -> None:
        await asyncio.sleep(0)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x"})

    visited(briefly, story)


def test_a_client_that_ends_its_side_while_it_waits_has_left() -> None:
    async def story(site: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(ASK)
        await until(lambda: site.begun)
        writer.write_eof()
        await site.departed.wait()
        assert await reader.read() == b""

    visited(nothing, story)


def test_a_client_that_ends_its_side_and_takes_nothing_more_has_left() -> None:
    async def story(site: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()
        writer.write(ASK)
        await stalled(site)
        writer.write_eof()
        await site.departed.wait()
        assert site.protocols[0]._stalled is None

    visited(flood, story)


def test_a_client_that_ends_its_side_after_the_answer_gets_all_of_it() -> None:
    async def story(site: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()
        writer.write(ASK)
        await stalled(site)
        writer.write_eof()
        await asyncio.sleep(0.05)
        writer.transport.resume_reading()
        assert len(await reader.read()) > len(MUCH)
        assert not site.departed.is_set()

    visited(much, story)


def test_a_client_that_takes_nothing_for_long_has_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hangups, "STALLED_S", 0.05)

    async def story(site: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()
        writer.write(ASK)
        await site.departed.wait()

    visited(flood, story)


def test_a_client_that_takes_its_answer_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hangups, "STALLED_S", 0.3)

    async def story(site: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.transport.pause_reading()
        writer.write(ASK)
        await stalled(site)
        writer.transport.resume_reading()
        await reader.readexactly(4 * len(MUCH))
        begun = asyncio.get_running_loop().time()
        while asyncio.get_running_loop().time() < begun + 0.4:
            await reader.readexactly(len(FLOOD))
        assert not site.departed.is_set()

    visited(flood, story)


def test_a_connection_is_probed_for_machines_that_are_gone() -> None:
    async def story(site: Site, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await until(lambda: site.protocols and site.protocols[0].transport)
        connection = site.protocols[0].transport.get_extra_info("socket")
        assert connection.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1

    visited(nothing, story)


def test_a_connection_within_the_machine_needs_no_probes() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        hangups._probe(ours)
        assert ours.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 0
    hangups._probe(None)
