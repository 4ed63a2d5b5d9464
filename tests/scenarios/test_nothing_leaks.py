"""Secrets in every place of every kind of provider answer: none of them reaches a client, an audit, a metric or the log."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.errors import checked_answer, checked_error
from tests.scenarios.loopback.running_gateway import SMALL, RunningGateway, run_command, write_config
from tests.scenarios.loopback.upstream import Ending, Step, Upstream

MARK = "Planted7"
KEY = "sk-of-the-gateway"  # the api_key of the shared gateway
SHORT = [{"role": "user", "content": "Name three rivers."}]
STATUSES = [302, 307, 400, 401, 402, 403, 404, 408, 413, 418, 422, 424, 429, 500, 502, 503, 504, 529]


def secret(where: str) -> str:
    """A secret that tells where it was planted; a careless provider repeats our key beside it."""
    return f"{MARK}-{where} Bearer {KEY} http://user:{MARK}@inner.test/{where}"


def planted_error(**more: Any) -> dict[str, Any]:
    """An error with a secret in every string that an error may hold, and in a key."""
    names = ("message", "type", "param", "code", "status", "reason", "error_type", "quotaId", "blockReason")
    error: dict[str, Any] = {name: secret(name) for name in names}
    error[secret("key")] = secret("value")
    error["details"] = [{"reason": secret("details"), "retryDelay": secret("delay"), "loc": [secret("loc")]}]
    error["metadata"] = {"raw": json.dumps({"error": {"message": secret("raw")}}), "headers": {"x-key": secret("header")}}
    error["innererror"] = {"code": secret("inner")}
    return {"error": {**error, **more}, "request_id": secret("request"), "detail": secret("detail")}


def planted_answer(status: int, body: bytes, *, kind: str = "application/json", **headers: str) -> bytes:
    """An HTTP answer with secrets in its status line and headers."""
    named = {"content-type": kind, "content-length": str(len(body)), **headers}
    for name in ("x-request-id", "www-authenticate", "set-cookie", "server", "x-amzn-errortype", "retry-after", "location"):
        named.setdefault(name, secret(name))
    named[f"x-{MARK}"] = secret("named")
    head = "".join(f"{name}: {value}\r\n" for name, value in named.items())
    return f"HTTP/1.1 {status} {secret('phrase')}\r\n{head}\r\n".encode() + body


def dumped(value: object) -> bytes:
    return json.dumps(value).encode()


PAGE = f"<html><title>{secret('title')}</title><script>x = {{'code': '{secret('script')}'}}</script>".encode()
OVERFLOW = f"{secret('before')} maximum context length is 150 tokens. You sent 190 tokens {secret('after')}"
REFUSALS: dict[str, bytes] = {f"status {status}": planted_answer(status, dumped(planted_error())) for status in STATUSES}
REFUSALS |= {
    "page": planted_answer(502, PAGE, kind="text/html"),
    "page in another encoding": planted_answer(400, PAGE.decode().encode("utf-16"), kind="text/html"),
    "text": planted_answer(500, secret("text").encode(), kind="text/plain"),
    "cut json": planted_answer(400, dumped(planted_error())[:-40]),
    "list": planted_answer(400, dumped([planted_error()])),
    "string": planted_answer(400, dumped(json.dumps(planted_error()))),
    "overflow": planted_answer(400, dumped(planted_error(message=OVERFLOW))),
    "overflow by code": planted_answer(400, dumped(planted_error(code="context_length_exceeded"))),
    "content filter": planted_answer(400, dumped(planted_error(code="content_filter"))),
    "rate limit": planted_answer(
        429, dumped(planted_error()), **{"retry-after-ms": secret("ms"), "x-ratelimit-reset": secret("r")}
    ),
    "wait that can be read": planted_answer(429, dumped(planted_error()), **{"retry-after": "7"}),
    "200 with an error": planted_answer(200, dumped(planted_error())),
    "200 that is an error": planted_answer(200, dumped({"object": "error", **planted_error()["error"]})),
    "200 with a broken choice": planted_answer(200, dumped({"choices": [{"finish_reason": "error", **planted_error()}]})),
    "200 without choices": planted_answer(200, dumped({"choices": [], "id": secret("id")})),
    "200 that is a page": planted_answer(200, PAGE, kind="text/html"),
    "200 that is a text": planted_answer(200, secret("text").encode()),
    "200 that is cut": planted_answer(200, replies.completion(secret("content"))[:-60]),
    "odd encoding": planted_answer(200, replies.completion(), **{"content-encoding": secret("encoding")}),
    "damaged compression": planted_answer(200, secret("gzip").encode(), **{"content-encoding": "gzip"}),
    "no http": secret("head").encode() + b"\r\n\r\n",
    "odd status": f"HTTP/1.1 {MARK} {secret('phrase')}\r\n\r\n".encode(),
    "odd header": f"HTTP/1.1 200 OK\r\n{secret('line').replace(':', ' ')}\r\n\r\n".encode(),
    "odd length": f"HTTP/1.1 200 OK\r\ncontent-length: {secret('length')}\r\n\r\n".encode(),
    "odd chunk": replies.STREAM_HEAD + secret("chunk").encode() + b"\r\n",
}


def planted_event(*lines: bytes) -> bytes:
    """One event of these lines, as a chunk of a body."""
    return replies.chunked(b"\n".join(lines) + b"\n\n")


ERROR = dumped(planted_error())
EVENTS: dict[str, bytes] = {
    "error object": planted_event(b"data: " + ERROR),
    "error beside choices": planted_event(b"data: " + dumped({**planted_error(), "choices": [{"finish_reason": "error"}]})),
    "error in a choice": planted_event(
        b"data: " + dumped({"choices": [{"index": 0, "delta": {}, "finish_reason": "error", **planted_error()}]})
    ),
    "rate limit": planted_event(b"data: " + dumped(planted_error(code=429))),
    "overflow": planted_event(b"data: " + dumped(planted_error(message=OVERFLOW))),
    "named error": planted_event(b"event: error", b"data: " + ERROR),
    "named error that is a text": planted_event(b"event: error", b"data: " + secret("text").encode()),
    "error field": planted_event(b"error: " + ERROR),
    "bare json": planted_event(ERROR),
    "error by its object": planted_event(b"data: " + dumped({"object": "error", **planted_error()["error"]})),
    "no json": planted_event(b"data: {" + secret("cut").encode()),
}


def views(gateway: RunningGateway, chat_id: str) -> Iterator[str]:
    """Everything that can be asked of a chat and of the gateway afterwards, and its log."""
    gateway.ended_audit(chat_id)
    for view in ("full", "index", "summary"):
        yield json.dumps(gateway.audit(chat_id, view))
    for path in ("/api/v2/chats", "/metrics", "/readyz", "/v1/models"):
        yield gateway.http.get(path).text
    yield gateway.log.read_text()


def require_nothing_of(secrets: tuple[str, ...], gateway: RunningGateway, response: httpx.Response, chat_id: str) -> None:
    """Fails where a secret is seen: in the answer, its status line and headers, afterwards, or in the log."""
    seen = [response.text, response.reason_phrase, repr(response.headers.raw), *views(gateway, chat_id)]
    for text in seen:
        assert not [name for name in secrets if name.lower() in text.lower()], text[:2000]


def asked(gateway: RunningGateway, model: str, chat_id: str, *, stream: bool) -> httpx.Response:
    """The answer to a small request of a chat."""
    return gateway.post({"model": model, "messages": SHORT, "stream": stream, "contextShift": {"chatId": chat_id}})


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("answer", REFUSALS.values(), ids=REFUSALS)
def test_a_bad_answer_shows_nothing_of_itself(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, answer: bytes, stream: bool
) -> None:
    script = upstream.script(answer, Ending.CLOSE)
    response = asked(gateway, script.model, chat_id, stream=stream)
    error = checked_answer(response.status_code, response.headers, response.json())
    assert error["code"].startswith("PROVIDER_")
    assert script.calls[0].headers["authorization"] == f"Bearer {KEY}"
    require_nothing_of((MARK, KEY), gateway, response, chat_id)


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_an_error_as_the_first_event_shows_nothing_of_itself(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, event: bytes
) -> None:
    for stream in (False, True):
        script = upstream.script(replies.STREAM_HEAD, event, replies.END)
        response = asked(gateway, script.model, chat_id, stream=stream)
        checked_answer(response.status_code, response.headers, response.json())
        require_nothing_of((MARK, KEY), gateway, response, chat_id)


@pytest.mark.parametrize("event", EVENTS.values(), ids=EVENTS)
def test_an_error_in_the_middle_of_a_stream_shows_nothing_of_itself(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, event: bytes
) -> None:
    script = upstream.script(replies.STREAM_HEAD, replies.piece("The Nile"), event, replies.END)
    response = asked(gateway, script.model, chat_id, stream=True)
    *_, last, done, end = response.text.split("\n\n")
    assert (response.status_code, done, end) == (200, "data: [DONE]", "")
    assert "The Nile" in response.text
    assert checked_error(json.loads(last.removeprefix("data: ")))["code"].startswith("PROVIDER_")
    require_nothing_of((MARK, KEY), gateway, response, chat_id)


DAMAGED = {"odd size": secret("size").encode() + b"\r\n", "more than its size": b"2\r\n" + secret("more").encode() + b"\r\n"}


@pytest.mark.parametrize("chunk", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_chunk_in_the_middle_of_a_stream_shows_nothing_of_itself(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, chunk: bytes
) -> None:
    gate = upstream.gate()
    script = upstream.script(replies.STREAM_HEAD, replies.piece("The Nile"), gate, chunk, upstream.gate())
    body = {"model": script.model, "messages": SHORT, "stream": True, "contextShift": {"chatId": chat_id}}
    with gateway.http.stream("POST", "/v1/chat/completions", json=body) as response:
        pieces = response.iter_bytes()
        seen = next(pieces)
        gate.open()
        seen += b"".join(pieces)
    *_, last, done, end = seen.decode().split("\n\n")
    assert (response.status_code, done, end) == (200, "data: [DONE]", "")
    assert checked_error(json.loads(last.removeprefix("data: ")))["code"] == "PROVIDER_STREAM_TRUNCATED"
    whole = httpx.Response(200, headers=response.headers, content=seen, extensions=response.extensions)
    require_nothing_of((MARK, KEY), gateway, whole, chat_id)


def test_only_the_answer_itself_passes(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(planted_answer(200, replies.completion("the content")))
    response = asked(gateway, script.model, chat_id, stream=False)
    assert response.json() == json.loads(replies.completion("the content"))
    require_nothing_of((MARK, KEY), gateway, response, chat_id)


def test_the_content_of_an_answer_is_its_own_affair(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(replies.plain(MARK))
    response = asked(gateway, script.model, chat_id, stream=False)
    assert response.json()["choices"][0]["message"]["content"] == MARK
    assert [text for text in views(gateway, chat_id) if MARK in text] == []


NOTES = [
    b": " + secret("comment").encode(),
    b": error " + dumped(planted_error()),
    f": {KEY}".encode(),
    f": {MARK}".encode(),
    b"id: " + secret("id").encode(),
    b"event: " + secret("event").encode(),
    b"retry: " + secret("retry").encode(),
]


@pytest.mark.parametrize("note", NOTES, ids=[note[:16].decode() for note in NOTES])
def test_what_a_stream_holds_beside_its_chunks_shows_no_secret(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, note: bytes
) -> None:
    beside = planted_event(note, b"data: " + dumped({"choices": [{"index": 0, "delta": {"content": "Nile"}}]}))
    alone = planted_event(note)
    script = upstream.script(replies.STREAM_HEAD, alone, beside, alone, replies.FINISH)
    for stream in (True, False):
        response = asked(gateway, script.model, chat_id, stream=stream)
        assert response.status_code == 200
        assert "Nile" in response.text
        require_nothing_of((MARK, KEY), gateway, response, chat_id)


CREDENTIALS = ("login7secret", "word7secret", "token7secret", "header7secret", "passed7secret")
LOGIN, WORD, TOKEN, HEADER, PASSED = CREDENTIALS


@pytest.fixture(scope="module")
def secretive(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway with secrets in every place of its configuration; the providers `away` and `theirs` stand beside `fake`."""
    folder = tmp_path_factory.mktemp("secretive")
    address = upstream.url.replace("//", f"//{LOGIN}:{WORD}@")
    more = f"""\
query = {{ "token" = "{TOKEN}" }}
headers = {{ "x-extra" = "{HEADER}" }}
[providers.away]
base_url = "http://{LOGIN}:{WORD}@127.0.0.1:1/v1?token={TOKEN}"
headers = {{ "x-extra" = "{HEADER}" }}
[providers.theirs]
base_url = "{upstream.url}"
api_key = "passthrough"
"""
    models = {
        "small": SMALL,
        "away": SMALL.replace("small", "away").replace('"fake"', '"away"'),
        "theirs": SMALL.replace("small", "theirs").replace('"fake"', '"theirs"'),
    }
    write_config(folder, address, more=more, models=models)
    with RunningGateway(folder) as running:
        yield running
    running.require_clean_log()


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_configured_is_used_and_shown_nowhere(
    secretive: RunningGateway, upstream: Upstream, chat_id: str, stream: bool
) -> None:
    repeated = dumped({"error": {"message": " ".join(CREDENTIALS), "code": LOGIN, "param": TOKEN}})
    script = upstream.script(replies.answer(repeated, 401, location=f"http://{LOGIN}:{WORD}@inner.test"))
    response = asked(secretive, script.model, chat_id, stream=stream)
    call = script.arrival()
    assert call.headers["authorization"].startswith("Basic ")
    assert (call.headers["x-extra"], call.path.partition("?")[2]) == (HEADER, f"token={TOKEN}")
    assert checked_answer(response.status_code, response.headers, response.json())["code"] == "PROVIDER_AUTH"
    require_nothing_of((*CREDENTIALS, call.headers["authorization"].split()[1]), secretive, response, chat_id)


