"""Crowds of clients that vanish at any moment: no audit stays open, no connection, no file, no task."""

from __future__ import annotations

import asyncio
import json
import os
import random
import socket
import sqlite3
import struct
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import uvicorn
import uvloop

from gateway.app import Gateway, load_configuration
from gateway.corked import CorkedProtocol
from tests.scenarios.loopback import replies
from tests.scenarios.loopback.running_gateway import DATABASE, RunningGateway, write_config
from tests.scenarios.loopback.upstream import Call, Script, Step, Upstream
from tests.scenarios.loopback.waiting import until

VANISHING = 2000
VANISHING_HERE = 300  # beside the gateway in one process, where tasks can be counted
AT_A_TIME = 100
SEED = 20261201
LONGEST_S = 0.06  # that a client waits before it leaves; the provider takes longer
QUIET_S = 15.0  # until idle connections have been closed, too: the gateway keeps them for some seconds
SHORT = [{"role": "user", "content": "Name three rivers."}]
MOMENTS = ["connected", "in the head", "in the body", "waiting", "two ahead", "answered", "at the end"]
LAST_WORDS = {"plain": b'"usage"', "streamed": b"[DONE]", "embedded": b"embedding"}
WAYS = ["close", "reset", "half close"]
ABORT_AT_ONCE = struct.pack("ii", 1, 0)
CHAT, EMBEDDINGS = "/v1/chat/completions", "/v1/embeddings"


@dataclass
class Crowd:
    """Clients that ask for three kinds of answers and vanish, each at a moment of chance.

    Of each kind there are answers that end and answers that do not: those go on until the gateway ends them.
    """

    endings: dict[str, Script]
    endless: dict[str, Script]
    vanished: Counter[tuple[str, str]] = field(default_factory=Counter)
    chance: random.Random = field(default_factory=lambda: random.Random(SEED))  # noqa: S311  # the same moments every time

    @classmethod
    def before(cls, upstream: Upstream) -> Crowd:
        """A crowd, and the provider's answers to it."""
        slowly: list[Step] = [replies.piece("The Nile"), 0.02] * 3
        vectors = replies.answer(b'{"object":"list","data":[{"index":0,"embedding":[0.5]}]}')
        return cls(
            {
                "plain": upstream.script(0.03, replies.plain()),
                "streamed": upstream.script(0.02, replies.STREAM_HEAD, *slowly, replies.FINISH),
                "embedded": upstream.script(0.03, vectors),
            },
            {
                "plain": upstream.script(upstream.gate()),
                "streamed": upstream.script(0.02, replies.STREAM_HEAD, *slowly, upstream.gate()),
                "embedded": upstream.script(0.02, vectors[:-20], upstream.gate()),
            },
        )

    @property
    def calls(self) -> list[Call]:
        """What has reached the provider."""
        return [call for script in (*self.endings.values(), *self.endless.values()) for call in script.calls]

    async def vanish(self, url: str, number: int) -> None:
        """So many clients come and go."""
        places = asyncio.Semaphore(AT_A_TIME)

        async def one(chat_id: str) -> None:
            async with places:
                await self._one(url, chat_id)

        await asyncio.gather(*(one(f"vanishing-{index}") for index in range(number)))

    async def _one(self, url: str, chat_id: str) -> None:
        chance, address = self.chance, urlsplit(url)
        kind, moment, way = chance.choice([*LAST_WORDS]), chance.choice(MOMENTS), chance.choice(WAYS)
        self.vanished[moment, way] += 1
        head, body = self._request(address.netloc, kind, moment, chat_id)
        cut = {"connected": 0, "in the head": chance.randrange(1, len(head)), "in the body": len(head) + len(body) // 2}
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(((head + body) * (2 if moment == "two ahead" else 1))[: cut.get(moment)])
        if moment in ("answered", "at the end"):
            await reader.readuntil(b"HTTP/1.1 200" if moment == "answered" else LAST_WORDS[kind])
        await asyncio.sleep(chance.uniform(0, LONGEST_S))
        await _leave(reader, writer, way)

    def _request(self, host: str, kind: str, moment: str, chat_id: str) -> tuple[bytes, bytes]:
        """Head and body. A client that waits for more than the head of a plain answer asks for one that ends."""
        ends = moment == "at the end" or (moment, kind) == ("answered", "plain") or self.chance.random() < 0.5
        fields: dict[str, Any] = {"model": (self.endings if ends else self.endless)[kind].model}
        if kind == "embedded":
            path, fields["input"] = EMBEDDINGS, "Nile"
        else:
            path = CHAT
            fields |= {"messages": SHORT, "stream": kind == "streamed", "contextShift": {"chatId": chat_id}}
        body = json.dumps(fields).encode()
        return f"POST {path} HTTP/1.1\r\nhost: {host}\r\ncontent-length: {len(body)}\r\n\r\n".encode(), body


async def _leave(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str) -> None:
    with suppress(ConnectionError):
        if way == "reset":
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT_AT_ONCE)
            writer.transport.abort()
        if way == "half close":
            writer.write_eof()
            await asyncio.wait_for(reader.read(), 3)  # the gateway closes its half, too
        writer.close()
        await writer.wait_closed()


