"""What goes out and what an answer becomes; the wire is respx's."""

from __future__ import annotations

import asyncio
import json

import httpx
import pytest
import respx

from gateway import __version__
from gateway.errors import ProviderAuth, ProviderError, ProviderInvalidResponse, ProviderNotFound
from gateway.providers.base import OutgoingRequest, ProviderConfig, Timeouts
from gateway.providers.openai_compatible import OpenAICompatibleProvider

BASE = "http://model.test/v1"
CHAT = BASE + "/chat/completions"
COMPLETION = (
    b'{"id":"c", "choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],'
    b'"usage":{"total_tokens":3}}'
)
CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n'
STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"


def run(test, answer=None, *, url=CHAT, **config):
    """Runs `test(provider)` with one mocked route; gives what it returns and the requests that were made."""

    async def main():
        provider = OpenAICompatibleProvider(ProviderConfig(**{"name": "p", "base_url": BASE} | config))
        try:
            with respx.mock(using="httpx", assert_all_called=False) as router:
                router.route(url__startswith=url).mock(
                    return_value=httpx.Response(200, content=COMPLETION) if answer is None else answer
                )
                return await test(provider), [call.request for call in router.calls]
        finally:
            await provider.aclose()

    return asyncio.run(main())


async def read_all(provider, *, stream=False, **outgoing):
    reply = await provider.send(OutgoingRequest(b'{"a": 1.0}', stream, **outgoing))
    try:
        parts = []
        while part := await reply.read():
            parts.append(part)
        return b"".join(parts), reply
    finally:
        await reply.aclose()
        await reply.aclose()


def plain(provider):
    return read_all(provider)


def streamed(provider):
    return read_all(provider, stream=True)


def test_the_body_goes_out_and_comes_back_byte_for_byte():
    (body, reply), (request,) = run(plain, api_key="sk-1")
    assert body == COMPLETION
    assert (reply.streamed, reply.usage, reply.finish_reason) == (False, b'{"total_tokens":3}', "stop")
    assert request.content == b'{"a": 1.0}'
    assert dict(request.headers) == {
        "host": "model.test",
        "accept": "application/json",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": f"sluicegate/{__version__}",
        "authorization": "Bearer sk-1",
        "content-length": "10",
    }


def test_a_stream_is_asked_for_as_one_and_passes_unchanged():
    (body, reply), (request,) = run(streamed, httpx.Response(200, content=b": c\n\n" + CHUNK + STOP + DONE))
    assert body == b": c\n\n" + CHUNK + STOP + DONE
    assert (reply.streamed, reply.finish_reason) == (True, "stop")
    assert request.headers["accept"] == "text/event-stream"
    assert "authorization" not in request.headers


@pytest.mark.parametrize(
    ("config", "name", "value"),
    [
        ({"base_url": "http://me:p%40ss@model.test/v1"}, "authorization", "Basic bWU6cEBzcw=="),
        ({"base_url": "http://me:p@model.test/v1", "api_key": "sk"}, "authorization", "Bearer sk"),
        ({"api_key": "sk", "headers": {"Authorization": "Key own"}}, "authorization", "Key own"),
        ({"headers": {"api-key": "azure"}}, "api-key", "azure"),
    ],
)
def test_the_key_stands_where_it_is_configured(config, name, value):
    _, (request,) = run(plain, **config)
    assert request.headers[name] == value
    assert str(request.url) == CHAT


def test_the_query_is_added_to_that_of_the_address():
    _, (request,) = run(plain, base_url=BASE + "/?a=1", query={"api-version": "2024 x"})
    assert str(request.url) == CHAT + "?a=1&api-version=2024+x"


def test_the_clients_own_key_is_forwarded():
    async def test(provider):
        return await read_all(provider, authorization="Bearer client")

    _, (request,) = run(test, api_key="passthrough")
    assert request.headers["authorization"] == "Bearer client"
    _, (request,) = run(test, api_key="sk-ours")
    assert request.headers["authorization"] == "Bearer sk-ours"
    _, (request,) = run(plain, api_key="passthrough")
    assert "authorization" not in request.headers


def test_a_key_that_cannot_be_sent_is_refused():
    async def test(provider):
        with pytest.raises(ProviderAuth) as caught:
            await read_all(provider, authorization="Bearer a\r\nx: y")
        return caught.value.status

    assert run(test, api_key="passthrough") == (401, [])


@pytest.mark.parametrize(("key", "status"), [("passthrough", 401), ("sk", 403)])
def test_a_refused_key_is_told_to_whom_it_belongs(key, status):
    async def test(provider):
        with pytest.raises(ProviderAuth) as caught:
            await read_all(provider, stream=True, authorization="Bearer client")
        return caught.value.status

    assert run(test, httpx.Response(401, json={"error": "sk"}), api_key=key)[0] == status


