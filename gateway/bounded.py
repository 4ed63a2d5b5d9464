"""An HTTP server protocol that takes only so much of a request's head.

The server below it collects lines for ever while a head, or what follows a body in chunks, doesn't end: anybody's memory, before
any key has been looked at.
"""

from __future__ import annotations

from gateway.corked import CorkedProtocol

MOST_HEAD_BYTES = 65_536
_MESSAGE = b"The head of the request is larger than 65536 bytes; send less in headers and URL."
_REFUSAL = (
    b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-type: text/plain; charset=utf-8\r\n"
    b"content-length: %d\r\nconnection: close\r\n\r\n%b" % (len(_MESSAGE), _MESSAGE)
)


class BoundedProtocol(CorkedProtocol):
    """The server's protocol, with an end to its patience."""

    _unfinished = 0  # bytes that have led to nothing yet
    _has_moved = False

    def data_received(self, data: bytes) -> None:
        """Bytes of the client. What has neither ended a head nor brought a piece of a body is counted."""
        self._has_moved = False
        super().data_received(data)
        self._unfinished = 0 if self._has_moved else self._unfinished + len(data)
        if self._unfinished > MOST_HEAD_BYTES and not self.transport.is_closing():
            if self.cycle is None or self.cycle.response_complete:
                self.transport.write(_REFUSAL)
            self.transport.close()

    def on_headers_complete(self) -> None:
        """A head has ended."""
        self._has_moved = True
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """A piece of a body has come."""
        self._has_moved = True
        super().on_body(body)
