"""What must not come in: every refusal has its code, its JSON path and a request id, and the next good request works."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.scenarios.conftest import MAX_BODY_BYTES
from tests.scenarios.loopback import replies
from tests.scenarios.loopback.errors import checked_answer
from tests.scenarios.loopback.raw_client import RawClient
from tests.scenarios.loopback.running_gateway import RunningGateway
from tests.scenarios.loopback.upstream import Script, Upstream

PATH = "/v1/chat/completions"
USER = {"role": "user", "content": "hi"}
GOOD = b'"model": "small-bad", "messages": [{"role": "user", "content": "hi"}]'


def nested(depth: int) -> bytes:
    """A list in a list in a list."""
    return b"[" * depth + b"]" * depth


BROKEN_JSON: dict[str, bytes] = {
    "empty body": b"",
    "no object": b"[]",
    "a text": b'"messages"',
    "null": b"null",
    "cut off": b"{" + GOOD,
    "trailing text": b"{" + GOOD + b"} x",
    "single quotes": b"{'model': 'small'}",
    "byte order mark": b"\xef\xbb\xbf{" + GOOD + b"}",
    "invalid UTF-8": b"{" + GOOD.replace(b"hi", b"h\xff\xfei") + b"}",
    "half a surrogate": b"{" + GOOD.replace(b"hi", b"\\ud83d") + b"}",
    "NaN": b"{" + GOOD + b', "temperature": NaN}',
    "Infinity in a message": b"{" + GOOD.replace(b'"hi"', b'"hi", "x": -Infinity') + b"}",
    "repeated key": b"{" + GOOD + b', "model": "small-worse"}',
    "repeated key, escaped": b"{" + GOOD + b', "mode\\u006c": "small-worse"}',
    "repeated key in a message": b"{" + GOOD.replace(b'"content"', b'"content": "a", "content"') + b"}",
    "repeated key far inside": b"{" + GOOD + b', "metadata": {"a": [{"b": 1, "b": 2}]}}',
    "depth 400": b"{" + GOOD + b', "x": ' + nested(400) + b"}",
    "depth 129": b"{" + GOOD + b', "x": ' + nested(128) + b"}",
    "depth 400 in a message": b"{" + GOOD.replace(b'"hi"', b'"hi", "x": ' + nested(400)) + b"}",
    "depth 60000": b"{" + GOOD + b', "x": ' + nested(60_000) + b"}",
}

WRONG_VALUES: list[tuple[str, dict[str, Any], str]] = [
    ("no messages", {"messages": None}, "messages"),
    ("empty messages", {"messages": []}, "messages"),
    ("messages are a text", {"messages": "hi"}, "messages"),
    ("a message is a text", {"messages": [USER, "hi"]}, "messages[1]"),
    ("a message is a list", {"messages": [[]]}, "messages[0]"),
    ("a role is a number", {"messages": [{"role": 7, "content": "hi"}]}, "messages[0].role"),
    ("meta is a list", {"messages": [USER, {**USER, "meta": []}]}, "messages[1].meta"),
    ("pinned is a text", {"messages": [{**USER, "meta": {"pinned": "yes"}}]}, "messages[0].meta.pinned"),
    ("pinned is a number", {"messages": [{**USER, "pinned": 1}]}, "messages[0].pinned"),
    ("an unknown kind", {"messages": [{**USER, "meta": {"kind": "poem"}}]}, "messages[0].meta.kind"),
    ("relevance is a text", {"messages": [{**USER, "meta": {"relevance": "high"}}]}, "messages[0].meta.relevance"),
    (
        "a part's mark",
        {"messages": [{"role": "user", "content": [{"type": "text", "text": "a", "meta": {"required": 0}}]}]},
        "messages[0].content[0].meta.required",
    ),
    ("no model", {"model": None}, "model"),
    ("model is a number", {"model": 4}, "model"),
    ("empty model", {"model": ""}, "model"),
    ("stream is a text", {"stream": "yes"}, "stream"),
    ("max_tokens 0", {"max_tokens": 0}, "max_tokens"),
    ("max_tokens -1", {"max_tokens": -1}, "max_tokens"),
    ("max_tokens 1.5", {"max_tokens": 1.5}, "max_tokens"),
    ("max_completion_tokens a text", {"max_completion_tokens": "many"}, "max_completion_tokens"),
    ("contextShift is a text", {"contextShift": "on"}, "contextShift"),
    ("an unknown strategy", {"contextStrategy": "magic"}, "contextStrategy"),
    ("strategy is a number", {"contextStrategy": 5}, "contextStrategy"),
    ("empty chat id", {"contextShift": {"chatId": ""}}, "contextShift.chatId"),
    ("chat id too long", {"contextShift": {"chatId": "x" * 257}}, "contextShift.chatId"),
    ("chat id with a line end", {"contextShift": {"chatId": "a\nb"}}, "contextShift.chatId"),
    ("reserve 0", {"contextShift": {"replyReserve": 0}}, "contextShift.replyReserve"),
    ("limit is a text", {"contextShift": {"contextLimit": "large"}}, "contextShift.contextLimit"),
    ("an unknown report", {"contextShift": {"report": "loud"}}, "contextShift.report"),
    ("an unknown purpose", {"contextShift": {"purpose": "fun"}}, "contextShift.purpose"),
    ("marks are an object", {"contextShift": {"marks": {}}}, "contextShift.marks"),
    ("a mark without a place", {"contextShift": {"marks": [{"pinned": True}]}}, "contextShift.marks[0]"),
    ("a mark at a text", {"contextShift": {"marks": [{"index": "1", "pinned": True}]}}, "contextShift.marks[0].index"),
    ("a range of one", {"contextShift": {"marks": [{"range": [1], "pinned": True}]}}, "contextShift.marks[0].range"),
]


@pytest.fixture
def script(gateway: RunningGateway, upstream: Upstream) -> Iterator[Script]:
    """Nothing bad reaches the provider; afterwards a good request works."""
    script = upstream.script(replies.plain(), model="small-bad")
    yield script
    assert script.calls == []
    answer = gateway.http.post(PATH, content=b"{" + GOOD + b"}")
    assert (answer.status_code, len(script.calls)) == (200, 1)


def refused(response: httpx.Response, status: int, code: str) -> dict[str, Any]:
    """The error of an answer with this status and code."""
    error = checked_answer(response.status_code, response.headers, response.json())
    assert (response.status_code, error["code"]) == (status, code)
    return error


@pytest.mark.parametrize("body", BROKEN_JSON.values(), ids=BROKEN_JSON)
def test_what_is_no_strict_json_is_refused(gateway: RunningGateway, script: Script, body: bytes) -> None:
    for path in (PATH, "/api/v2/context-preview"):
        refused(gateway.http.post(path, content=body), 400, "INVALID_REQUEST")


@pytest.mark.parametrize(("fields", "param"), [case[1:] for case in WRONG_VALUES], ids=[case[0] for case in WRONG_VALUES])
def test_a_wrong_value_is_refused_with_its_path(
    gateway: RunningGateway, script: Script, fields: dict[str, Any], param: str
) -> None:
    for path in (PATH, "/api/v2/context-preview"):
        response = gateway.http.post(path, json={"model": script.model, "messages": [USER], **fields})
        assert refused(response, 400, "INVALID_REQUEST")["param"] == param


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("X-Context-Reply-Reserve", "many"),
        ("X-Context-Pin", "first"),
        ("X-Context-Exclude", "1...2"),
        ("X-Context-Report", "loud"),
        ("X-Context-Chat-Id", "x" * 257),
        ("X-Context-Strategy", "magic"),
    ],
)
def test_a_wrong_header_is_refused(gateway: RunningGateway, script: Script, header: str, value: str) -> None:
    body = {"model": script.model, "messages": [USER]}
    refused(gateway.http.post(PATH, json=body, headers={header: value}), 400, "INVALID_REQUEST")


def test_an_unknown_strategy_is_refused_with_the_known_ones(gateway: RunningGateway, script: Script) -> None:
    response = gateway.post({"model": script.model, "messages": [USER], "contextStrategy": "magic"})
    assert "truncate" in refused(response, 400, "INVALID_REQUEST")["message"]


def test_an_unknown_model_is_not_found(gateway: RunningGateway, script: Script) -> None:
    error = refused(gateway.post({"model": "large", "messages": [USER]}), 404, "MODEL_NOT_FOUND")
    assert error["param"] == "model"


@pytest.mark.parametrize("method", ["GET", "PUT", "DELETE", "PATCH"])
@pytest.mark.parametrize("path", [PATH, "/chat/completions"])
def test_another_method_is_not_allowed(gateway: RunningGateway, script: Script, method: str, path: str) -> None:
    refused(gateway.http.request(method, path), 405, "METHOD_NOT_ALLOWED")


def test_another_path_is_not_found(gateway: RunningGateway, script: Script) -> None:
    refused(gateway.http.get("/nowhere"), 404, "NOT_FOUND")


@pytest.mark.parametrize("kind", ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "application/xml"])
def test_another_content_type_is_not_supported(gateway: RunningGateway, script: Script, kind: str) -> None:
    response = gateway.http.post(PATH, content=b"{" + GOOD + b"}", headers={"content-type": kind})
    refused(response, 415, "UNSUPPORTED_MEDIA_TYPE")


@pytest.mark.parametrize("encoding", ["br", "gzip, gzip", "zstd"])
def test_another_compression_is_not_supported(gateway: RunningGateway, script: Script, encoding: str) -> None:
    response = gateway.http.post(PATH, content=b"{" + GOOD + b"}", headers={"content-encoding": encoding})
    refused(response, 415, "UNSUPPORTED_MEDIA_TYPE")


def too_long() -> bytes:
    """A body a little over what is allowed."""
    return b"{" + GOOD + b', "x": "' + b"x" * MAX_BODY_BYTES + b'"}'


def test_a_body_too_large_is_refused(gateway: RunningGateway, script: Script) -> None:
    assert (
        refused(gateway.http.post(PATH, content=too_long()), 413, "PAYLOAD_TOO_LARGE")["metadata"]["maxBytes"] == MAX_BODY_BYTES
    )


def test_a_body_too_large_is_refused_by_its_length_before_it_comes(gateway: RunningGateway, script: Script) -> None:
    with RawClient(gateway.url) as client:
        client.send(f"POST {PATH} HTTP/1.1\r\nhost: {client.host}\r\ncontent-length: 99999999999\r\n\r\n".encode())
        answer = client.read_until(b"PAYLOAD_TOO_LARGE")
    assert answer.startswith(b"HTTP/1.1 413 ")
    assert b"x-request-id: " in answer


def test_a_body_in_chunks_is_counted_while_it_is_read(gateway: RunningGateway, script: Script) -> None:
    response = gateway.http.post(PATH, content=(too_long()[start : start + 5000] for start in range(0, len(too_long()), 5000)))
    refused(response, 413, "PAYLOAD_TOO_LARGE")


def test_an_endless_body_is_refused_before_its_end(gateway: RunningGateway, script: Script) -> None:
    with RawClient(gateway.url) as client:
        client.send(f"POST {PATH} HTTP/1.1\r\nhost: {client.host}\r\ntransfer-encoding: chunked\r\n\r\n".encode())
        client.send(replies.chunked(b"x" * 50_000) * (MAX_BODY_BYTES // 50_000 + 1))
        answer = client.read_until(b"PAYLOAD_TOO_LARGE")
    assert answer.startswith(b"HTTP/1.1 413 ")


@pytest.mark.parametrize(("encoding", "pack"), [("gzip", gzip.compress), ("deflate", zlib.compress)])
def test_a_small_body_that_unpacks_to_a_large_one_is_refused(
    gateway: RunningGateway, script: Script, encoding: str, pack: Any
) -> None:
    bomb = pack(b"{" + GOOD + b', "x": "' + b"x" * 50_000_000 + b'"}')
    assert len(bomb) < MAX_BODY_BYTES
    response = gateway.http.post(PATH, content=bomb, headers={"content-encoding": encoding})
    refused(response, 413, "PAYLOAD_TOO_LARGE")


def test_a_compressed_body_that_is_broken_is_refused(gateway: RunningGateway, script: Script) -> None:
    packed = gzip.compress(b"{" + GOOD + b"}")
    for body in (packed[:-10], b"not compressed", b""):
        refused(gateway.http.post(PATH, content=body, headers={"content-encoding": "gzip"}), 400, "INVALID_REQUEST")


def test_a_compressed_body_is_read(gateway: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.plain())
    body = json.dumps({"model": script.model, "messages": [USER]}).encode()
    response = gateway.http.post(PATH, content=gzip.compress(body), headers={"content-encoding": "gzip"})
    assert response.status_code == 200
    assert script.arrival().body == body


@pytest.mark.parametrize("raw", [b"nonsense\r\n\r\n", b"GET / HTTP/1.1\r\nhost\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n"])
def test_what_is_no_http_does_no_harm(gateway: RunningGateway, script: Script, raw: bytes) -> None:
    with RawClient(gateway.url) as client:
        client.send(raw)
        assert client.read_until(b"\r\n\r\n").startswith((b"HTTP/1.1 400 ", b""))