@pytest.mark.parametrize("ask", [plain, streamed])
@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (httpx.Response(302, headers={"location": "http://other.test"}), "PROVIDER_INVALID_RESPONSE"),
        (httpx.Response(429, headers={"retry-after": "7"}), "PROVIDER_RATE_LIMIT"),
        (httpx.Response(500, content=b"x" * 200_000), "PROVIDER_SERVER_ERROR"),
        (httpx.Response(200, content=b"<html>hi"), "PROVIDER_INVALID_RESPONSE"),
        (httpx.Response(200, content=b""), "PROVIDER_INVALID_RESPONSE"),
        (httpx.Response(204), "PROVIDER_INVALID_RESPONSE"),
        (httpx.Response(200, content=b"null"), "PROVIDER_INVALID_RESPONSE"),
        (httpx.Response(200, content=b"[]"), "PROVIDER_INVALID_RESPONSE"),
        (httpx.Response(200, content=b"{}"), "PROVIDER_INVALID_RESPONSE"),
        (httpx.Response(200, content=b'{"choices":[]}'), "PROVIDER_INVALID_RESPONSE"),
        (httpx.Response(200, content=COMPLETION[:50]), "PROVIDER_INVALID_RESPONSE"),
        (httpx.Response(200, content=b'{"choices":null,"error":{"code":"server_is_overloaded"}}'), "PROVIDER_OVERLOADED"),
        (httpx.Response(200, content=b'data: {"error":{"code":429}}\n\n'), "PROVIDER_RATE_LIMIT"),
        (httpx.Response(200, content=b'{"object":"error","message":"m","type":"rate_limited"}'), "PROVIDER_RATE_LIMIT"),
        (httpx.Response(200, content=b'{"choices":[{"finish_reason":"error","error":{"code":503}}]}'), "PROVIDER_OVERLOADED"),
        (httpx.Response(200, content=COMPLETION, headers={"content-encoding": "br"}), "PROVIDER_INVALID_RESPONSE"),
    ],
)
def test_every_bad_answer_is_an_error_of_ours(ask, answer, code):
    # respx would decode the answer itself
    answer = httpx.Response(answer.status_code, headers=answer.headers, stream=answer.stream)

    async def test(provider):
        with pytest.raises(ProviderError) as caught:
            await ask(provider)
        return caught.value.code

    assert run(test, answer)[0] == code


def test_a_null_error_in_a_completion_is_none():
    body = COMPLETION[:-1] + b', "error": null}'
    assert run(plain, httpx.Response(200, content=body))[0][0] == body


def test_nan_in_a_completion_becomes_null():
    body = COMPLETION[:-1] + b', "x": NaN}'
    assert run(plain, httpx.Response(200, content=body))[0][0] == COMPLETION[:-1] + b', "x": null}'


def test_a_completion_in_answer_to_a_stream_request_becomes_a_stream():
    (body, reply), _ = run(streamed, httpx.Response(200, content=b" \n" + COMPLETION))
    assert body.endswith(b'"usage":{"total_tokens":3}}\n\n' + DONE)
    assert (reply.streamed, reply.usage, reply.finish_reason) == (True, b'{"total_tokens":3}', "stop")


def test_a_stream_in_answer_to_a_plain_request_becomes_a_completion():
    (body, reply), _ = run(plain, httpx.Response(200, content=b": c\n\n" + CHUNK + STOP + DONE))
    assert json.loads(body)["choices"] == [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}]
    assert (reply.streamed, reply.finish_reason) == (False, "stop")


def test_shapes_that_cannot_be_converted_are_refused():
    async def test(provider):
        with pytest.raises(ProviderInvalidResponse):
            await read_all(provider, stream=True)

    run(test, httpx.Response(200, content=b'{"choices":[{"message":"text"}]}'))


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (httpx.ConnectError("http://secret"), "PROVIDER_UNREACHABLE"),
        (httpx.ConnectTimeout("http://secret"), "PROVIDER_TIMEOUT"),
        (httpx.RemoteProtocolError("http://secret"), "PROVIDER_UNREACHABLE"),
    ],
)
def test_a_failed_connection_is_an_error_of_ours(error, code):
    async def main():
        provider = OpenAICompatibleProvider(ProviderConfig("p", BASE), client=httpx.AsyncClient())
        with respx.mock(using="httpx") as router:
            router.post(CHAT).mock(side_effect=error)
            with pytest.raises(ProviderError) as caught:
                await provider.send(OutgoingRequest(b"{}", stream=True))
        await provider.aclose()
        return caught.value

    ours = asyncio.run(main())
    assert ours.code == code
    assert "secret" not in ours.message


