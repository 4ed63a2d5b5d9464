"""The kind `litellm` against servers of Anthropic's and Gemini's formats."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.errors import GatewayError
from gateway.providers.base import Timeouts
from tests.gateway.providers.conftest import Call, Server
from tests.gateway.providers.litellm_calls import (
    CLAUDE,
    GEMINI,
    KEY,
    Serving,
    answers,
    drained,
    error_of,
    plain,
    provider_of,
    read_all,
    request,
    streamed,
)
from tests.support import anthropic_wire, gemini_wire

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:pydantic")  # of models that the library builds on first use
LEAVING_S = 1.0  # the contract's word for how soon a connection closes
QUICK = Timeouts(connect_s=1, first_token_s=0.3, idle_s=0.3, total_s=20)


def texts(chunks: list[Any]) -> str:
    return "".join(choice["delta"].get("content") or "" for chunk in chunks for choice in chunk["choices"])


def test_a_plain_answer_is_a_completion(serving: Serving) -> None:
    (completion,), reply, server = answers(serving, plain(anthropic_wire.message()), request(CLAUDE, temperature=0.5))
    assert completion["object"] == "chat.completion"
    assert completion["choices"][0]["message"]["content"] == "Hello there"
    assert anthropic_wire.COUNTED.items() <= json.loads(reply.usage).items()
    assert reply.finish_reason == "stop"
    sent = json.loads(server.calls[0].body)
    assert (sent["model"], sent["max_tokens"], sent["temperature"]) == ("claude-test", 9, 0.5)
    assert server.calls[0].head.startswith(b"POST /v1/messages HTTP/1.1\r\n")
    assert b"x-api-key: " + KEY.encode() in server.calls[0].head


@pytest.mark.parametrize("wanted", [False, True], ids=["unasked", "asked"])
def test_a_stream_ends_once_and_shows_its_usage_only_to_who_asked(serving: Serving, wanted: bool) -> None:
    fields = {"stream_options": {"include_usage": True}} if wanted else {}
    outgoing = request(CLAUDE, stream=True, **fields)
    chunks, reply, _ = answers(serving, streamed(*anthropic_wire.STREAM), outgoing)
    assert texts(chunks) == "Hello there"
    finished = [choice["finish_reason"] for chunk in chunks for choice in chunk["choices"]]
    assert [reason for reason in finished if reason] == ["stop"]
    assert [chunk for chunk in chunks if "usage" in chunk] == ([chunks[-1]] if wanted else [])
    assert anthropic_wire.COUNTED.items() <= json.loads(reply.usage).items()
    assert "cost" not in json.loads(reply.usage)
    assert reply.finish_reason == "stop"


def test_each_piece_of_a_stream_is_given_out_when_it_comes(serving: Serving) -> None:
    read = asyncio.Event

    async def main() -> None:
        seen = read()

        async def script(call: Call) -> None:
            await call.events(*anthropic_wire.START, anthropic_wire.text("Hello"), end=False)
            await seen.wait()
            for event in [*anthropic_wire.END, b""]:
                await call.answer(b"%x\r\n%s\r\n" % (len(event), event))

        async with serving(script) as server, provider_of(server) as provider:
            reply = await provider.send(request(CLAUDE, stream=True))
            assert b"Hello" in await reply.read()
            seen.set()
            while await reply.read():
                pass
            await reply.aclose()

    asyncio.run(main())


def test_calls_and_their_results_make_the_round_trip(serving: Serving) -> None:
    function = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
    used = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}
    called = {"id": "toolu_0", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bonn"}'}}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Weather?"},
        {"role": "assistant", "content": None, "tool_calls": [called]},
        {"role": "tool", "tool_call_id": "toolu_0", "content": "rain"},
        {"role": "user", "content": "And https://oslo.example?"},
    ]
    outgoing = request(CLAUDE, messages=messages, tools=[{"type": "function", "function": function}])
    (completion,), reply, server = answers(serving, plain(anthropic_wire.message(used, stop_reason="tool_use")), outgoing)
    choice = completion["choices"][0]
    assert (choice["finish_reason"], reply.finish_reason, choice["message"]["content"]) == ("tool_calls", "tool_calls", None)
    (call,) = choice["message"]["tool_calls"]
    assert (call["id"], json.loads(call["function"]["arguments"])) == ("toolu_1", {"city": "Oslo"})
    sent = json.loads(server.calls[0].body)
    assert [part["text"] for part in sent["system"]] == ["Be brief."]
    assert [message["role"] for message in sent["messages"]] == ["user", "assistant", "user"]
    assert sent["messages"][1]["content"][-1]["input"] == {"city": "Bonn"}
    assert sent["messages"][2]["content"][0]["tool_use_id"] == "toolu_0"
    assert sent["tools"][0]["name"] == "weather"


def test_gemini_answers_whole_and_in_pieces(serving: Serving) -> None:
    whole = json.dumps(gemini_wire.answer("Hello there", "STOP")).encode()
    (completion,), reply, server = answers(serving, plain(whole), request(GEMINI))
    assert completion["choices"][0]["message"]["content"] == "Hello there"
    assert gemini_wire.COUNTED.items() <= json.loads(reply.usage).items()
    assert server.calls[0].head.startswith(b"POST /models/gemini-2.5-pro:generateContent HTTP/1.1")
    chunks, reply, server = answers(serving, streamed(*gemini_wire.STREAM), request(GEMINI, stream=True))
    assert (texts(chunks), reply.finish_reason) == ("Hello there", "stop")
    assert gemini_wire.COUNTED.items() <= json.loads(reply.usage).items()
    assert server.calls[0].head.startswith(b"POST /models/gemini-2.5-pro:streamGenerateContent?alt=sse HTTP/1.1")


OVERFLOW = anthropic_wire.error("invalid_request_error", "prompt is too long: 210000 tokens > 200000 maximum")
RETRY = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "17s"}
DAILY = {"violations": [{"quotaId": "GenerateRequestsPerDayPerProjectPerModel"}]}
REFUSALS = [
    (CLAUDE, 401, anthropic_wire.error("authentication_error", "invalid x-api-key"), "PROVIDER_AUTH", {}),
    (CLAUDE, 429, anthropic_wire.error("rate_limit_error", "slow"), "PROVIDER_RATE_LIMIT", {"retry_after": 7.0}),
    (
        CLAUDE,
        400,
        anthropic_wire.error("invalid_request_error", "Your credit balance is too low"),
        "PROVIDER_QUOTA",
        {},
    ),
    (CLAUDE, 400, OVERFLOW, "PROVIDER_CONTEXT_OVERFLOW", {"providerLimit": 200000, "providerPromptTokens": 210000}),
    (CLAUDE, 529, anthropic_wire.error("overloaded_error", "Overloaded"), "PROVIDER_OVERLOADED", {}),
    (CLAUDE, 404, anthropic_wire.error("not_found_error", "model: x"), "PROVIDER_NOT_FOUND", {}),
    (CLAUDE, 500, b"<html>", "PROVIDER_SERVER_ERROR", {}),
    (CLAUDE, 302, b"", "PROVIDER_INVALID_RESPONSE", {}),
    (GEMINI, 400, gemini_wire.error(400, "INVALID_ARGUMENT", "API key not valid."), "PROVIDER_AUTH", {}),
    (
        GEMINI,
        429,
        gemini_wire.error(429, "RESOURCE_EXHAUSTED", "x", RETRY),
        "PROVIDER_RATE_LIMIT",
        {"retry_after": 7.0},
    ),
    (GEMINI, 429, gemini_wire.error(429, "RESOURCE_EXHAUSTED", "x", DAILY), "PROVIDER_QUOTA", {}),
]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize(("model", "status", "body", "code", "more"), REFUSALS)
def test_a_refusal_is_told_like_one_of_any_other_provider(
    serving: Serving, model: str, status: int, body: bytes, code: str, more: dict[str, Any], stream: bool
) -> None:
    calls: list[Call] = []

    async def script(call: Call) -> None:
        calls.append(call)
        await call.plain(body, status=status, headers=b"retry-after: 7\r\nlocation: http://127.0.0.1:1/\r\n")

    error = error_of(serving, script, request(model, stream=stream))
    assert error.code == code
    assert {"retry_after": error.retry_after, **error.metadata}.items() >= more.items()
    assert len(calls) == 1


@pytest.mark.parametrize("body", [b"{}", b"[]", b"hello", b'{"content": 5}'])
def test_what_is_no_completion_is_an_invalid_response(serving: Serving, body: bytes) -> None:
    assert error_of(serving, plain(body), request(CLAUDE)).code == "PROVIDER_INVALID_RESPONSE"


BEGUN = [*anthropic_wire.START, anthropic_wire.text("Hello")]
OVERLOADED = anthropic_wire.event(anthropic_wire.error("overloaded_error", "Overloaded"))
UNAVAILABLE = gemini_wire.event(gemini_wire.error(503, "UNAVAILABLE", "x"))
BROKEN = [
    (CLAUDE, BEGUN, False, "PROVIDER_STREAM_TRUNCATED"),
    (CLAUDE, BEGUN, True, "PROVIDER_STREAM_TRUNCATED"),
    (CLAUDE, [*BEGUN, OVERLOADED], False, "PROVIDER_OVERLOADED"),
    (CLAUDE, [*BEGUN, b"event: x\ndata: {nonsense\n\n"], False, "PROVIDER_STREAM_TRUNCATED"),
    (GEMINI, gemini_wire.STREAM[:1], False, "PROVIDER_STREAM_TRUNCATED"),
    (GEMINI, gemini_wire.STREAM[:1], True, "PROVIDER_STREAM_TRUNCATED"),
    (
        GEMINI,
        [gemini_wire.STREAM[0], UNAVAILABLE],
        False,
        "PROVIDER_OVERLOADED",
    ),
]


@pytest.mark.parametrize(("model", "events", "breaks", "code"), BROKEN)
def test_a_stream_that_breaks_fails_and_no_end_is_invented(
    serving: Serving, model: str, events: list[bytes], breaks: bool, code: str
) -> None:
    async def main() -> None:
        async with serving(streamed(*events, breaks=breaks)) as server, provider_of(server) as provider:
            reply = await provider.send(request(model, stream=True))
            whole = bytearray()
            with pytest.raises(GatewayError) as caught:
                await drained(reply, whole)
            assert caught.value.code == code
            assert b"Hello" in whole
            assert b'"finish_reason":"' not in whole
            assert not reply.ended
            await reply.aclose()

    asyncio.run(main())


def test_a_connection_that_breaks_after_the_end_breaks_nothing(serving: Serving) -> None:
    _, reply, _ = answers(serving, streamed(*anthropic_wire.STREAM, breaks=True), request(CLAUDE, stream=True))
    assert reply.finish_reason == "stop"


@pytest.mark.parametrize(
    ("events", "code"),
    [([OVERLOADED], "PROVIDER_OVERLOADED"), ([], "PROVIDER_INVALID_RESPONSE"), (BEGUN[:1], "PROVIDER_INVALID_RESPONSE")],
)
def test_a_stream_that_fails_before_its_first_chunk_is_a_plain_error(serving: Serving, events: list[bytes], code: str) -> None:
    async def main() -> None:
        async with serving(streamed(*events)) as server, provider_of(server) as provider:
            with pytest.raises(GatewayError) as caught:
                await provider.send(request(CLAUDE, stream=True))
            assert caught.value.code == code

    asyncio.run(main())


@pytest.mark.parametrize(("stream", "events"), [(False, []), (True, []), (True, BEGUN)], ids=["plain", "silent", "amid"])
def test_a_silent_provider_is_given_up(serving: Serving, stream: bool, events: list[bytes]) -> None:
    async def script(call: Call) -> None:
        if events:
            await call.events(*events, end=False)
        await call.left()

    error = error_of(serving, script, request(CLAUDE, stream=stream), timeouts=QUICK)
    assert (error.code, error.metadata["timeoutSeconds"]) == ("PROVIDER_TIMEOUT", 0.3)


@pytest.mark.parametrize(("stream", "events"), [(False, []), (True, []), (True, BEGUN)], ids=["plain", "silent", "amid"])
def test_who_leaves_closes_the_connection(serving: Serving, stream: bool, events: list[bytes]) -> None:
    async def main() -> None:
        arrived, left = asyncio.Event(), asyncio.Event()

        async def script(call: Call) -> None:
            if events:
                await call.events(*events, end=False)
            arrived.set()
            await call.left()
            left.set()

        async with serving(script) as server, provider_of(server) as provider:
            reading = asyncio.create_task(read_all(provider, request(CLAUDE, stream=stream)))
            await arrived.wait()
            await asyncio.sleep(0.05)
            reading.cancel()
            with pytest.raises(asyncio.CancelledError):
                await reading
            await asyncio.wait_for(left.wait(), LEAVING_S)

    asyncio.run(main())


def test_closing_a_reply_amid_its_stream_closes_the_connection(serving: Serving) -> None:
    async def script(call: Call) -> None:
        await call.events(*BEGUN, end=False)
        await call.left()

    async def main() -> None:
        async with serving(script) as server, provider_of(server) as provider:
            reply = await provider.send(request(CLAUDE, stream=True))
            await reply.aclose()
            await reply.aclose()
            await asyncio.wait_for(server.closed.wait(), LEAVING_S)

    asyncio.run(main())


def test_a_connection_is_used_again(serving: Serving) -> None:
    async def main() -> None:
        async with serving(streamed(*anthropic_wire.STREAM)) as server, provider_of(server) as provider:
            for _ in range(2):
                await read_all(provider, request(CLAUDE, stream=True))
            assert [call.connection for call in server.calls] == [1, 1]

    asyncio.run(main())


def test_nobody_listens() -> None:
    async def main() -> None:
        listener = await asyncio.start_server(lambda *_: None, "127.0.0.1", 0)
        port = listener.sockets[0].getsockname()[1]
        listener.close()
        await listener.wait_closed()
        async with provider_of(Server(port)) as provider:
            with pytest.raises(GatewayError) as caught:
                await provider.send(request(CLAUDE))
        assert caught.value.code == "PROVIDER_UNREACHABLE"
        assert str(port) not in caught.value.message

    asyncio.run(main())
