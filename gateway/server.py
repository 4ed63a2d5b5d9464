"""Runs the gateway under uvicorn: says when it is ready, and drains when it is told to stop, in one process or in several."""

from __future__ import annotations

import gc
import http.client
import os
import signal
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from functools import partial
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.lifespan.on import LifespanOn
from uvicorn.server import HANDLED_SIGNALS
from uvicorn.supervisors import Multiprocess

from gateway import process_log
from gateway.bounded import BoundedProtocol
from gateway.settings import ServerSettings

Ready = Callable[[str], None]
_ASK_EVERY_S = 0.1
_ASK_AT_MOST = 600


class Server(uvicorn.Server):
    """A server in a process of its own; `ready` is called with `url` once it answers."""

    def __init__(self, config: uvicorn.Config, url: str, ready: Ready) -> None:
        super().__init__(config)
        self._url = url
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts; then tells the URL under which it answers. What can't start ends with SystemExit."""
        await super().startup(sockets=sockets)
        gc.collect()
        gc.freeze()  # what lives as long as the process need not be looked through for garbage again and again
        self._ready(self._url)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stops taking new work at once; what is under way has its grace."""
        _drain(self.lifespan.state)
        super().handle_exit(sig, frame)


class WorkerConfig(uvicorn.Config):
    """What worker processes are made of. Their servers are uvicorn's own, so it is the lifespan that listens for the signal."""

    def load(self) -> None:
        """Reads everything."""
        super().load()
        self.lifespan_class = WorkerLifespan


class WorkerLifespan(LifespanOn):
    """The life of an application in a worker process, which is told of its end as soon as the server is."""

    async def startup(self) -> None:
        """Starts; from then on a signal drains first, then does what the server has set up for it."""
        await super().startup()
        for number in HANDLED_SIGNALS:
            signal.signal(number, partial(self._told, signal.getsignal(number)))

    def _told(self, before: Any, number: int, frame: FrameType | None) -> None:
        _drain(self.state)
        before(number, frame)


class Workers(Multiprocess):
    """The parent of the worker processes."""

    def __init__(self, config: uvicorn.Config, sockets: list[socket.socket]) -> None:
        super().__init__(config, sockets)
        signal.signal(signal.SIGTERM, self._pass_on)

    def terminate_all(self) -> None:
        """Ends the workers. The parent listens no more, either: who comes now would wait for an answer that nobody gives."""
        super().terminate_all()
        for bound in self.sockets:
            bound.close()

    def _pass_on(self, number: int, frame: FrameType | None) -> None:
        """The workers hear of it now; the parent looks at its signals twice a second."""
        self.signal_queue.append(number)
        for worker in self.processes:
            if worker.pid is not None and worker.exitcode is None:
                with suppress(ProcessLookupError):
                    os.kill(worker.pid, number)


def url_of(host: str, port: int) -> str:
    """The URL of a bound address."""
    bracketed = f"[{host}]" if ":" in host else host
    return f"http://{bracketed}:{port}"


def serve_one(app: Any, server: ServerSettings, bound: socket.socket, ready: Ready) -> bool:
    """Serves in this process until it is told to stop; whether it ever answered."""
    config = _config(app, server)
    running = Server(config, url_of(config.host, bound.getsockname()[1]), ready)
    try:
        running.run(sockets=[bound])
    except SystemExit:  # so uvicorn ends what can't start
        return False
    return running.started


def serve_many(factory: str, server: ServerSettings, workers: int, bound: socket.socket, ready: Ready) -> bool:
    """Serves in several processes that share one socket; whether they could start.

    `factory` names the function that makes the application.
    """
    config = _config(factory, server, WorkerConfig, factory=True, workers=workers)
    port = bound.getsockname()[1]
    threading.Thread(target=_tell_when_it_answers, args=(config.host, port, ready), daemon=True).start()
    running = Workers(config, sockets=[bound])
    running.run()
    return all(process.exitcode != STARTUP_FAILURE for process in running.processes)


def _drain(state: dict[str, Any]) -> None:
    drain = state.get("drain")
    if drain is not None:
        drain()


def _config(app: Any, server: ServerSettings, kind: type[uvicorn.Config] = uvicorn.Config, **more: Any) -> uvicorn.Config:
    return kind(
        app,
        host=server.host.strip("[]"),
        port=server.port,
        loop="uvloop",
        http=BoundedProtocol,
        ws="none",
        access_log=False,
        log_config=process_log.CONFIGURATION,
        log_level="warning",
        server_header=False,
        proxy_headers=False,
        timeout_graceful_shutdown=max(1, round(server.shutdown_grace_s)),
        **more,
    )


def _tell_when_it_answers(host: str, port: int, ready: Ready) -> None:
    for _ in range(_ASK_AT_MOST):
        connection = http.client.HTTPConnection(host, port, timeout=1)
        with suppress(OSError, http.client.HTTPException), closing(connection):
            connection.request("GET", "/healthz")
            if connection.getresponse().status == 200:
                ready(url_of(host, port))
                return
        time.sleep(_ASK_EVERY_S)
