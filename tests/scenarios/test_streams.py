"""Streams as providers really send them: every spelling becomes a legal stream or a whole answer, every break is told."""

from __future__ import annotations

import gzip
import json
import zlib
from typing import Any

import httpx
import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.errors import checked_answer, checked_error
from tests.scenarios.loopback.running_gateway import RunningGateway
from tests.scenarios.loopback.upstream import Ending, Script, Step, Upstream
from tests.support.legal_stream import legal_events, require_legal

SHORT = [{"role": "user", "content": "Name three rivers."}]
PIECES = ("The Nile, ", "die Größe 🌊, ", '"data: [DONE]"')
TEXT = "".join(PIECES)
PROMISED_S = 3.0  # the contract says one second; the rest is for a busy machine
TOO_MUCH = 17 * 1024 * 1024


def chunk(text: str, reason: str | None = None, index: int = 0) -> bytes:
    """The JSON of a chunk."""
    choice = {"index": index, "delta": {"content": text}, "finish_reason": reason}
    return json.dumps({**replies.CREATED, "object": "chat.completion.chunk", "choices": [choice]}, ensure_ascii=False).encode()


USAGE = json.dumps({**replies.CREATED, "object": "chat.completion.chunk", "choices": [], "usage": replies.USAGE}).encode()
DATA = [*map(chunk, PIECES), chunk("", "stop"), USAGE]


def events(data: list[bytes], *, before: bytes = b"", after: bytes = b"\n\n") -> bytes:
    """Events of that data, each with something before and after it."""
    return b"".join(before + b"data: " + item + after for item in data)


def body(content: bytes, *, kind: str = "text/event-stream", **headers: str) -> bytes:
    """A whole HTTP answer."""
    return replies.answer(content, **{"content_type": kind, **headers}).replace(b"content_type", b"content-type")


def pieces(content: bytes, size: int) -> bytes:
    """An HTTP answer in chunks of so many bytes."""
    parts = (content[at : at + size] for at in range(0, len(content), size))
    return replies.STREAM_HEAD + b"".join(map(replies.chunked, parts)) + replies.END


DONE = b"data: [DONE]\n\n"
STREAM = events(DATA) + DONE
SPELLINGS: dict[str, bytes] = {
    "as it should be": STREAM,
    "CR LF": STREAM.replace(b"\n", b"\r\n"),
    "CR": STREAM.replace(b"\n", b"\r"),
    "byte order mark": b"\xef\xbb\xbf" + STREAM,
    "no space": STREAM.replace(b"data: {", b"data:{"),
    "comments": events(DATA, before=b": ping - 12:00\n\n: OPENROUTER PROCESSING\n") + DONE,
    "other fields": events(DATA, before=b"id: 7\nevent: message\nretry: 100\n") + DONE,
    "data on several lines": events([item.replace(b', "', b',\ndata: "', 2) for item in DATA]) + DONE,
    "no blank lines": events(DATA, after=b"\n") + DONE,
    "no done": events(DATA),
    "no last line end": events(DATA) + b"data: [DONE]",
    "something after done": STREAM + STREAM,
    "events without choices": events([b'{"type": "ping"}', b"{}", b'"ok"', b""]) + STREAM,
    "empty errors": events([item[:-1] + b', "error": null}' for item in DATA]) + DONE,
    "lines of json": b"\n".join(DATA) + b"\n",
}
SHAPES: dict[str, bytes] = {name: pieces(stream, 4096) for name, stream in SPELLINGS.items()} | {
    "single bytes": pieces(STREAM, 1),
    "seven bytes": pieces(SPELLINGS["CR LF"], 7),
    "gzip": body(gzip.compress(STREAM), content_encoding="gzip").replace(b"content_encoding", b"content-encoding"),
    "gzip in pieces": pieces(gzip.compress(STREAM), 11).replace(b"\r\n", b"\r\ncontent-encoding: gzip\r\n", 1),
    "deflate": pieces(zlib.compress(STREAM), 11).replace(b"\r\n", b"\r\ncontent-encoding: deflate\r\n", 1),
    "a whole completion": replies.plain(TEXT),
    "a whole completion after blanks": pieces(b" \r\n\n" + replies.completion(TEXT), 2),
}


def asked(gateway: RunningGateway, script: Script, chat_id: str, *, stream: bool) -> httpx.Response:
    """The answer to a small request of a chat."""
    return gateway.post({"model": script.model, "messages": SHORT, "stream": stream, "contextShift": {"chatId": chat_id}})


def text_of(chunks: list[Any], index: int = 0) -> str:
    """What a choice says."""
    choices = [choice for item in chunks for choice in item["choices"] if choice["index"] == index]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


