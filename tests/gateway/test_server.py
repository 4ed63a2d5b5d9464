"""The server says where it answers once it does, and takes no new work once it is told to stop."""

from __future__ import annotations

import asyncio
import signal
import socket
import threading
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from uvicorn.supervisors import multiprocess

from gateway import server
from gateway.settings import ServerSettings
from gateway.web.asgi import respond

ANYWHERE = ServerSettings(port=0)


async def application(scope: Any, receive: Any, send: Any) -> None:
    if scope["type"] != "lifespan":
        await respond(send, 200, b"{}")
        return
    await receive()
    await send({"type": "lifespan.startup.complete"})
    await receive()
    await send({"type": "lifespan.shutdown.complete"})


async def broken(scope: Any, receive: Any, send: Any) -> None:
    await receive()
    await send({"type": "lifespan.startup.failed", "message": "the store does not open"})


@pytest.mark.parametrize(
    ("host", "url"), [("127.0.0.1", "http://127.0.0.1:1"), ("localhost", "http://localhost:1"), ("::1", "http://[::1]:1")]
)
def test_an_address_becomes_a_url(host: str, url: str) -> None:
    assert server.url_of(host, 1) == url


def bound(host: str = "127.0.0.1") -> socket.socket:
    """A socket that is bound, as the command line takes it before anything starts."""
    taken = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET)
    taken.bind((host.strip("[]"), 0))
    return taken


@pytest.fixture
def brief(monkeypatch: pytest.MonkeyPatch) -> list[uvicorn.Config]:
    """Servers stop as soon as they have started; their configurations."""
    found: list[uvicorn.Config] = []

    class Brief(server.Server):
        async def startup(self, sockets: list[socket.socket] | None = None) -> None:
            await super().startup(sockets)
            found.append(self.config)
            self.should_exit = True

    monkeypatch.setattr(server, "Server", Brief)
    return found


def test_a_server_tells_its_url_once_it_answers(brief: list[uvicorn.Config]) -> None:
    told: list[str] = []
    with bound() as taken:
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        assert server.serve_one(application, ANYWHERE, taken, told.append)
    assert told == [url]


def test_a_server_that_never_starts_tells_nothing_and_gives_that_back(brief: list[uvicorn.Config]) -> None:
    told: list[str] = []
    with bound() as taken:
        assert not server.serve_one(broken, ANYWHERE, taken, told.append)
    assert told == []


@pytest.mark.parametrize(("grace_s", "seconds"), [(0, 1), (0.4, 1), (1.6, 2), (30, 30)])
def test_a_server_is_configured_for_this_gateway(brief: list[uvicorn.Config], grace_s: float, seconds: int) -> None:
    given = ServerSettings(host="[::1]" if socket.has_dualstack_ipv6() else "127.0.0.1", port=0, shutdown_grace_s=grace_s)
    with bound(given.host) as taken:
        server.serve_one(application, given, taken, str)
    config = brief[0]
    assert "[" not in config.host
    assert (config.timeout_graceful_shutdown, config.access_log, config.server_header) == (seconds, False, False)


@pytest.mark.parametrize("has_drain", [True, False])
def test_a_signal_drains_at_once(has_drain: bool) -> None:
    running = server.Server(uvicorn.Config(application), "", print)
    drained: list[bool] = []
    running.lifespan = type("Lifespan", (), {"state": {"drain": lambda: drained.append(True)} if has_drain else {}})()
    running.handle_exit(signal.SIGTERM, None)
    assert (drained, running.should_exit) == ([True] * has_drain, True)


class Workers:
    """Stands for the processes: answers on their socket, at first that nothing is ready."""

    made: list[Workers] = []  # noqa: RUF012
    exit_codes: tuple[int, ...] = (0, -15)
    answers = (b"HTTP/1.1 503 X\r\n\r\n", b"nonsense\r\n\r\n", b"HTTP/1.1 200 X\r\nconnection: close\r\n\r\n")

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        self.config = config
        self.bound = sockets[0]
        self.processes = [SimpleNamespace(exitcode=code) for code in self.exit_codes]
        self.asked: list[bytes] = []
        Workers.made.append(self)

    def run(self) -> None:
        with self.bound:
            self.bound.listen()
            for answer in self.answers:
                connection, _ = self.bound.accept()
                with connection:
                    self.asked.append(connection.recv(4096))
                    connection.sendall(answer)


