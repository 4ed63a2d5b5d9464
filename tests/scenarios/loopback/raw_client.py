"""A client on a bare socket: it sends what no library would, and leaves when it likes."""

from __future__ import annotations

import json
import socket
import struct
from typing import Any
from urllib.parse import urlsplit

_ABORT_AT_ONCE = struct.pack("ii", 1, 0)
CHAT_PATH = "/v1/chat/completions"


class RawClient:
    """One connection. Used as a context manager it is closed at the end."""

    def __init__(self, url: str, receive_buffer: int | None = None) -> None:
        address = urlsplit(url)
        self.host = address.netloc
        self._socket = socket.socket()
        if receive_buffer is not None:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
        self._socket.settimeout(15)
        self._socket.connect((address.hostname, address.port))

    def __enter__(self) -> RawClient:
        return self

    def __exit__(self, *exception: object) -> None:
        self.leave()

    def send(self, data: bytes) -> None:
        """Bytes as they are."""
        self._socket.sendall(data)

    def post(self, body: dict[str, Any] | bytes, path: str = CHAT_PATH, **headers: str) -> None:
        """A whole request; header names with `_` for `-`."""
        sent = body if isinstance(body, bytes) else json.dumps(body).encode()
        named = {"host": self.host, "content-type": "application/json", "content-length": str(len(sent))}
        named |= {name.replace("_", "-"): value for name, value in headers.items()}
        head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
        self.send(f"POST {path} HTTP/1.1\r\n{head}\r\n".encode() + sent)

    def read_until(self, marker: bytes) -> bytes:
        """Everything up to where the marker has been seen, or to the end."""
        seen = b""
        while marker not in seen:
            data = self._socket.recv(65536)
            if not data:
                break
            seen += data
        return seen

    def leave(self, *, rudely: bool = False) -> None:
        """Closes the connection, in order or by a reset."""
        if rudely:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _ABORT_AT_ONCE)
        self._socket.close()
