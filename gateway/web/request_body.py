"""Reads a request body, counted while it is read, also when it comes in chunks or compressed."""

from __future__ import annotations

import zlib

from gateway.errors import ClientCancelled, InvalidRequest, PayloadTooLarge, UnsupportedMediaType
from gateway.web.asgi import Receive

_GZIP_OR_ZLIB = zlib.MAX_WBITS | 32
_JSON_TYPES = ("", "application/json", "text/plain", "text/json")


def require_json(content_type: str) -> None:
    """Raises UnsupportedMediaType for a body that says it is something else than JSON."""
    kind = content_type.partition(";")[0].strip().lower()
    if kind not in _JSON_TYPES and not kind.endswith("+json"):
        raise UnsupportedMediaType("The body must be JSON; send Content-Type: application/json.")


async def read_body(receive: Receive, headers: dict[str, str], max_bytes: int) -> bytes:
    """The body, decompressed. Raises PayloadTooLarge beyond `max_bytes`, ClientCancelled when the client leaves meanwhile."""
    length = headers.get("content-length", "")
    if length.isascii() and length.isdigit() and int(length) > max_bytes:
        raise _too_large(max_bytes)
    message = await receive()
    if message["type"] == "http.disconnect":
        raise ClientCancelled("the client left")
    body: bytes = message.get("body", b"")
    if message.get("more_body"):
        body = await _rest(receive, body, max_bytes)
    if len(body) > max_bytes:
        raise _too_large(max_bytes)
    encoding = headers.get("content-encoding", "").strip().lower()
    return _decompressed(body, encoding, max_bytes) if encoding not in ("", "identity") else body


async def _rest(receive: Receive, start: bytes, max_bytes: int) -> bytes:
    parts, size, more = [start], len(start), True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientCancelled("the client left")
        part = message.get("body", b"")
        size += len(part)
        if size > max_bytes:
            raise _too_large(max_bytes)
        parts.append(part)
        more = bool(message.get("more_body"))
    return b"".join(parts)


def _decompressed(body: bytes, encoding: str, max_bytes: int) -> bytes:
    if encoding not in ("gzip", "x-gzip", "deflate"):
        raise UnsupportedMediaType("The body is compressed in a way that is not known here; send it plain, gzip or deflate.")
    inflater = zlib.decompressobj(_GZIP_OR_ZLIB)
    try:
        out = inflater.decompress(body, max_bytes + 1)
    except zlib.error as error:
        raise InvalidRequest("The body is not what its Content-Encoding says.") from error
    if len(out) > max_bytes:
        raise _too_large(max_bytes)
    if not inflater.eof or inflater.unused_data:
        raise InvalidRequest("The compressed body ends too early, or something follows its end.")
    return out


def _too_large(max_bytes: int) -> PayloadTooLarge:
    return PayloadTooLarge(
        f"The body is larger than {max_bytes} bytes, which is server.max_body_bytes.", metadata={"maxBytes": max_bytes}
    )