@pytest.mark.parametrize("answer", SHAPES.values(), ids=SHAPES)
def test_every_spelling_of_an_answer_becomes_what_was_asked_for(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, answer: bytes
) -> None:
    script = upstream.script(answer, Ending.CLOSE)
    streamed = asked(gateway, script, chat_id, stream=True)
    assert (streamed.status_code, streamed.headers["content-type"]) == (200, "text/event-stream")
    chunks = require_legal(streamed.content)
    assert text_of(chunks) == TEXT
    assert [item["usage"] for item in chunks if item.get("usage")] == [replies.USAGE]
    audit = gateway.ended_audit(chat_id)
    assert (audit["status"], audit["finishReason"], audit["usage"]) == ("completed", "stop", replies.USAGE)
    plain = asked(gateway, script, chat_id, stream=False)
    assert (plain.status_code, plain.headers["content-type"]) == (200, "application/json")
    (choice,) = plain.json()["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == (TEXT, "stop")
    assert plain.json()["usage"] == replies.USAGE


@pytest.mark.parametrize("name", ["as it should be", "CR LF", "no space"])
def test_a_legal_stream_keeps_its_bytes(gateway: RunningGateway, upstream: Upstream, chat_id: str, name: str) -> None:
    script = upstream.script(pieces(SPELLINGS[name], 13))
    assert asked(gateway, script, chat_id, stream=True).content == SPELLINGS[name]


def called(index: int, arguments: str, **first: Any) -> bytes:
    """A part of a tool call of choice 1."""
    call = {"index": index, **first, "function": {**({"name": "rain"} if first else {}), "arguments": arguments}}
    delta = {"choices": [{"index": 1, "delta": {"tool_calls": [call]}, "finish_reason": None}]}
    return json.dumps({**replies.CREATED, **delta}).encode()


def test_choices_and_tool_calls_in_turns_stay_apart(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    parts = [called(0, '{"ci', id="call_a"), chunk("a"), called(1, "", id="call_b"), called(0, 'ty": "Köln"}'), chunk("b")]
    stream = events([*parts, called(1, "{}"), chunk("", "tool_calls", 1), chunk("", "stop"), USAGE]) + DONE
    script = upstream.script(pieces(stream, 17))
    assert asked(gateway, script, chat_id, stream=True).content == stream
    first, second = asked(gateway, script, chat_id, stream=False).json()["choices"]
    assert first["message"]["content"] == "ab"
    calls = [(call["id"], call["function"]) for call in second["message"]["tool_calls"]]
    assert calls == [
        ("call_a", {"name": "rain", "arguments": '{"city": "Köln"}'}),
        ("call_b", {"name": "rain", "arguments": "{}"}),
    ]


FIRST = replies.chunked(events([chunk(PIECES[0])]))
LIMITED = {"message": "slow down", "code": 429}
ERRORS: dict[str, tuple[bytes, str]] = {
    "error object": (events([json.dumps({"error": LIMITED}).encode()]), "PROVIDER_RATE_LIMIT"),
    "error beside choices": (events([json.dumps({"choices": [], "error": LIMITED}).encode()]), "PROVIDER_RATE_LIMIT"),
    "error in a choice": (
        events([json.dumps({"choices": [{"index": 0, "finish_reason": "error", "error": LIMITED}]}).encode()]),
        "PROVIDER_RATE_LIMIT",
    ),
    "error that is a text": (events([b'{"error": "too bad"}']), "PROVIDER_STREAM_ERROR"),
    "named event": (b"event: error\n" + events([json.dumps(LIMITED).encode()]), "PROVIDER_RATE_LIMIT"),
    "field of that name": (b"error: " + json.dumps(LIMITED).encode() + b"\n\n", "PROVIDER_RATE_LIMIT"),
    "damaged json": (events([b'{"choices": [{"index"']), "PROVIDER_STREAM_ERROR"),
    "end without finish_reason": (events([chunk(PIECES[1])]), "PROVIDER_STREAM_TRUNCATED"),
    "done without finish_reason": (DONE, "PROVIDER_STREAM_TRUNCATED"),
}


def require_broken(response: httpx.Response, code: str) -> None:
    """Fails unless a stream tells its break after what had come, legally."""
    chunks = require_legal(response.content, error=True)
    assert text_of(chunks).startswith(PIECES[0])
    *_, error, _ = legal_events(response.content)
    assert checked_error(error)["code"] == code


@pytest.mark.parametrize(("event", "code"), ERRORS.values(), ids=ERRORS)
def test_an_error_in_the_middle_is_told_once_and_last(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, event: bytes, code: str
) -> None:
    script = upstream.script(replies.STREAM_HEAD, FIRST, replies.chunked(event), replies.END)
    require_broken(asked(gateway, script, chat_id, stream=True), code)
    assert gateway.ended_audit(chat_id)["errorCode"] == code
    plain = asked(gateway, script, chat_id, stream=False)
    error = checked_answer(plain.status_code, plain.headers, plain.json())
    assert error["code"] == {"PROVIDER_STREAM_ERROR": "PROVIDER_SERVER_ERROR"}.get(code, error["code"])
    assert error["code"] not in ("PROVIDER_STREAM_ERROR", "PROVIDER_STREAM_TRUNCATED")


@pytest.mark.parametrize(("event", "code"), ERRORS.values(), ids=ERRORS)
def test_an_error_as_the_first_event_is_a_plain_answer(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, event: bytes, code: str
) -> None:
    if code == "PROVIDER_STREAM_TRUNCATED":
        event = b""
    script = upstream.script(replies.STREAM_HEAD, replies.chunked(b": wait\n\n" + event) + replies.END)
    response = asked(gateway, script, chat_id, stream=True)
    error = checked_answer(response.status_code, response.headers, response.json())
    assert error["code"] == code or code.startswith("PROVIDER_STREAM")
    assert not error["code"].startswith("PROVIDER_STREAM")


ZIPPED = gzip.compress(events([chunk(word) for word in (PIECES[0], *map(str, range(400)))]))[:-400]
BREAKS: dict[str, tuple[Step, ...]] = {
    "chunked": (replies.STREAM_HEAD, FIRST, 0.1, Ending.CLOSE),
    "within a chunk": (replies.STREAM_HEAD, FIRST, b"ff\r\ndata: {", 0.1, Ending.CLOSE),
    "reset": (replies.STREAM_HEAD, FIRST, 0.2, Ending.RESET),
    "short": (b"HTTP/1.1 200 OK\r\ncontent-length: 9999\r\n\r\n", events([chunk(PIECES[0])]), 0.1, Ending.CLOSE),
    "gzip": (pieces(ZIPPED, 300).replace(b"\r\n", b"\r\ncontent-encoding: gzip\r\n", 1),),
    "without a length": (b"HTTP/1.1 200 OK\r\nconnection: close\r\n\r\n", events([chunk(PIECES[0])]), 0.1, Ending.CLOSE),
}


@pytest.mark.parametrize("steps", BREAKS.values(), ids=BREAKS)
def test_a_stream_that_breaks_off_is_truncated(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, steps: tuple[Step, ...]
) -> None:
    script = upstream.script(*steps)
    require_broken(asked(gateway, script, chat_id, stream=True), "PROVIDER_STREAM_TRUNCATED")
    audit = gateway.ended_audit(chat_id)
    assert (audit["status"], audit["errorCode"]) == ("failed", "PROVIDER_STREAM_TRUNCATED")
    plain = asked(gateway, script, chat_id, stream=False)
    checked_answer(plain.status_code, plain.headers, plain.json())
    assert plain.status_code == 502


@pytest.mark.parametrize(
    "answer",
    [
        body(b"<html>busy</html>", kind="text/html"),
        body(b"internal error", kind="text/plain"),
        body(b""),
        pieces(STREAM, 4096).replace(b"\r\n", b"\r\ncontent-encoding: br\r\n", 1),
        pieces(b"\x1f\x8b" + STREAM, 4096).replace(b"\r\n", b"\r\ncontent-encoding: gzip\r\n", 1),
        pieces(events([b'{"choices": null}', b"1"]), 4096),
    ],
    ids=["page", "text", "nothing", "br", "damaged gzip", "no choices"],
)
@pytest.mark.parametrize("stream", [False, True])
def test_what_is_no_answer_is_told_as_such(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, answer: bytes, stream: bool
) -> None:
    response = asked(gateway, upstream.script(answer, Ending.CLOSE), chat_id, stream=stream)
    assert checked_answer(response.status_code, response.headers, response.json())["code"] == "PROVIDER_INVALID_RESPONSE"
    assert response.status_code == 502


ENDLESS = {"data": b"data: " + b"x" * TOO_MUCH, "comment": b":" * TOO_MUCH, "lines": b":\n" * (TOO_MUCH // 2)}


@pytest.mark.parametrize("event", ENDLESS.values(), ids=ENDLESS)
def test_an_endless_event_is_given_up(gateway: RunningGateway, upstream: Upstream, chat_id: str, event: bytes) -> None:
    endless = replies.chunked(event)
    script = upstream.script(replies.STREAM_HEAD, endless, then=(replies.STREAM_HEAD, FIRST, 0.1, endless))
    response = asked(gateway, script, chat_id, stream=True)
    assert checked_answer(response.status_code, response.headers, response.json())["code"] == "PROVIDER_INVALID_RESPONSE"
    require_broken(asked(gateway, script, chat_id, stream=True), "PROVIDER_INVALID_RESPONSE")
    assert all(call.gone.wait(PROMISED_S) for call in script.calls)
