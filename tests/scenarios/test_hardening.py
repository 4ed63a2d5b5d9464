"""Odd requests, hostile bodies and planted secrets against the real process: nothing gets in, through or out that shouldn't."""

from __future__ import annotations

import base64
import gzip
import hashlib
import json
import zlib
from collections.abc import Iterator

import pytest

from tests.house.tree import ROOT
from tests.scenarios.loopback import replies
from tests.scenarios.loopback.errors import checked_answer
from tests.scenarios.loopback.raw_client import CHAT_PATH, RawClient
from tests.scenarios.loopback.running_gateway import SMALL, RunningGateway, write_config
from tests.scenarios.loopback.upstream import Upstream
from tests.scenarios.loopback.waiting import until

SHORT = [{"role": "user", "content": "Name three rivers."}]
KEY, PLANTED = "sg-key-under-guard", "Planted9"
PAGE = "https://app.example"
DEFECTS = f"""
import asyncio
import httpx
from gateway.preparation import PromptPreparer
from gateway.providers.openai_compatible import OpenAICompatibleProvider

secret = "".join({list(PLANTED)})  # a traceback shows lines of code, which hold none

def fails():
    try:
        raise httpx.ConnectError(f"http://user:{{secret}}@inner.test/?key={{secret}}")
    except httpx.ConnectError as error:
        raise ValueError(f"sk-{{secret}} authorization: Bearer {{secret}}") from error

async def fails_unseen():
    fails()

class Broken:
    streamed, ended, usage, finish_reason = True, False, None, None
    async def read(self):
        fails()
    async def aclose(self):
        pass

def register(host):
    prepare, send = PromptPreparer.prepare, OpenAICompatibleProvider.send
    async def preparing(self, request, *rest, **named):
        if request.model == "small-prepare":
            fails()
        if request.model == "small-task":
            asyncio.ensure_future(fails_unseen())
            await asyncio.sleep(0.01)
        return await prepare(self, request, *rest, **named)
    async def sending(self, outgoing):
        if b'"small-send"' in outgoing.body:
            fails()
        if b'"small-read"' in outgoing.body:
            return Broken()
        return await send(self, outgoing)
    PromptPreparer.prepare, OpenAICompatibleProvider.send = preparing, sending
"""


