"""A body is read whole or not at all, and never beyond its bound, however it is packed."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib
from collections.abc import Sequence
from typing import Any

import pytest

from gateway.errors import ClientCancelled, InvalidRequest, PayloadTooLarge, UnsupportedMediaType
from gateway.web.request_body import read_body, require_json
from tests.support.rooms import body_message, run

TEXT = b'{"messages":[]}' * 10
LEFT = {"type": "http.disconnect"}


class Sender:
    """Hands over messages, and remembers how many were taken."""

    def __init__(self, messages: Sequence[dict[str, Any]]) -> None:
        self.messages = list(messages)
        self.taken = 0

    async def receive(self) -> Any:
        self.taken += 1
        return self.messages.pop(0)


def read(*messages: dict[str, Any], most: int = 1000, **headers: str) -> bytes:
    return run(read_body(Sender(messages).receive, {name.replace("_", "-"): value for name, value in headers.items()}, most))


def pieces(body: bytes, size: int) -> list[dict[str, Any]]:
    parts = [body[i : i + size] for i in range(0, len(body), size)]
    return [body_message(part, more=number < len(parts) - 1) for number, part in enumerate(parts)]


@pytest.mark.parametrize(
    "content_type",
    [
        "",
        "application/json",
        "Application/JSON; charset=utf-8",
        "text/plain",
        "text/json",
        "application/vnd.api+json",
    ],
)
def test_json_may_say_so_or_nothing(content_type: str) -> None:
    require_json(content_type)


@pytest.mark.parametrize("content_type", ["application/xml", "multipart/form-data; boundary=x", "json", "text/html"])
def test_what_says_it_is_something_else_is_refused(content_type: str) -> None:
    with pytest.raises(UnsupportedMediaType, match="must be JSON"):
        require_json(content_type)


def test_a_body_in_one_piece_or_in_many_is_the_same() -> None:
    assert read(body_message(TEXT)) == TEXT
    assert read(*pieces(TEXT, 7)) == TEXT
    assert read(body_message(b"", more=True), body_message(TEXT, more=True), {"type": "http.request"}) == TEXT
    assert read({"type": "http.request"}) == b""


@pytest.mark.parametrize("size", [10_000, 7])
def test_a_body_is_counted_while_it_is_read(size: int) -> None:
    assert read(*pieces(TEXT, size), most=len(TEXT)) == TEXT
    with pytest.raises(PayloadTooLarge, match=r"larger than 149 bytes, which is server\.max_body_bytes") as caught:
        read(*pieces(TEXT, size), most=len(TEXT) - 1)
    assert caught.value.metadata == {"maxBytes": len(TEXT) - 1}


def test_an_endless_body_is_not_read_to_its_end() -> None:
    sender = Sender([body_message(b"x" * 100, more=True)] * 1000)
    with pytest.raises(PayloadTooLarge):
        run(read_body(sender.receive, {}, 1000))
    assert sender.taken == 11


def test_a_length_beyond_the_bound_is_refused_before_anything_is_read() -> None:
    sender = Sender([])
    with pytest.raises(PayloadTooLarge):
        run(read_body(sender.receive, {"content-length": "1001"}, 1000))
    assert sender.taken == 0


@pytest.mark.parametrize("length", ["150", "abc", "-1", "²", "٣"])
def test_a_length_that_is_none_is_not_believed(length: str) -> None:
    assert read(body_message(TEXT), content_length=length) == TEXT


@pytest.mark.parametrize("before", [[], [body_message(b"{", more=True)]])
def test_a_departure_while_the_body_is_read_is_a_departure(before: list[dict[str, Any]]) -> None:
    with pytest.raises(ClientCancelled):
        read(*before, LEFT)


@pytest.mark.parametrize(
    ("encoding", "packed"),
    [
        ("gzip", gzip.compress(TEXT)),
        ("x-gzip", gzip.compress(TEXT)),
        (" GZIP ", gzip.compress(TEXT)),
        ("deflate", zlib.compress(TEXT)),
        ("identity", TEXT),
        ("", TEXT),
    ],
)
def test_a_packed_body_is_unpacked(encoding: str, packed: bytes) -> None:
    assert read(body_message(packed), content_encoding=encoding) == TEXT
    assert read(*pieces(packed, 5), content_encoding=encoding) == TEXT


def test_the_bound_holds_for_what_comes_out_exactly() -> None:
    packed = body_message(gzip.compress(TEXT))
    assert read(packed, content_encoding="gzip", most=len(TEXT)) == TEXT
    with pytest.raises(PayloadTooLarge):
        read(packed, content_encoding="gzip", most=len(TEXT) - 1)


def test_a_bomb_is_not_unpacked_beyond_the_bound() -> None:
    with pytest.raises(PayloadTooLarge):
        read(body_message(gzip.compress(b" " * 50_000_000)), content_encoding="gzip", most=100_000)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_packed_body_that_is_cut_is_refused(encoding: str) -> None:
    packed = gzip.compress(TEXT) if encoding == "gzip" else zlib.compress(TEXT)
    for cut in (0, 5, len(packed) // 2, len(packed) - 1):
        with pytest.raises(InvalidRequest, match="ends too early"):
            read(body_message(packed[:cut]), content_encoding=encoding)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_body_that_is_not_packed_as_it_says_is_refused(encoding: str) -> None:
    with pytest.raises(InvalidRequest, match="not what its Content-Encoding says"):
        read(body_message(TEXT), content_encoding=encoding)


@pytest.mark.parametrize("encoding", ["br", "zstd", "gzip, gzip", "compress"])
def test_an_unknown_packing_is_refused(encoding: str) -> None:
    with pytest.raises(UnsupportedMediaType, match="send it plain, gzip or deflate"):
        read(body_message(TEXT), content_encoding=encoding)


@pytest.mark.parametrize("after", [b"\0", b"{}", gzip.compress(b"{}")])
def test_nothing_may_follow_a_compressed_body(after: bytes) -> None:
    with pytest.raises(InvalidRequest):
        read(body_message(gzip.compress(TEXT) + after), content_encoding="gzip")


def test_a_body_that_unpacks_to_a_thousand_times_its_size_takes_no_more_memory_than_is_allowed() -> None:
    most, bomb = 100_000, zlib.compress(bytes(100_000_000))
    tracemalloc.start()
    try:
        with pytest.raises(PayloadTooLarge):
            read(body_message(bomb), most=most, content_encoding="deflate")
        assert tracemalloc.get_traced_memory()[1] < 5 * most
    finally:
        tracemalloc.stop()
