"""A load of chat completions from few connections, cheap enough not to be what is measured."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import cast

import httptools


@dataclass(frozen=True, slots=True)
class Measured:
    """One round: requests a second, and the median in seconds of whole answers and of first body bytes."""

    rate: float
    median: float
    first: float
    cpu: float = 0.0  # seconds of the server's CPU a request, where it was taken


class _Connection(asyncio.Protocol):
    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self.done: asyncio.Future[int] | None = None
        self.first = 0.0
        self._status = 0
        self._parser = httptools.HttpResponseParser(self)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)  # uvloop's is none by class

    def data_received(self, data: bytes) -> None:
        self._parser.feed_data(data)

    def connection_lost(self, error: Exception | None) -> None:
        if self.done is not None and not self.done.done():
            self.done.set_exception(ConnectionResetError("the server closed the connection"))

    def on_body(self, body: bytes) -> None:
        if not self.first:
            self.first = time.perf_counter()

    def on_message_complete(self) -> None:
        assert self.done is not None
        self._status = self._parser.get_status_code()
        self._parser = httptools.HttpResponseParser(self)
        self.done.set_result(self._status)

    async def ask(self, request: bytes) -> tuple[float, float]:
        """Sends one request; seconds to the first body byte and to the end."""
        assert self.transport is not None
        self.done = asyncio.get_running_loop().create_future()
        self.first, start = 0.0, time.perf_counter()
        self.transport.write(request)
        status = await self.done
        if status != 200:
            raise SystemExit(f"a benchmark request was answered with {status}")
        return self.first - start, time.perf_counter() - start


def request_bytes(body: bytes, chat: int) -> bytes:
    """A whole chat completion request; each connection is a chat of its own."""
    lines = ["POST /v1/chat/completions HTTP/1.1", "host: 127.0.0.1", "content-type: application/json"]
    lines += [f"x-context-chat-id: bench-{chat}", f"content-length: {len(body)}", "", ""]
    return "\r\n".join(lines).encode() + body


async def measure(port: int, body: bytes, *, connections: int, requests: int) -> Measured:
    """So many requests over so many connections."""
    loop = asyncio.get_running_loop()
    opened = [(await loop.create_connection(_Connection, "127.0.0.1", port))[1] for _ in range(connections)]
    firsts: list[float] = []
    wholes: list[float] = []

    async def work(connection: _Connection, chat: int) -> None:
        request = request_bytes(body, chat)
        for _ in range(max(1, requests // connections)):
            first, whole = await connection.ask(request)
            firsts.append(first)
            wholes.append(whole)

    start = time.perf_counter()
    await asyncio.gather(*(work(connection, number) for number, connection in enumerate(opened)))
    elapsed = time.perf_counter() - start
    for connection in opened:
        if connection.transport is not None:
            connection.transport.close()
    return Measured(len(wholes) / elapsed, sorted(wholes)[len(wholes) // 2], sorted(firsts)[len(firsts) // 2])