@pytest.mark.parametrize("stream", [False, True])
def test_the_address_of_a_provider_that_is_away_is_not_told(secretive: RunningGateway, chat_id: str, stream: bool) -> None:
    response = asked(secretive, "away", chat_id, stream=stream)
    assert checked_answer(response.status_code, response.headers, response.json())["code"] == "PROVIDER_UNREACHABLE"
    require_nothing_of((*CREDENTIALS, "127.0.0.1:1/"), secretive, response, chat_id)


@pytest.mark.parametrize("steps", [(replies.refusal(401, PASSED),), (replies.STREAM_HEAD, EVENTS["error object"], replies.END)])
def test_the_clients_own_key_is_forwarded_and_kept_nowhere(
    secretive: RunningGateway, upstream: Upstream, chat_id: str, steps: tuple[Step, ...]
) -> None:
    script = upstream.script(*steps, model="theirs")
    body = {"model": "theirs", "messages": SHORT, "stream": True, "contextShift": {"chatId": chat_id}}
    response = secretive.post(body, authorization=f"Bearer {PASSED}")
    assert script.arrival().headers["authorization"] == f"Bearer {PASSED}"
    checked_answer(response.status_code, response.headers, response.json())
    require_nothing_of((*CREDENTIALS, MARK), secretive, response, chat_id)


@pytest.mark.parametrize("command", [("check",), ("models",)])
def test_the_commands_hide_what_is_configured(secretive: RunningGateway, command: tuple[str, ...]) -> None:
    done = run_command(secretive.folder, *command, "--config", "config")
    assert done.returncode == 0
    assert [name for name in CREDENTIALS if name in done.stdout + done.stderr] == []