@pytest.fixture(scope="module")
def guarded(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway with a key and a page that may ask, whose provider gets the client's own key. Its log never shows a key."""
    folder = tmp_path_factory.mktemp("guarded")
    (folder / "planted_defects.py").write_text(DEFECTS)
    digest = hashlib.sha256(KEY.encode()).hexdigest()
    more = f"""\
[plugins]
modules = ["planted_defects:register"]
[auth]
allow_anonymous = true
[[auth.keys]]
name = "team"
sha256 = "{digest}"
"""
    write_config(folder, upstream.url, server=f'cors_origins = ["{PAGE}"]', provider='api_key = "passthrough"', more=more)
    (folder / "config" / "models" / "_default.toml").write_text(SMALL.partition("\n")[2].replace('aliases = ["small-*"]', ""))
    with RunningGateway(folder, PYTHONPATH=f"{folder}:{ROOT}") as running:
        yield running
    log = running.log.read_text()
    assert [secret for secret in (KEY, PLANTED, base64.b64encode(KEY.encode()).decode()) if secret in log] == []


def answers(gateway: RunningGateway, head: str, body: bytes = b"") -> bytes:
    """What is answered to a head up to the connection's end. HOST becomes the gateway's, and the head gets its last line ends."""
    with RawClient(gateway.url) as client:
        client.send(head.replace("HOST", client.host).encode("latin-1") + b"\r\n\r\n" + body)
        return client.read_until(b"nothing like it")


CL5 = "content-length: 5"
POST = f"POST {CHAT_PATH} HTTP/1.1\r\nhost: HOST\r\n"
GET = "GET /v1/models HTTP/1.1\r\nhost: HOST\r\n"
AMBIGUOUS = {
    "a length and chunks": POST + CL5 + "\r\ntransfer-encoding: chunked",
    "chunks and a length": POST + "transfer-encoding: chunked\r\n" + CL5,
    "two lengths": POST + CL5 + "\r\ncontent-length: 6",
    "the same length twice": POST + CL5 + "\r\n" + CL5,
    "a list of lengths": POST + "content-length: 5, 5",
    "a length with a sign": POST + "content-length: +5",
    "a negative length": POST + "content-length: -5",
    "a length in another base": POST + "content-length: 0x5",
    "a length with a fraction": POST + "content-length: 5.0",
    "an unknown transfer encoding": POST + "transfer-encoding: xchunked",
    "chunks that are not last": POST + "transfer-encoding: chunked, identity",
    "a blank before the colon": POST + "transfer-encoding : chunked",
    "a folded line": GET + "x-a: b\r\n c",
    "a folded host": "GET /v1/models HTTP/1.1\r\nhost: evil.example\r\n HOST",
    "bare line feeds": GET.replace("\r\n", "\n") + "x: y\n\n",
    "a zero byte": GET + "x: a\0b",
    "a control character in the path": GET.replace("models", "mo\x01dels") + "x: y",
    "a letter that is no ASCII in the path": GET.replace("models", "mod\xe9ls") + "x: y",
    "a blank in the path": GET.replace("models", "mo dels") + "x: y",
    "no such method": GET.replace("GET", "GETT") + "x: y",
    "a tunnel": "CONNECT inner.test:443 HTTP/1.1\r\nhost: HOST",
    "another protocol": "PRI * HTTP/2.0",
}


@pytest.mark.parametrize("head", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_a_head_that_can_be_read_in_two_ways_is_refused_and_nothing_after_it_is_read(guarded: RunningGateway, head: str) -> None:
    answer = answers(guarded, head, b"0\r\n\r\nGET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"connection: close" in answer.lower()


def test_a_size_of_a_chunk_that_is_none_ends_the_connection(guarded: RunningGateway) -> None:
    body = b"f" * 17 + b"\r\nabcde\r\n0\r\n\r\nGET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
    assert b" 200 " not in answers(guarded, POST + "transfer-encoding: chunked", body)


HOSTS = [
    "host: evil.example\r\nhost: HOST",
    "host: HOST\r\nhost: evil.example",
    "host: HOST\r\nhost: HOST",
    "x-forwarded-host: HOST",
]


@pytest.mark.parametrize("hosts", HOSTS)
def test_there_must_be_exactly_one_host(guarded: RunningGateway, hosts: str) -> None:
    head = f"GET /v1/models HTTP/1.1\r\n{hosts}\r\nconnection: close"
    assert answers(guarded, head).startswith(b"HTTP/1.1 421 ")


def test_a_whole_url_as_target_gets_round_neither_host_nor_path(guarded: RunningGateway) -> None:
    head = "GET http://localhost/v1/models HTTP/1.1\r\nhost: evil.example\r\nconnection: close"
    assert answers(guarded, head).startswith(b"HTTP/1.1 421 ")
    head = "GET http://user:word@localhost/healthz/../v1/models HTTP/1.1\r\nhost: evil.example\r\nconnection: close"
    assert answers(guarded, head).startswith(b"HTTP/1.1 421 ")


FLOODS = {
    "header": GET.encode() + b"x: ",
    "URL": b"GET /",
}


@pytest.mark.parametrize("start", FLOODS.values(), ids=FLOODS)
def test_a_head_without_end_is_refused(guarded: RunningGateway, start: bytes) -> None:
    with RawClient(guarded.url) as client:
        start = start.replace(b"HOST", client.host.encode())
        client.send(start + b"a" * (65_537 - len(start)))
        answer = client.read_until(b"send less")
    assert answer.startswith(b"HTTP/1.1 431 ")


def test_a_long_head_is_read(guarded: RunningGateway) -> None:
    assert guarded.http.get("/v1/models", headers={"x-long": "a" * 60_000}).status_code == 200


PATHS = {
    "/api/v2/chats/a%00b": (400, "INVALID_REQUEST"),
    "/api/v2/chats/a%0d%0ab": (400, "INVALID_REQUEST"),
    "/api/v2/chats/%c2%85": (400, "INVALID_REQUEST"),
    "/api/v2/chats/" + "x" * 257: (400, "INVALID_REQUEST"),
    "/api/v2/chats/%2e%2e": (404, "CHAT_NOT_FOUND"),
    "/api/v2/chats/..": (404, "CHAT_NOT_FOUND"),
    "/api/v2/chats/..;": (404, "CHAT_NOT_FOUND"),
    "/api/v2/chats/..%2f..%2fhealthz": (404, "CHAT_NOT_FOUND"),
    "/api/v2/chats/%252e%252e%252f": (404, "CHAT_NOT_FOUND"),
    "/api/v2/chats/%zz": (404, "CHAT_NOT_FOUND"),
    "/api/v2/chats/%ff%fe": (404, "CHAT_NOT_FOUND"),
    "/api/v2/chats/' OR ''='": (404, "CHAT_NOT_FOUND"),
    "/api/v2/chats/{{7*7}}": (404, "CHAT_NOT_FOUND"),
    "/api/v2/chats/": (404, "NOT_FOUND"),
    "/api/v2/chats//context-audit": (404, "NOT_FOUND"),
    "/api/v2/chats/../../../healthz": (404, "NOT_FOUND"),
    "/api/v2\\chats": (404, "NOT_FOUND"),
    "/API/V2/chats": (404, "NOT_FOUND"),
    "/healthz/../v1/models": (404, "NOT_FOUND"),
    "/healthz%2f..%2fmetrics": (404, "NOT_FOUND"),
    "/healthz;x": (404, "NOT_FOUND"),
    "/.env": (404, "NOT_FOUND"),
    "*": (404, "NOT_FOUND"),
}


@pytest.mark.parametrize(("path", "expected"), PATHS.items(), ids=range(len(PATHS)))
def test_a_path_is_what_it_says_and_nothing_else(guarded: RunningGateway, path: str, expected: tuple[int, str]) -> None:
    method = "OPTIONS" if path == "*" else "GET"
    answer = answers(guarded, f"{method} {path.replace(' ', '%20')} HTTP/1.1\r\nhost: HOST\r\nconnection: close")
    head, _, body = answer.partition(b"\r\n\r\n")
    assert (int(head.split()[1]), json.loads(body)["error"]["code"]) == expected


ALLOWED = {
    "/v1/chat/completions": "POST",
    "/chat/completions": "POST",
    "/v1/files": "DELETE, GET, HEAD, PATCH, POST, PUT",
    "/api/v2/context-preview": "POST",
    "/api/v2/chats": "GET, HEAD",
    "/api/v2/chats/c": "DELETE, GET, HEAD",
    "/api/v2/chats/c/context-audit": "GET, HEAD",
    "/openapi.json": "GET, HEAD",
    "/healthz": "GET, HEAD",
}


@pytest.mark.parametrize(("path", "allowed"), ALLOWED.items(), ids=ALLOWED)
@pytest.mark.parametrize("method", ["TRACE", "PROPFIND"])
def test_another_method_is_answered_with_those_there_are(guarded: RunningGateway, path: str, allowed: str, method: str) -> None:
    answer = guarded.http.request(method, path)
    error = checked_answer(answer.status_code, answer.headers, answer.json())
    assert (answer.status_code, error["code"], answer.headers["allow"]) == (405, "METHOD_NOT_ALLOWED", allowed)


def test_the_models_can_only_be_read(guarded: RunningGateway) -> None:
    answer = guarded.http.delete("/v1/models/small")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")


def bomb(size: int, window: int) -> bytes:
    """So many zero bytes, packed very small."""
    packer, block = zlib.compressobj(9, zlib.DEFLATED, window), bytes(1_000_000)
    return b"".join(packer.compress(block) for _ in range(size // len(block))) + packer.flush()


GOOD = json.dumps({"model": "small-x", "messages": SHORT}).encode()
PACKED: dict[str, tuple[str, bytes, int, str]] = {
    "a gigabyte by gzip": ("gzip", bomb(1_000_000_000, 31), 413, "PAYLOAD_TOO_LARGE"),
    "a gigabyte by deflate": ("deflate", bomb(1_000_000_000, 15), 413, "PAYLOAD_TOO_LARGE"),
    "without a head": ("deflate", bomb(1_000_000, -15), 400, "INVALID_REQUEST"),
    "packed twice": ("gzip", gzip.compress(gzip.compress(GOOD)), 400, "INVALID_REQUEST"),
    "packed twice, as it says": ("gzip, gzip", gzip.compress(gzip.compress(GOOD)), 415, "UNSUPPORTED_MEDIA_TYPE"),
    "two parts": ("gzip", gzip.compress(GOOD) + gzip.compress(GOOD), 400, "INVALID_REQUEST"),
    "something after it": ("gzip", gzip.compress(GOOD) + b"{}", 400, "INVALID_REQUEST"),
    "only a head": ("gzip", gzip.compress(GOOD)[:10], 400, "INVALID_REQUEST"),
}


@pytest.mark.parametrize(("encoding", "body", "status", "code"), PACKED.values(), ids=PACKED)
@pytest.mark.parametrize("path", [CHAT_PATH, "/api/v2/context-preview"])
def test_a_packed_body_is_opened_as_far_as_it_may_be(
    guarded: RunningGateway, path: str, encoding: str, body: bytes, status: int, code: str
) -> None:
    headers = {"content-encoding": encoding, "content-type": "application/json"}
    answer = guarded.http.post(path, content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


@pytest.mark.parametrize("name", ["a gigabyte by gzip", "something after it"])
def test_so_is_one_that_is_passed_on(guarded: RunningGateway, name: str) -> None:
    encoding, body, status, code = PACKED[name]
    headers = {"content-encoding": encoding, "content-type": "application/json"}
    answer = guarded.http.post("/v1/embeddings", content=body, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)


def with_extra(extra: bytes) -> bytes:
    """A good request with something more in it."""
    return GOOD[:-1] + b"," + extra + b"}"


NUMBERS = {
    "a long reply limit": b'"max_tokens":' + b"9" * 1_000_000,
    "a long reserve": b'"contextShift":{"replyReserve":' + b"9" * 1_000_000 + b"}",
    "a large reserve": b'"contextShift":{"replyReserve":1e999999}',
    "a long position": b'"contextShift":{"marks":[{"index":-' + b"9" * 1_000_000 + b',"pinned":true}]}',
    "a deep list": b'"x":' + b"[" * 5_000_000 + b"]" * 5_000_000,
    "a deep object": b'"x":' + b'{"a":' * 1_000_000 + b"1" + b"}" * 1_000_000,
    "a key a hundred thousand times": b'"metadata":{' + b",".join([b'"k":1'] * 100_000) + b"}",
}


@pytest.mark.parametrize("extra", NUMBERS.values(), ids=NUMBERS)
def test_json_that_is_meant_to_hurt_is_refused(guarded: RunningGateway, extra: bytes) -> None:
    for path in (CHAT_PATH, "/api/v2/context-preview"):
        answer = guarded.http.post(path, content=with_extra(extra))
        over = answer.status_code == 200 and not answer.json()["fits"]  # a preview answers what does not fit
        assert over or (answer.status_code, answer.json()["error"]["type"]) == (400, "invalid_request_error")


def test_no_more_strategies_are_compared_than_is_sensible(guarded: RunningGateway) -> None:
    body = {"strategies": ["truncate"] * 100_000, "request": {"model": "small-x", "messages": SHORT}}
    answer = guarded.http.post("/api/v2/context-preview", json=body)
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "strategies")


SITES = [
    ("cross-site", None, 403),
    ("same-site", None, 403),
    ("cross-site", f"{PAGE}.evil.example", 403),
    ("cross-site", "null", 403),
    ("cross-site", PAGE, 200),
    ("same-origin", None, 200),
    ("none", None, 200),
]


@pytest.mark.parametrize(("site", "origin", "status"), SITES)
def test_a_page_may_ask_for_what_costs_something_when_it_is_configured(
    guarded: RunningGateway, site: str, origin: str | None, status: int
) -> None:
    headers = {"sec-fetch-site": site, **({"origin": origin} if origin else {})}
    body = {"model": "small-x", "messages": SHORT}
    answer = guarded.http.post("/api/v2/context-preview", json=body, headers=headers)
    assert (answer.status_code, answer.headers.get("access-control-allow-origin")) == (status, PAGE if origin == PAGE else None)
    assert guarded.http.delete("/api/v2/chats/none", headers=headers).status_code == (404 if status == 200 else 403)


@pytest.mark.parametrize(("origin", "allowed"), [(PAGE, True), ("https://evil.example", False), ("null", False)])
def test_a_browser_is_told_which_pages_may_ask(guarded: RunningGateway, origin: str, allowed: bool) -> None:
    asked = {"origin": origin, "access-control-request-method": "POST", "access-control-request-headers": "authorization"}
    answer = guarded.http.options(CHAT_PATH, headers=asked)
    assert ("access-control-allow-origin" in answer.headers) == allowed
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("model", ["small-prepare", "small-send", "small-read"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_defect_is_logged_with_its_place_and_without_what_it_says(guarded: RunningGateway, model: str, stream: bool) -> None:
    before = guarded.log.read_text()
    answer = guarded.post({"model": model, "messages": SHORT, "stream": stream}, authorization=f"Bearer {KEY}")
    assert PLANTED not in answer.text + str(answer.headers)
    assert "INTERNAL" in answer.text
    told = until(lambda: guarded.log.read_text()[len(before) :], "the defect in the log")
    assert PLANTED not in told
    assert "internal error" in told
    assert "planted_defects.py" in told
    assert "builtins.ValueError" in told


def test_a_task_that_fails_unseen_is_logged_without_what_it_says(guarded: RunningGateway, upstream: Upstream) -> None:
    upstream.script(replies.plain(), model="small-task")
    for _ in range(3):
        guarded.post({"model": "small-task", "messages": SHORT})
    until(lambda: "never retrieved" in guarded.log.read_text(), "the task in the log")
    assert PLANTED not in guarded.log.read_text()


SPELLINGS = [KEY, f"Bearer {KEY}", f"bearer  {KEY}", f"Bearer\t{KEY}", f"Basic {KEY}", f"Bearer {KEY} more", f"Token {KEY}"]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize("header", ["authorization", "api-key", "x-sluicegate-key", "x-api-key"])
def test_a_key_of_the_gateway_reaches_no_provider_however_it_is_sent(
    guarded: RunningGateway, upstream: Upstream, header: str, spelling: str
) -> None:
    script = upstream.script(replies.plain())
    for path in (CHAT_PATH, "/v1/embeddings"):
        guarded.http.post(path, json={"model": script.model, "messages": SHORT}, headers={header: spelling})
    assert [call for call in script.calls if KEY in str(call.headers)] == []


def test_who_has_no_key_sees_nothing_of_who_has_one(guarded: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    body = {"model": upstream.script(replies.plain()).model, "messages": SHORT, "contextShift": {"chatId": chat_id}}
    key = {"x-sluicegate-key": KEY}
    for owner, other in ((key, {}), ({}, key)):
        assert guarded.http.post(CHAT_PATH, json=body, headers=owner).status_code == 200
        assert guarded.http.get(f"/api/v2/chats/{chat_id}", headers=other).status_code == 404
        assert guarded.http.delete(f"/api/v2/chats/{chat_id}", headers=other).status_code == 404
        assert guarded.http.delete(f"/api/v2/chats/{chat_id}", headers=owner).status_code == 204


def test_a_key_in_a_query_opens_nothing_and_is_logged_nowhere(guarded: RunningGateway) -> None:
    for path in ("/api/v2/chats", "/v1/models", "/nowhere"):
        for name in ("api_key", "key", "access_token"):
            guarded.http.get(f"{path}?{name}={KEY}")
    answers(guarded, f"GET /v1/models?key={KEY} HTTP/1.1\r\nhost: HOST\r\nauthorization: Bearer {KEY}\r\nx : {KEY}")
    assert KEY not in guarded.log.read_text()
