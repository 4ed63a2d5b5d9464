"""A loopback server that answers exactly the bytes a test tells it to."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field

import pytest


@dataclass
class Call:
    """One request that arrived, and the connection to answer on."""

    head: bytes
    body: bytes
    connection: int
    number: int
    writer: asyncio.StreamWriter
    reader: asyncio.StreamReader

    async def answer(self, *pieces: bytes, pause_s: float = 0.0) -> None:
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            if pause_s:
                await asyncio.sleep(pause_s)

    async def plain(self, body: bytes, *, status: int = 200, headers: bytes = b"") -> None:
        await self.answer(b"HTTP/1.1 %d X\r\n%scontent-length: %d\r\n\r\n%s" % (status, headers, len(body), body))

    async def events(self, *pieces: bytes, pause_s: float = 0.0, end: bool = True) -> None:
        await self.answer(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        await self.answer(*(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces), pause_s=pause_s)
        if end:
            await self.answer(b"0\r\n\r\n")

    def reset(self) -> None:
        """Breaks the connection with a reset rather than an end."""
        self.writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.writer.transport.abort()

    async def left(self) -> None:
        """Returns once the client has closed the connection."""
        with contextlib.suppress(ConnectionError):
            await self.reader.read()


Script = Callable[[Call], Awaitable[None]]


@dataclass
class Server:
    port: int = 0
    calls: list[Call] = field(default_factory=list)
    closed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"


@contextlib.asynccontextmanager
async def _serving(script: Script) -> AsyncIterator[Server]:
    server = Server()
    connections = 0

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connections
        connections += 1
        mine = connections
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                lengths = [line for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")]
                body = await reader.readexactly(int(lengths[0].split(b":")[1])) if lengths else b""
                call = Call(head, body, mine, len(server.calls) + 1, writer, reader)
                server.calls.append(call)
                await script(call)
        server.closed.set()
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    server.port = listener.sockets[0].getsockname()[1]
    try:
        yield server
    finally:
        listener.close()
        for call in server.calls:
            call.writer.close()
        await asyncio.sleep(0)


@pytest.fixture
def serving() -> Callable[[Script], contextlib.AbstractAsyncContextManager[Server]]:
    """`async with serving(script) as server:` — the script answers each call."""
    return _serving
