"""A whole request through a provider: over respx, and over a socket where bytes matter."""

from __future__ import annotations

import asyncio
import gzip

import httpx
import pytest
import respx

from gateway import __version__
from gateway.errors import (
    ProviderAuth,
    ProviderBadRequest,
    ProviderError,
    ProviderInvalidResponse,
    ProviderNotFound,
    ProviderPermission,
    ProviderTimeout,
    ProviderUnreachable,
)
from gateway.providers.base import ForwardedRequest, ProviderConfig, Timeouts
from gateway.providers.openai_compatible import OpenAICompatibleProvider

BASE = "http://model.test/v1"
REFUSED = b'{"error":{"message":"sk-secret at http://inner.test/","code":"invalid_api_key"}}'


def pairs(**headers):
    return [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]


def forwarded(method="POST", path="/embeddings", **more):
    return ForwardedRequest(method, path, **more)


async def read_all(answer):
    try:
        return b"".join([chunk async for chunk in _chunks(answer)])
    finally:
        await answer.aclose()
        await answer.aclose()


async def _chunks(answer):
    while chunk := await answer.read():
        yield chunk


def mocked(request, answer=None, **config):
    """Forwards one request to a mocked server; gives the answer, its body, and the request that was made."""

    async def main():
        provider = OpenAICompatibleProvider(ProviderConfig(**{"name": "p", "base_url": BASE} | config))
        try:
            with respx.mock(using="httpx") as router:
                route = router.route().mock(return_value=answer or httpx.Response(200, content=b"{}"))
                found = await provider.forward(request)
                return found, await read_all(found), route.calls[0].request
        finally:
            await provider.aclose()

    return asyncio.run(main())


def on_a_socket(serving, script, test, **config):
    async def main():
        async with serving(script) as server:
            provider = OpenAICompatibleProvider(ProviderConfig(**{"name": "p", "base_url": server.url} | config))
            try:
                return await test(server, provider)
            finally:
                await provider.aclose()

    return asyncio.run(main())


def test_a_request_goes_out_as_it_came_under_the_gateways_own_name():
    body = b'{ "model":"m" }'
    asked = forwarded(
        body=body, query=b"a=1", headers=pairs(Content_Type="application/json; x=y", User_Agent="client/1", accept="a/b")
    )
    answer, content, sent = mocked(
        asked, httpx.Response(201, content=b"\x00", headers={"openai-version": "1", "set-cookie": "a=b"})
    )
    assert (str(sent.url), sent.content, sent.method) == (BASE + "/embeddings?a=1", body, "POST")
    assert dict(sent.headers) == {
        "host": "model.test",
        "content-type": "application/json; x=y",
        "accept": "a/b",
        "accept-encoding": "identity",
        "user-agent": f"sluicegate/{__version__}",
        "content-length": str(len(body)),
    }
    assert (answer.status, content, dict(answer.headers)[b"openai-version"]) == (201, b"\x00", b"1")


def test_the_configured_key_headers_and_parameters_win():
    asked = forwarded(headers=pairs(x_title="theirs", openai_organization="theirs"), query=b"v=9", authorization="Bearer theirs")
    sent = mocked(asked, api_key="sk-ours", headers={"X-Title": "ours", "api-key": "k"}, query={"v": "1"})[2]
    assert (sent.headers["authorization"], sent.headers["api-key"], sent.url.query) == ("Bearer sk-ours", "k", b"v=1")
    assert sent.headers.get_list("x-title") == ["ours"]
    assert sent.headers["openai-organization"] == "theirs"


def test_credentials_and_query_of_the_base_url_are_used_too():
    sent = mocked(forwarded(), base_url="http://us%40er:pw@model.test/v1?api-version=3")[2]
    assert (sent.headers["authorization"], str(sent.url)) == ("Basic dXNAZXI6cHc=", BASE + "/embeddings?api-version=3")


@pytest.mark.parametrize(("authorization", "sent"), [("Bearer theirs", "Bearer theirs"), (None, None)])
def test_with_passthrough_the_clients_own_key_goes_out(authorization, sent):
    asked = forwarded(headers=pairs(authorization="Bearer other"), authorization=authorization)
    assert mocked(asked, api_key="passthrough")[2].headers.get("authorization") == sent


def test_a_key_that_no_header_can_hold_is_refused():
    with pytest.raises(ProviderAuth):
        mocked(forwarded(authorization="Bearer a\r\nx: y"), api_key="passthrough")


@pytest.mark.parametrize(("method", "length"), [("GET", None), ("HEAD", None), ("POST", "0"), ("PUT", "0"), ("PATCH", "0")])
def test_no_body_has_a_length_only_where_one_is_expected(method, length):
    assert mocked(forwarded(method))[2].headers.get("content-length") == length


@pytest.mark.parametrize(
    ("status", "kind"), [(400, ProviderBadRequest), (401, ProviderAuth), (403, ProviderPermission), (404, ProviderNotFound)]
)
def test_a_refusal_is_told_in_our_own_words(status, kind):
    with pytest.raises(kind) as caught:
        mocked(forwarded(), httpx.Response(status, content=REFUSED if status == 401 else b"{}"))
    assert "secret" not in caught.value.message
    assert "inner" not in caught.value.message
    assert caught.value.status in (400, 403, 404)


def test_a_refusal_of_the_clients_own_key_keeps_its_status():
    with pytest.raises(ProviderAuth) as caught:
        mocked(forwarded(authorization="Bearer x"), httpx.Response(401, content=REFUSED), api_key="passthrough")
    assert caught.value.status == 401