def join_all_but(threads: set[threading.Thread]) -> None:
    for thread in set(threading.enumerate()) - threads:
        thread.join(10)
        assert not thread.is_alive()


def test_several_processes_share_a_socket_and_tell_once_one_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "Workers", Workers)
    monkeypatch.setattr(server, "_ASK_EVERY_S", 0.001)
    monkeypatch.setattr(Workers, "made", [])
    told, ready = [], threading.Event()

    def tell(url: str) -> None:
        told.append(url)
        ready.set()

    threads = set(threading.enumerate())
    taken = bound()
    port = taken.getsockname()[1]
    assert server.serve_many("package:factory", ANYWHERE, 2, taken, tell)
    assert ready.wait(10)
    join_all_but(threads)
    workers = Workers.made[0]
    assert (told, workers.bound) == ([f"http://127.0.0.1:{port}"], taken)
    assert all(asked.startswith(b"GET /healthz HTTP/1.1") for asked in workers.asked)
    assert (workers.config.app, workers.config.factory, workers.config.workers) == ("package:factory", True, 2)


def test_processes_that_can_not_start_tell_nothing_and_give_that_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "Workers", Workers)
    monkeypatch.setattr(server, "_ASK_EVERY_S", 0.001)
    monkeypatch.setattr(server, "_ASK_AT_MOST", 3)
    monkeypatch.setattr(Workers, "answers", ())
    monkeypatch.setattr(Workers, "exit_codes", (0, 3))
    threads = set(threading.enumerate())
    told: list[str] = []
    assert not server.serve_many("package:factory", ANYWHERE, 2, bound(), told.append)
    join_all_but(threads)
    assert told == []


def test_a_worker_drains_at_once_and_then_does_what_its_server_does(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[str] = []
    set_up: dict[int, Any] = {}

    def do(*_: object) -> None:
        heard.append("server")

    monkeypatch.setattr(server.signal, "getsignal", lambda number: do)
    monkeypatch.setattr(server.signal, "signal", set_up.__setitem__)
    config = server.WorkerConfig(application)
    config.load()
    lifespan = config.lifespan_class(config)

    async def begin_and_end() -> None:
        await lifespan.startup()
        lifespan.state["drain"] = lambda: heard.append("drain")
        set_up[signal.SIGTERM](signal.SIGTERM, None)
        await lifespan.shutdown()

    asyncio.run(begin_and_end())
    assert heard == ["drain", "server"]
    assert set(set_up) == {signal.SIGTERM, signal.SIGINT}


def test_workers_hear_of_the_end_before_their_parent_looks_and_nobody_listens_any_more(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[tuple[int, int]] = []
    set_up: dict[int, Any] = {}

    def tell(pid: int, number: int) -> None:
        told.append((pid, number))
        if pid == 2:
            raise ProcessLookupError

    monkeypatch.setattr(multiprocess.signal, "signal", set_up.__setitem__)
    monkeypatch.setattr(server.os, "kill", tell)
    with bound() as taken:
        workers = server.Workers(uvicorn.Config(application), [taken])
        states = ((None, None), (1, None), (2, None), (3, 0), (4, None))
        workers.processes = [SimpleNamespace(pid=pid, exitcode=code, terminate=lambda: None) for pid, code in states]
        set_up[signal.SIGTERM](signal.SIGTERM, None)
        assert told == [(1, signal.SIGTERM), (2, signal.SIGTERM), (4, signal.SIGTERM)]
        assert workers.signal_queue == [signal.SIGTERM]
        workers.terminate_all()
        assert taken.fileno() == -1
