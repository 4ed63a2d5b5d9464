"""An HTTP server protocol that writes what an answer says in one turn of the event loop as one piece.

The server writes head and body apart, and each write is a system call: of a small answer's time one part in ten.
"""

from __future__ import annotations

import asyncio
from typing import Any

from gateway.web.hangups import HangupProtocol

MOST_BYTES = 16_384  # that wait; more is written at once


class CorkedTransport:
    """A transport whose writes wait for the end of the loop's turn; everything else goes to the real one."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._waiting: list[bytes] = []
        self._size = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Takes bytes to be written before anything else happens."""
        if not self._waiting:
            self._loop.call_soon(self._flush)
        self._waiting.append(data)
        self._size += len(data)
        if self._size > MOST_BYTES:  # the real transport must feel it, or it could not ask for a pause
            self._flush()

    def close(self) -> None:
        """Closes after what has been taken."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        waiting, self._waiting, self._size = self._waiting, [], 0
        if waiting and not self._transport.is_closing():
            self._transport.write(waiting[0] if len(waiting) == 1 else b"".join(waiting))


class CorkedProtocol(HangupProtocol):
    """The protocol that notices hangups, over a corked transport."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """A client has connected."""
        super().connection_made(CorkedTransport(transport, self.loop))  # type: ignore[arg-type]
