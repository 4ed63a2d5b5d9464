"""What an answer says in one turn of the loop is written as one piece, and nothing is lost or held back for long."""

from __future__ import annotations

import asyncio
from typing import Any, cast

from gateway.corked import MOST_BYTES, CorkedProtocol, CorkedTransport


class Wire:
    """A transport that notes what is written."""

    def __init__(self) -> None:
        self.written: list[bytes] = []
        self.closed = False

    def write(self, data: bytes) -> None:
        self.written.append(data)

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed

    def get_extra_info(self, name: str) -> str:
        return name


def with_corked(story: Any) -> Wire:
    """Runs a story with a corked transport; the wire below it."""
    wire = Wire()

    async def run() -> None:
        await story(CorkedTransport(cast("asyncio.Transport", wire), asyncio.get_running_loop()))

    asyncio.run(run())
    return wire


def test_what_is_written_in_one_turn_is_one_piece() -> None:
    async def story(corked: CorkedTransport) -> None:
        corked.write(b"head")
        corked.write(b"body")
        await asyncio.sleep(0)
        corked.write(b"next")
        await asyncio.sleep(0)

    assert with_corked(story).written == [b"headbody", b"next"]


def test_much_is_written_at_once_so_that_the_transport_can_ask_for_a_pause() -> None:
    async def story(corked: CorkedTransport) -> None:
        corked.write(b"head")
        corked.write(b"x" * MOST_BYTES)
        assert len(corked._transport.written) == 1  # type: ignore[attr-defined]
        await asyncio.sleep(0)

    assert with_corked(story).written == [b"head" + b"x" * MOST_BYTES]


def test_closing_writes_what_was_taken() -> None:
    async def story(corked: CorkedTransport) -> None:
        corked.write(b"last")
        corked.close()
        await asyncio.sleep(0)

    wire = with_corked(story)
    assert (wire.written, wire.closed) == ([b"last"], True)


def test_nothing_is_written_to_a_transport_that_closed_meanwhile() -> None:
    async def story(corked: CorkedTransport) -> None:
        corked.write(b"late")
        corked._transport.close()
        await asyncio.sleep(0)

    assert with_corked(story).written == []


def test_everything_else_is_the_real_transport_s() -> None:
    async def story(corked: CorkedTransport) -> None:
        assert corked.get_extra_info("peername") == "peername"

    with_corked(story)


def test_the_protocol_notices_hangups() -> None:
    assert CorkedProtocol.__mro__[1].__name__ == "HangupProtocol"