@dataclass(frozen=True)
class Held:
    """What a process has open."""

    sockets: int
    others: int

    @classmethod
    def by(cls, process: int) -> Held:
        """As the system tells it."""
        links = []
        for name in os.listdir(f"/proc/{process}/fd"):
            with suppress(FileNotFoundError):
                links.append(os.readlink(f"/proc/{process}/fd/{name}"))
        sockets = sum(link.startswith("socket:") for link in links)
        return cls(sockets, len(links) - sockets)


def statuses(folder: Path) -> Counter[str]:
    """How the audits in the store have ended."""
    with closing(sqlite3.connect(folder / DATABASE)) as store:
        return Counter(dict(store.execute("SELECT status, COUNT(*) FROM heads GROUP BY status").fetchall()))


def inflight(gateway: RunningGateway) -> float:
    """Requests under way, as the gateway counts them."""
    lines = gateway.http.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("sluicegate_inflight_requests"))


@pytest.fixture
def provider() -> Iterator[Upstream]:
    """A provider of one's own, whose connections are counted."""
    with Upstream() as running:
        yield running


def require_all_ended(crowd: Crowd, found: Counter[str]) -> None:
    """No audit is open or failed, and many have ended either way."""
    assert found["prepared"] == found["failed"] == 0, found
    assert min(found["completed"], found["cancelled"]) > len(crowd.calls) / 20, found


def test_two_thousand_clients_that_vanish_leave_nothing_behind(provider: Upstream, tmp_path: Path) -> None:
    crowd = Crowd.before(provider)
    write_config(tmp_path, provider.url)
    with RunningGateway(tmp_path) as gateway:
        process = gateway._process.pid
        sockets = Held.by(process).sockets
        gateway.post({"model": crowd.endings["plain"].model, "messages": SHORT, "contextShift": {"chatId": "first"}})
        others = Held.by(process).others
        asyncio.run(crowd.vanish(gateway.url, VANISHING))
        until(lambda: not [call for call in crowd.calls if call.under_way], "the end of every call", 3.0)
        until(lambda: statuses(tmp_path)["prepared"] == 0, "the end of every audit", 3.0)
        until(lambda: inflight(gateway) == 0, "the end of every request", 3.0)
        gateway.http.close()
        until(lambda: Held.by(process).sockets <= sockets, "the end of every connection", QUIET_S)
        assert Held.by(process).others <= others
        until(lambda: not provider._connections, "the same, as the provider sees it", 3.0)
        require_all_ended(crowd, statuses(tmp_path))
        assert (crowd.vanished.total(), len(crowd.vanished)) == (VANISHING, len(MOMENTS) * len(WAYS))
    assert gateway.log.read_text() == ""


def test_no_task_is_left_of_a_client_that_vanished(provider: Upstream, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    crowd = Crowd.before(provider)
    config = write_config(tmp_path, provider.url)
    monkeypatch.chdir(tmp_path)

    async def story() -> None:
        app = Gateway(load_configuration(config, {})).app
        settings = uvicorn.Config(app, http=CorkedProtocol, ws="none", log_config=None, access_log=False)
        server = uvicorn.Server(settings)
        with socket.create_server(("127.0.0.1", 0)) as bound:
            serving = asyncio.create_task(server.serve([bound]))
            while not server.started:  # noqa: ASYNC110  # the server has no event for it
                await asyncio.sleep(0.01)
            before = asyncio.all_tasks()
            await crowd.vanish(f"http://127.0.0.1:{bound.getsockname()[1]}", VANISHING_HERE)
            await _none_but(before)
            assert not server.server_state.tasks
            server.should_exit = True
            await serving

    with asyncio.Runner(loop_factory=uvloop.new_event_loop, debug=True) as runner:  # which tells of what nobody closed
        runner.run(story())
    require_all_ended(crowd, statuses(tmp_path))


async def _none_but(tasks: set[asyncio.Task[object]]) -> None:
    """Waits until no others are there; fails with those that stay."""
    deadline = time.monotonic() + 3
    while left := asyncio.all_tasks() - tasks:
        assert time.monotonic() < deadline, left
        await asyncio.sleep(0.01)
