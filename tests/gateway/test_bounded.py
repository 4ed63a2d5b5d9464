"""A head, and what follows a body in chunks, may be only so long; a body may be as long as it likes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from gateway.bounded import MOST_HEAD_BYTES, BoundedProtocol

LINE = b"GET / HTTP/1.1\r\n"
CHUNKED = b"POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n"


class Wire:
    """A transport that notes what is written."""

    def __init__(self) -> None:
        self.written = b""
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str) -> None:
        return None

    def pause_reading(self) -> None:
        """Nothing more is wanted."""

    def resume_reading(self) -> None:
        """More is wanted."""


async def swallow(scope: Any, receive: Any, send: Any) -> None:
    """Takes a body to its end and answers."""
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def told(pieces: Sequence[bytes]) -> Wire:
    """What is written to a client that sends these pieces, one after the other."""
    wire = Wire()

    async def story() -> None:
        config = uvicorn.Config(swallow, http=BoundedProtocol, ws="none", lifespan="off", log_config=None, access_log=False)
        config.load()
        protocol = BoundedProtocol(config, ServerState(), {})
        protocol.connection_made(wire)  # type: ignore[arg-type]
        for piece in pieces:
            if not wire.closed:
                protocol.data_received(piece)
            for _ in range(5):
                await asyncio.sleep(0)
        protocol.connection_lost(None)

    asyncio.run(story())
    return wire


def in_pieces(data: bytes, size: int = 8192) -> Iterator[bytes]:
    """The data as a socket would hand it over."""
    return (data[start : start + size] for start in range(0, len(data), size))


def header(length: int) -> bytes:
    """A header line of so many bytes."""
    return b"x: " + b"a" * (length - 5) + b"\r\n"


FLOODS = {
    "a header without end": LINE + b"x: " + b"a" * 200_000,
    "headers without end": LINE + header(100) * 2000,
    "a URL without end": b"GET /" + b"a" * 200_000,
    "a method without end": b"G" * 8192 * 25,
}


@pytest.mark.parametrize("flood", FLOODS.values(), ids=FLOODS)
def test_a_head_without_end_is_refused(flood: bytes) -> None:
    wire = told(list(in_pieces(flood)))
    assert wire.written.startswith((b"HTTP/1.1 431 ", b"HTTP/1.1 400 "))
    assert wire.written.count(b"HTTP/1.1") == 1
    assert wire.closed


@pytest.mark.parametrize("size", [1000, 8192, 300_000])
def test_a_head_that_is_just_small_enough_is_read(size: int) -> None:
    head = LINE + header(MOST_HEAD_BYTES - len(LINE) - 2) + b"\r\n"
    assert len(head) == MOST_HEAD_BYTES
    assert told(list(in_pieces(head, size))).written.startswith(b"HTTP/1.1 204 ")


def test_every_head_of_a_connection_is_bounded_for_itself() -> None:
    head = LINE + header(40_000) + b"\r\n"
    assert told(list(in_pieces(head * 3))).written.count(b"HTTP/1.1 204 ") == 3


def test_a_body_is_not_bounded_here() -> None:
    plain = b"POST / HTTP/1.1\r\ncontent-length: 300000\r\n\r\n" + b"a" * 300_000
    in_chunks = CHUNKED + b"fa0\r\n%b\r\n" % (b"a" * 4000) * 75 + b"0\r\n\r\n"
    for request in (plain, in_chunks):
        assert told(list(in_pieces(request))).written.startswith(b"HTTP/1.1 204 ")


def test_what_follows_a_body_in_chunks_is_bounded_too() -> None:
    wire = told([CHUNKED, b"1\r\na\r\n0\r\n", *in_pieces(header(100) * 2000)])
    assert (wire.written, wire.closed) == (b"", True)


def test_a_refusal_closes_once_whatever_comes_then() -> None:
    assert told([b"GET /" + b"a" * 100_000, b"a" * 100_000]).written.count(b"431") == 1
