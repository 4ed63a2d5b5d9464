"""The few ASGI moves every endpoint needs. Knows nothing of chats, errors or audits."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from typing import Any

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
Headers = list[tuple[bytes, bytes]] | tuple[tuple[bytes, bytes], ...]

JSON = (b"content-type", b"application/json")


async def respond(send: Send, status: int, body: bytes, headers: Iterable[tuple[bytes, bytes]] = ()) -> None:
    """A whole JSON answer (an empty one without a body)."""
    length = (b"content-length", str(len(body)).encode())
    sent = [JSON, length, *headers] if body else list(headers)
    await send({"type": "http.response.start", "status": status, "headers": sent})
    await send({"type": "http.response.body", "body": body})


def lower_headers(scope: Scope) -> dict[str, str]:
    """The request's headers by lower-case name, as text; of repeated ones the last."""
    return {
        name.decode("latin-1"): value.decode("ascii") if value.isascii() else _text(value) for name, value in scope["headers"]
    }


def _text(value: bytes) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        return value.decode("latin-1")
