"""Connections on both sides: used again, used for several requests at once, closed at awkward moments."""

from __future__ import annotations

import json
import socket
import struct

import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.raw_client import CHAT_PATH, RawClient
from tests.scenarios.loopback.running_gateway import RunningGateway
from tests.scenarios.loopback.upstream import Ending, Upstream

DATA_SEGMENTS_IN = struct.Struct("I").size * 38  # where the system's TCP_INFO tells it
SHORT = [{"role": "user", "content": "Name three rivers."}]


def test_one_connection_serves_plain_and_streamed_answers_in_turn(gateway: RunningGateway, upstream: Upstream) -> None:
    plain, streamed = upstream.script(replies.plain()), upstream.script(replies.stream())
    with RawClient(gateway.url) as client:
        for _ in range(5):
            client.post({"model": plain.model, "messages": SHORT})
            assert b"HTTP/1.1 200" in client.read_until(b"}}")
            client.post({"model": streamed.model, "messages": SHORT, "stream": True})
            assert b"HTTP/1.1 200" in client.read_until(b"0\r\n\r\n")
    assert len(plain.calls) == len(streamed.calls) == 5


def test_requests_sent_ahead_are_answered_in_order(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    scripts = [upstream.script(0.1, replies.plain(f"reply {number}")) for number in range(3)]
    with RawClient(gateway.url) as client:
        for number, script in enumerate(scripts):
            chat = {"chatId": f"{chat_id}-{number}"}
            client.post({"model": script.model, "messages": SHORT, "contextShift": chat})
        answers = client.read_until(b"reply 2")
    assert answers.count(b"HTTP/1.1 200") == 3
    assert [answers.index(f"reply {number}".encode()) for number in range(3)] == sorted(
        answers.index(f"reply {number}".encode()) for number in range(3)
    )
    assert [gateway.ended_audit(f"{chat_id}-{number}")["status"] for number in range(3)] == ["completed"] * 3


def test_a_provider_that_closes_idle_connections_is_no_error(gateway: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.plain(), Ending.CLOSE)
    statuses = [gateway.post({"model": script.model, "messages": SHORT}).status_code for _ in range(20)]
    assert statuses == [200] * 20
    assert len(script.calls) == 20


def test_a_client_that_leaves_in_the_middle_of_its_body_starts_nothing(
    gateway: RunningGateway, upstream: Upstream, chat_id: str
) -> None:
    script = upstream.script(replies.plain())
    body = json.dumps({"model": script.model, "messages": SHORT, "contextShift": {"chatId": chat_id}}).encode()
    with RawClient(gateway.url) as client:
        head = f"POST {CHAT_PATH} HTTP/1.1\r\nhost: {client.host}\r\ncontent-length: {len(body)}\r\n\r\n"
        client.send(head.encode() + body[:-5])
    with RawClient(gateway.url) as client:
        client.send(f"POST {CHAT_PATH} HTTP/1.1\r\nhost: {client.host}\r\ntransfer-encoding: chunked\r\n\r\n".encode())
        client.send(replies.chunked(body))
        client.leave(rudely=True)
    assert gateway.post({"model": script.model, "messages": SHORT}).status_code == 200
    assert len(script.calls) == 1
    assert gateway.audit(chat_id) is None


def test_a_body_in_many_small_pieces_is_one_request(gateway: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.plain())
    body = json.dumps({"model": script.model, "messages": SHORT}).encode()
    response = gateway.http.post(CHAT_PATH, content=(body[i : i + 7] for i in range(0, len(body), 7)))
    assert response.status_code == 200
    assert script.arrival().body == body


def test_a_stream_in_many_small_pieces_arrives_whole(gateway: RunningGateway, upstream: Upstream) -> None:
    body = 'data: {"choices":[{"index":0,"delta":{"content":"Größe 🌊"}}]}\n\n'.encode()
    body += b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'
    pieces = b"".join(replies.chunked(body[i : i + 1]) for i in range(len(body)))
    script = upstream.script(replies.STREAM_HEAD, pieces, replies.END)
    response = gateway.post({"model": script.model, "messages": SHORT, "stream": True})
    assert response.content == body


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_the_head_of_an_answer_and_its_first_bytes_are_one_write(
    gateway: RunningGateway, upstream: Upstream, stream: bool
) -> None:
    first = (replies.STREAM_HEAD, replies.piece("The Nile"), upstream.gate())
    script = upstream.script(*first) if stream else upstream.script(replies.plain())
    with RawClient(gateway.url) as client:
        client.post({"model": script.model, "messages": SHORT, "stream": stream})
        assert b"Nile" in client.read_until(b"Nile")
        info = client._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    assert struct.unpack_from("I", info, DATA_SEGMENTS_IN) == (1,)
