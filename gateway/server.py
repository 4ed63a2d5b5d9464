"""Runs the gateway under uvicorn: says when it is ready, and drains when it is told to stop."""

from __future__ import annotations

import gc
import http.client
import socket
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from types import FrameType
from typing import Any

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from gateway.corked import CorkedProtocol
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
        drain = self.lifespan.state.get("drain")
        if drain is not None:
            drain()
        super().handle_exit(sig, frame)


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
    config = _config(factory, server, factory=True, workers=workers)
    port = bound.getsockname()[1]
    threading.Thread(target=_tell_when_it_answers, args=(config.host, port, ready), daemon=True).start()
    running = Multiprocess(config, sockets=[bound])
    running.run()
    return all(process.exitcode != STARTUP_FAILURE for process in running.processes)


def _config(app: Any, server: ServerSettings, **more: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        host=server.host.strip("[]"),
        port=server.port,
        loop="uvloop",
        http=CorkedProtocol,
        ws="none",
        access_log=False,
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