def test_a_refusal_that_cannot_be_decompressed_is_told_by_its_status():
    refused = httpx.Response(429, headers={"content-encoding": "br"}, stream=httpx.ByteStream(b"\x8b\x02"))

    async def test(provider):
        with pytest.raises(ProviderError) as caught:
            await streamed(provider)
        return caught.value.code

    assert run(test, refused)[0] == "PROVIDER_RATE_LIMIT"


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://model.test/v1", "http://model.test/props"),
        ("http://model.test/v1/", "http://model.test/props"),
        ("http://model.test", "http://model.test/props"),
        ("http://model.test/llm/v1", "http://model.test/llm/props"),
        ("http://model.test/llm", "http://model.test/llm/props"),
        ("http://model.test/v1beta/openai/", "http://model.test/props"),
    ],
)
def test_small_questions_go_to_the_root_of_the_server(base, url):
    async def test(provider):
        return await provider.ask("GET", "/props")

    answer, (request,) = run(test, httpx.Response(200, content=b"[1]"), url="http://model.test", base_url=base)
    assert (answer, str(request.url), request.method) == (b"[1]", url, "GET")


@pytest.mark.parametrize(
    ("base", "url"),
    [
        ("http://model.test/v1", "http://model.test/v1/embeddings"),
        ("http://model.test/v1beta/openai/", "http://model.test/v1beta/openai/embeddings"),
    ],
)
def test_others_go_below_the_base_url(base, url):
    async def test(provider):
        return await provider.ask_below("POST", "/embeddings", b"{}")

    answer, (request,) = run(test, httpx.Response(200, content=b"[1]"), url="http://model.test", base_url=base)
    assert (answer, str(request.url), request.content) == (b"[1]", url, b"{}")


def test_a_small_question_may_have_a_body_and_may_be_refused():
    async def test(provider):
        with pytest.raises(ProviderNotFound):
            await provider.ask("POST", "tokenize", b'{"content": "x"}')

    _, (request,) = run(test, httpx.Response(404), url="http://model.test")
    assert request.content == b'{"content": "x"}'


def test_a_small_answer_is_bounded(monkeypatch):
    monkeypatch.setattr("gateway.providers.openai_compatible._MAX_SMALL_ANSWER_BYTES", 10)

    async def test(provider):
        with pytest.raises(ProviderInvalidResponse, match="10 bytes"):
            await provider.ask("GET", "/props")

    run(test, httpx.Response(200, content=b"x" * 20), url="http://model.test")


@pytest.mark.parametrize(
    ("models", "props", "limit"),
    [
        ({"data": [{"id": "a", "max_model_len": 1}, {"id": "m", "max_model_len": 4096}]}, None, 4096),
        ({"data": [{"id": "m", "context_length": 8192}]}, None, 8192),
        ({"data": [{"id": "m", "meta": {"n_ctx_train": 99}}]}, {"default_generation_settings": {"n_ctx": 512}}, 512),
        ({"data": [{"id": "m", "max_model_len": True}, 3]}, {"default_generation_settings": 3}, None),
        ([], {"default_generation_settings": {"n_ctx": 512}}, 512),
        ("text", b"<html>", None),
        (b"\xff{", 500, None),
    ],
)
def test_the_context_limit_is_what_the_server_itself_says(models, props, limit):
    def response(body):
        if isinstance(body, int) or body is None:
            return httpx.Response(body or 404)
        return httpx.Response(200, content=body) if isinstance(body, bytes) else httpx.Response(200, json=body)

    async def main():
        provider = OpenAICompatibleProvider(ProviderConfig("p", BASE))
        with respx.mock(using="httpx", assert_all_called=False) as router:
            router.get(BASE + "/models").mock(return_value=response(models))
            router.get("http://model.test/props").mock(return_value=response(props))
            found = await provider.context_limit("m")
        await provider.aclose()
        return found

    assert asyncio.run(main()) == limit


def test_a_config_shows_no_secret():
    config = ProviderConfig("p", "http://me:secret@x", api_key="secret", headers={"k": "secret"}, timeouts=Timeouts(idle_s=1))
    assert "secret" not in repr(config)


def account(authorization=None, **config):
    provider = OpenAICompatibleProvider(ProviderConfig(**{"name": "p", "base_url": BASE} | config))
    asyncio.run(provider.aclose())
    return provider.account(authorization)


def test_an_account_is_the_same_for_the_same_server_and_key():
    assert account(api_key="sk-1") == account(api_key="sk-1", name="q", headers={"x-title": "t"}, base_url=BASE)
    assert len(account(api_key="sk-1")) == 16
    assert int(account(api_key="sk-1"), 16) >= 0


@pytest.mark.parametrize(
    "other",
    [
        {"api_key": "sk-2"},
        {"base_url": "http://other.test/v1"},
        {"headers": {"api-key": "k"}},
        {"query": {"key": "k"}},
        {"base_url": "http://u:p@model.test/v1", "api_key": None},
    ],
)
def test_an_account_differs_with_the_server_and_with_the_key(other):
    assert account(api_key="sk-1") != account(**{"api_key": "sk-1"} | other)


def test_only_with_passthrough_an_account_is_the_clients():
    assert account("Bearer a", api_key="sk-1") == account("Bearer b", api_key="sk-1")
    assert account("Bearer a", api_key="passthrough") != account("Bearer b", api_key="passthrough")
    assert account("Bearer a", api_key="passthrough") != account(api_key="passthrough")
