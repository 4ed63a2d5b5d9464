"""A server protocol that notices clients that hang up where uvicorn's own does not; the watch over a request then learns of it.

uvicorn tells only the newest request of a connection that it has gone, stops reading when one is sent ahead, and first waits
for a client that takes nothing more. Knows connections, and nothing of what is asked on them.
"""

from __future__ import annotations

import asyncio
import socket
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol, RequestResponseCycle

STALLED_S = 300.0  # a client that takes nothing of its answer for so long has left without a word
MOST_AHEAD = 16  # requests that wait behind one on their connection; with more it is not read, and a departure not seen
_KEEPALIVE = (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4))  # who is gone is noticed in two minutes
_PROBES = [(getattr(socket, name), value) for name, value in _KEEPALIVE if hasattr(socket, name)]  # not all systems have all


class HangupProtocol(HttpToolsProtocol):
    """uvicorn's own protocol; a client that ends its side of the connection, or takes nothing more, has left."""

    _running: RequestResponseCycle | None = None
    _stalled: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(transport)
        _probe(transport.get_extra_info("socket"))

    def on_headers_complete(self) -> None:
        """A request has begun; one that is sent ahead waits, while the connection is read on to see it end."""
        super().on_headers_complete()
        if 0 < len(self.pipeline) <= MOST_AHEAD:
            self.flow.resume_reading()

    def eof_received(self) -> None:
        """The client has ended its side: it has left, and nothing that it has not taken yet holds anybody up."""
        if self._running is not None and not self._running.response_complete:
            self.transport.abort()
        else:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection has ended: so has the request that runs, also where others wait behind it."""
        self._take_time_off()
        if self._running is not None and not self._running.response_complete:
            self._running.disconnected = True
            self._running.message_event.set()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        """The client takes less than it is sent."""
        super().pause_writing()
        self._take_time_off()
        self._stalled = self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        """The client has taken what waited."""
        self._take_time_off()
        super().resume_writing()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: Any) -> None:
        self._running = cycle
        super()._start_asgi_task(cycle, app)

    def _take_time_off(self) -> None:
        if self._stalled is not None:
            self._stalled.cancel()
            self._stalled = None


def _probe(connection: socket.socket | None) -> None:
    """Has the system ask now and then whether the other machine is still there."""
    if connection is None or connection.family not in (socket.AF_INET, socket.AF_INET6):
        return
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _PROBES:
        connection.setsockopt(socket.IPPROTO_TCP, option, value)