def test_a_compressed_refusal_is_read():
    compressed = gzip.compress(b'{"error":{"code":"context_length_exceeded"}}')
    with pytest.raises(ProviderError) as caught:
        mocked(forwarded(), httpx.Response(400, content=compressed, headers={"content-encoding": "gzip"}))
    assert caught.value.code == "PROVIDER_CONTEXT_OVERFLOW"


@pytest.mark.parametrize("status", [301, 302, 303, 304, 307, 308])
def test_a_redirect_is_an_invalid_answer_and_not_followed(serving, status):
    async def script(call):
        await call.answer(b"HTTP/1.1 %d X\r\nlocation: /v1/other\r\ncontent-length: 0\r\n\r\n" % status)

    async def test(server, provider):
        with pytest.raises(ProviderInvalidResponse) as caught:
            await provider.forward(forwarded())
        return caught.value, len(server.calls)

    error, calls = on_a_socket(serving, script, test)
    assert calls == 1
    assert "other" not in str((error.message, error.metadata))


def test_a_compressed_answer_comes_down_as_it_is(serving):
    compressed = gzip.compress(b"text")

    async def script(call):
        await call.plain(compressed, headers=b"content-encoding: gzip\r\nx-request-id: theirs\r\n")

    async def test(server, provider):
        answer = await provider.forward(forwarded("GET", headers=pairs(accept_encoding="gzip")))
        return server.calls[0].head.lower(), answer.headers, await read_all(answer)

    head, headers, body = on_a_socket(serving, script, test)
    assert b"accept-encoding: gzip\r\n" in head
    assert headers == [(b"content-encoding", b"gzip"), (b"content-length", str(len(compressed)).encode())]
    assert body == compressed


class Body:
    """A body in pieces that tells how many have been taken; waits for `more` after the first."""

    def __init__(self, *pieces):
        self.pieces = list(pieces)
        self.more = asyncio.Event()
        self.taken = 0

    def __aiter__(self):
        return self

    async def __anext__(self):
        if not self.pieces:
            raise StopAsyncIteration
        if self.taken:
            await self.more.wait()
        self.taken += 1
        return self.pieces.pop(0)


@pytest.mark.parametrize(
    ("size", "head", "sent"), [(6, b"content-length: 6\r\n", b"onetwo"), (None, b"chunked", b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")]
)
def test_an_upload_streams(serving, size, head, sent):
    async def script(call):
        rest = len(sent) - len(call.body)
        if not call.body:
            first = await call.reader.readexactly(len(b"3\r\none\r\n"))
            body.more.set()
            received.append(first + await call.reader.readexactly(rest - len(first)))
        else:
            received.append(call.body)
        await call.plain(b"ok")

    async def test(server, provider):
        answer = await provider.forward(forwarded(path="/files", body=body, size=size))
        return server.calls[0].head.lower(), await read_all(answer)

    received, body = [], Body(b"one", b"two")
    if size:
        body.more.set()
    sent_head, answer = on_a_socket(serving, script, test)
    assert head in sent_head
    assert (received, answer) == ([sent], b"ok")


def test_an_answer_comes_down_chunk_by_chunk_and_closing_ends_the_call(serving):
    async def script(call):
        await call.events(b"one", end=False)
        await go_on.wait()
        await call.answer(b"3\r\ntwo\r\n")
        await call.left()

    async def test(server, provider):
        answer = await provider.forward(forwarded())
        assert await answer.read() == b"one"
        go_on.set()
        assert await answer.read() == b"two"
        await answer.aclose()
        await asyncio.wait_for(server.closed.wait(), 1)

    go_on = asyncio.Event()
    on_a_socket(serving, script, test)


def test_an_answer_that_breaks_is_an_error_after_what_came(serving):
    async def script(call):
        await call.answer(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")
        call.writer.close()

    async def test(server, provider):
        answer = await provider.forward(forwarded())
        assert await answer.read() == b"half"
        with pytest.raises(ProviderUnreachable):
            await answer.read()
        await answer.aclose()

    on_a_socket(serving, script, test)


def test_silence_before_the_first_bytes_and_after_them_has_its_own_bound(serving):
    async def script(call):
        await call.events(b"one", end=False)
        await call.left()

    async def first(server, provider):
        answer = await provider.forward(forwarded())
        await answer.read()
        with pytest.raises(ProviderTimeout, match=r"fell silent .* 0\.05 s"):
            await answer.read()
        await answer.aclose()

    on_a_socket(serving, script, first, timeouts=Timeouts(first_token_s=5, idle_s=0.05))


def test_a_head_alone_is_no_answer_yet(serving):
    async def script(call):
        await call.events(end=False)
        await call.left()

    async def test(server, provider):
        answer = await provider.forward(forwarded())
        with pytest.raises(ProviderTimeout, match=r"no first token within 0\.2 s"):
            await answer.read()
        await answer.aclose()

    on_a_socket(serving, script, test, timeouts=Timeouts(first_token_s=0.2, idle_s=0.01))


def test_the_connection_of_a_whole_answer_is_used_again(serving):
    async def script(call):
        await call.plain(b"ok")

    async def test(server, provider):
        for _ in range(2):
            await read_all(await provider.forward(forwarded("GET")))
        return [call.connection for call in server.calls]

    assert on_a_socket(serving, script, test) == [1, 1]


def test_an_answer_before_the_end_of_the_upload_leaves_no_half_request_behind(serving):
    async def script(call):
        await call.plain(b"early")

    async def test(server, provider):
        body = Body(b"one", b"two")
        answer = await provider.forward(forwarded(path="/files", body=body, size=None))
        assert await read_all(answer) == b"early"
        assert await read_all(await provider.forward(forwarded("GET"))) == b"early"
        assert body.taken <= 1
        return [call.connection for call in server.calls]

    assert on_a_socket(serving, script, test) == [1, 2]
