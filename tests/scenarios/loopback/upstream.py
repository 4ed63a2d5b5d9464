"""A provider for tests: an HTTP server on a loopback port that sends exactly the scripted bytes and remembers what arrived.

The model a request names chooses its script, so that tests share one server without meeting.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import socket
import struct
import threading
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from tests.scenarios.loopback.waiting import until

_ABORT_AT_ONCE = struct.pack("ii", 1, 0)


class Ending(Enum):
    """How a script breaks a connection."""

    RESET = "reset"
    CLOSE = "close"


class Gate:
    """A place in a script where the provider waits until the test opens it."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._opened = asyncio.Event()

    def open(self) -> None:
        """Lets the script go on, from any thread."""
        self._loop.call_soon_threadsafe(self._opened.set)

    async def wait(self) -> None:
        """Until it is open."""
        await self._opened.wait()


Step = bytes | Gate | float | Ending
"""Bytes are sent, a gate is waited for, a number is a pause in seconds, an ending breaks the connection."""


@dataclass(eq=False)
class Call:
    """One request that arrived. `gone` is set when its connection has ended, `played` when its script has."""

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    gone: threading.Event
    played: threading.Event = field(default_factory=threading.Event)

    @property
    def json(self) -> Any:
        """The body, parsed."""
        return json.loads(self.body)

    @property
    def under_way(self) -> bool:
        """Whether the gateway still waits for something of it."""
        return not (self.gone.is_set() or self.played.is_set())


@dataclass(eq=False)
class Script:
    """What the provider answers for one model: each call the next answer, the last one for all further calls."""

    model: str
    answers: list[tuple[Step, ...]]
    calls: list[Call] = field(default_factory=list)

    def arrival(self, number: int = 1) -> Call:
        """The call of this number, once it has arrived."""
        until(lambda: len(self.calls) >= number, f"call {number} of {self.model}")
        return self.calls[number - 1]

    @property
    def sent(self) -> Any:
        """The body of the only call, parsed."""
        (call,) = self.calls
        return call.json


class Upstream:
    """The provider. Entered, it serves from a thread of its own."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._scripts: dict[str, Script] = {}
        self._numbers = itertools.count(1)
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None
        self.url = ""

    def __enter__(self) -> Upstream:
        self._thread.start()
        self._server = self._run(self._loop.create_server(lambda: _Connection(self), "127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
        return self

    def __exit__(self, *exception: object) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def script(self, *steps: Step, then: tuple[Step, ...] | None = None, model: str | None = None) -> Script:
        """A new script under a model name of its own, or under a given one."""
        name = model or f"small-{next(self._numbers)}"
        made = Script(name, [steps] if then is None else [steps, then])
        self._scripts[name] = made
        return made

    def gate(self) -> Gate:
        """A closed gate."""
        return Gate(self._loop)

    def answers_to(self, call: Call) -> tuple[Step, ...]:
        """The next answer for a call; remembers the call."""
        script = self._scripts[call.json["model"]]
        script.calls.append(call)
        return script.answers[min(len(script.calls), len(script.answers)) - 1]

    def opened(self, connection: _Connection) -> None:
        """A connection has been made."""
        self._connections.add(connection)

    def closed(self, connection: _Connection) -> None:
        """A connection has ended."""
        self._connections.discard(connection)

    async def _end(self) -> None:
        if self._server is not None:
            self._server.close()
        tasks = [connection.task for connection in self._connections if connection.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _run(self, work: Any) -> Any:
        done: Future[Any] = asyncio.run_coroutine_threadsafe(work, self._loop)
        return done.result(10)


class _Connection(asyncio.StreamReaderProtocol):
    """One connection of the gateway: requests one after the other; its script ends when the gateway goes."""

    def __init__(self, upstream: Upstream) -> None:
        super().__init__(asyncio.StreamReader(limit=1 << 24), self._serve)
        self._upstream = upstream
        self._gone = threading.Event()
        self.task: asyncio.Task[Any] | None = None

    def eof_received(self) -> bool:
        """The gateway has ended its side, which is its way to leave."""
        self._leave()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        """Whoever ended it."""
        super().connection_lost(exc)
        self._leave()

    def _leave(self) -> None:
        self._gone.set()
        self._upstream.closed(self)
        if self.task is not None:
            self.task.cancel()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.task = asyncio.current_task()
        self._upstream.opened(self)
        try:
            while not self._gone.is_set():
                call = await self._read_call(reader)
                for step in self._upstream.answers_to(call):
                    await self._play(step, writer)
                call.played.set()
        except (asyncio.CancelledError, asyncio.IncompleteReadError, ConnectionError):
            self._gone.set()
        finally:
            writer.transport.abort()

    async def _read_call(self, reader: asyncio.StreamReader) -> Call:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        first, *lines = head.rstrip("\r\n").split("\r\n")
        headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
        body = await reader.readexactly(int(headers.get("content-length", "0")))
        method, path, _ = first.split(" ", 2)
        return Call(method, path, headers, body, self._gone)

    async def _play(self, step: Step, writer: asyncio.StreamWriter) -> None:
        if isinstance(step, bytes):
            writer.write(step)
            await writer.drain()
        elif isinstance(step, Gate):
            await step.wait()
        elif isinstance(step, float):
            await asyncio.sleep(step)
        else:
            if step is Ending.RESET:
                writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT_AT_ONCE)
                writer.transport.abort()
            else:
                writer.close()
            raise ConnectionAbortedError
