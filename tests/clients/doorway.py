"""A door in front of the gateway that passes every byte on, both ways, and remembers each request. It changes nothing.

It is what tells how often a client really asked: a request that the gateway refuses by itself reaches no provider.
"""

from __future__ import annotations

import asyncio
import json
import threading
from concurrent.futures import Future
from contextlib import suppress
from typing import Any
from urllib.parse import urlsplit

LARGEST_HEAD = 1 << 20


class Doorway:
    """Entered, it listens on a loopback port of its own."""

    def __init__(self, url: str) -> None:
        self._behind = urlsplit(url)
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._server: asyncio.Server | None = None
        self._connections: set[asyncio.Task[None]] = set()
        self.bodies: list[bytes] = []
        self.url = ""

    def __enter__(self) -> Doorway:
        self._thread.start()
        self._server = self._run(asyncio.start_server(self._serve, "127.0.0.1", 0, limit=LARGEST_HEAD))
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    def __exit__(self, *exception: object) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def requests_for(self, model: str) -> list[bytes]:
        """The bodies of all requests that named this model, in order."""
        return [body for body in self.bodies if body and json.loads(body)["model"] == model]

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        inner_reader, inner_writer = await asyncio.open_connection(self._behind.hostname, self._behind.port)
        back = asyncio.create_task(_pass_on(inner_reader, writer))
        try:
            while True:
                await self._pass_request(reader, inner_writer)
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            back.cancel()
        finally:
            self._connections.discard(task)
            await asyncio.gather(back, return_exceptions=True)
            inner_writer.transport.abort()
            writer.transport.abort()

    async def _pass_request(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        lines = (line.partition(b":") for line in head.lower().split(b"\r\n"))
        sizes = [int(value) for name, _, value in lines if name == b"content-length"]
        body = await reader.readexactly(sum(sizes))
        self.bodies.append(body)
        writer.write(head + body)
        await writer.drain()

    async def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        for task in list(self._connections):
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)

    def _run(self, work: Any) -> Any:
        done: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result(10)


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    writer.close()
