"""Open answers over a real connection: time, breaks, closing."""

from __future__ import annotations

import asyncio
import gzip
import time
import zlib

import pytest

from gateway.errors import (
    ProviderInvalidResponse,
    ProviderPayloadTooLarge,
    ProviderRateLimit,
    ProviderServerError,
    ProviderStreamTruncated,
    ProviderTimeout,
    ProviderUnreachable,
)
from gateway.providers.base import OutgoingRequest, ProviderConfig, Timeouts
from gateway.providers.openai_compatible import OpenAICompatibleProvider

COMPLETION = b'{"choices":[{"index":0,"message":{"content":"hi"},"finish_reason":"stop"}]}'
CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n'
STOP = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\n'
DONE = b"data: [DONE]\n\n"


def run(serving, script, test, **timeouts):
    async def main():
        async with serving(script) as server:
            provider = OpenAICompatibleProvider(ProviderConfig("p", server.url, timeouts=Timeouts(**timeouts)))
            try:
                return await test(server, provider)
            finally:
                await provider.aclose()

    return asyncio.run(main())


async def send(provider, stream):
    return await provider.send(OutgoingRequest(b"{}", stream=stream))


async def read_all(provider, *, stream):
    reply = await send(provider, stream)
    parts = []
    try:
        while part := await reply.read():
            parts.append(part)
    finally:
        await reply.aclose()
    return b"".join(parts)


def test_events_pass_one_by_one_as_they_come_and_the_connection_is_used_again(serving):
    async def script(call):
        await call.events(CHUNK[:20], CHUNK[20:], STOP, DONE, pause_s=0.05)

    async def test(server, provider):
        parts = []
        for _ in range(2):
            reply = await send(provider, True)
            while part := await reply.read():
                parts.append(part)
            assert await reply.read() == b""
            await reply.aclose()
        return parts, [call.connection for call in server.calls]

    assert run(serving, script, test) == ([CHUNK, STOP, DONE] * 2, [1, 1])


def test_send_waits_for_the_first_data_event_and_holds_comments_back(serving):
    async def script(call):
        await call.events(b": a\n\n", b": b\n\n", CHUNK, STOP, DONE, pause_s=0.05)

    async def test(server, provider):
        started = time.perf_counter()
        reply = await send(provider, True)
        waited = time.perf_counter() - started
        first = await reply.read()
        await reply.aclose()
        return waited, first

    waited, first = run(serving, script, test)
    assert waited > 0.08
    assert first == b": a\n\n: b\n\n" + CHUNK


def test_comments_held_back_are_bounded(serving, monkeypatch):
    monkeypatch.setattr("gateway.providers.replies._MAX_HELD_BYTES", 10)

    async def script(call):
        await call.events(*[b": comment\n\n"] * 4, CHUNK, STOP, DONE, pause_s=0.01)

    async def test(server, provider):
        return await read_all(provider, stream=True)

    assert run(serving, script, test) == CHUNK + STOP + DONE


@pytest.mark.parametrize("pieces", [(), (b": still here\n\n",) * 40])
def test_the_first_token_has_a_deadline_comments_or_not(serving, pieces):
    async def script(call):
        await call.events(*pieces, pause_s=0.05, end=False)
        await call.left()

    async def test(server, provider):
        with pytest.raises(ProviderTimeout, match=r"first token within 0\.3 s"):
            await send(provider, True)
        await asyncio.wait_for(server.closed.wait(), 1)

    run(serving, script, test, first_token_s=0.3)


def test_the_first_token_deadline_spans_the_head(serving):
    async def script(call):
        await call.left()

    async def test(server, provider):
        for stream in (True, False):
            with pytest.raises(ProviderTimeout, match="first token"):
                await send(provider, stream)

    run(serving, script, test, first_token_s=0.1)


def test_the_first_token_deadline_spans_the_body_of_a_plain_answer(serving):
    async def script(call):
        await call.answer(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n")
        await call.left()

    async def test(server, provider):
        reply = await send(provider, False)
        with pytest.raises(ProviderTimeout, match="first token"):
            await reply.read()
        await reply.aclose()

    run(serving, script, test, first_token_s=0.1)


def test_silence_in_mid_stream_and_a_stream_that_never_ends_are_timeouts(serving):
    async def script(call):
        await call.events(*[CHUNK] * (1 if call.number == 1 else 100), pause_s=0.02, end=False)
        await call.left()

    async def test(server, provider):
        with pytest.raises(ProviderTimeout, match=r"silent .* within 0\.15 s"):
            await read_all(provider, stream=True)
        with pytest.raises(ProviderTimeout, match=r"finish its answer within 0\.4 s"):
            await read_all(provider, stream=True)

    run(serving, script, test, idle_s=0.15, total_s=0.4)


def test_silence_after_every_choice_has_finished_is_an_end(serving):
    async def script(call):
        await call.events(CHUNK, STOP, end=False)
        await call.left()

    async def test(server, provider):
        return await read_all(provider, stream=True)

    assert run(serving, script, test, idle_s=0.1) == CHUNK + STOP + DONE


@pytest.mark.parametrize("reset", [True, False])
def test_a_break_in_mid_stream_is_truncated_after_what_came(serving, reset):
    async def script(call):
        await call.events(CHUNK, CHUNK[:30], pause_s=0.05, end=False)
        call.reset() if reset else call.writer.close()

    async def test(server, provider):
        reply = await send(provider, True)
        first = await reply.read()
        with pytest.raises(ProviderStreamTruncated):
            await reply.read()
        await reply.aclose()
        return first

    assert run(serving, script, test) == CHUNK


def test_a_break_after_the_last_finish_reason_is_an_end(serving):
    async def script(call):
        await call.events(CHUNK, STOP, end=False)
        call.writer.close()

    async def test(server, provider):
        return await read_all(provider, stream=True)

    assert run(serving, script, test) == CHUNK + STOP + DONE


def test_a_break_before_the_first_event_or_in_a_plain_body_is_unreachable(serving):
    async def script(call):
        await call.answer(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n{")
        await asyncio.sleep(0.02)
        call.reset()

    async def test(server, provider):
        reply = await send(provider, False)
        with pytest.raises(ProviderUnreachable):
            await reply.read()
        await reply.aclose()
        with pytest.raises(ProviderUnreachable):
            await send(provider, True)

    run(serving, script, test)


@pytest.mark.parametrize("stream", [True, False])
def test_closing_a_reply_closes_the_upstream_within_milliseconds(serving, stream):
    async def script(call):
        if stream:
            await call.events(CHUNK, end=False)
        else:
            await call.answer(b"HTTP/1.1 200 OK\r\ncontent-length: 50\r\n\r\n ")
        await call.left()

    async def test(server, provider):
        reply = await send(provider, stream)
        started = time.perf_counter()
        await reply.aclose()
        await asyncio.wait_for(server.closed.wait(), 1)
        return time.perf_counter() - started

    assert run(serving, script, test) < 0.3


@pytest.mark.parametrize("stage", ["head", "first event", "read"])
def test_cancelling_at_any_await_leaves_nothing_open(serving, stage):
    async def script(call):
        if stage != "head":
            await call.events(*([CHUNK] if stage == "read" else []), end=False)
        await call.left()

    async def test(server, provider):
        task = asyncio.create_task(read_all(provider, stream=True))
        await asyncio.sleep(0.1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await asyncio.wait_for(server.closed.wait(), 1)

    run(serving, script, test)


def test_what_stays_open_after_done_is_closed_soon(serving):
    async def script(call):
        await call.events(CHUNK, STOP, DONE, CHUNK, end=False)
        await call.left()

    async def test(server, provider):
        started = time.perf_counter()
        body = await read_all(provider, stream=True)
        await asyncio.wait_for(server.closed.wait(), 1)
        return body, time.perf_counter() - started

    body, seconds = run(serving, script, test)
    assert body == CHUNK + STOP + DONE
    assert seconds < 0.8


def test_a_refusal_is_read_in_bounded_time_and_size(serving, monkeypatch):
    monkeypatch.setattr("gateway.providers.openai_compatible._REFUSAL_S", 0.1)

    async def script(call):
        await call.answer(b"HTTP/1.1 %d X\r\ncontent-length: 999999\r\n\r\n" % (500 if call.number == 1 else 413))
        await call.answer(b"x" * (10 if call.number == 1 else 300_000))
        await call.left()

    async def test(server, provider):
        started = time.perf_counter()
        with pytest.raises(ProviderServerError):
            await send(provider, True)
        with pytest.raises(ProviderPayloadTooLarge):
            await send(provider, True)
        return time.perf_counter() - started

    assert run(serving, script, test) < 1


@pytest.mark.parametrize("encoding", [b"gzip", b"deflate", b"raw"])
@pytest.mark.parametrize("stream", [True, False])
def test_a_compressed_answer_is_read_though_none_was_asked_for(serving, encoding, stream):
    def compressed(body):
        if encoding == b"gzip":
            return gzip.compress(body)
        return zlib.compress(body) if encoding == b"deflate" else zlib.compress(body)[2:-4]

    async def script(call):
        name = b"gzip" if encoding == b"gzip" else b"deflate"
        await call.plain(compressed(CHUNK + STOP + DONE if stream else COMPLETION), headers=b"content-encoding: %s\r\n" % name)

    async def test(server, provider):
        return await read_all(provider, stream=stream)

    assert run(serving, script, test) == (CHUNK + STOP + DONE if stream else COMPLETION)


@pytest.mark.parametrize("body", [b"\x1f\x8b damaged", b"no zlib", gzip.compress(COMPLETION)[:30] + b"xxxx" * 20])
def test_damaged_compression_is_an_invalid_response(serving, body):
    async def script(call):
        await call.plain(body, headers=b"content-encoding: gzip\r\n")

    async def test(server, provider):
        with pytest.raises(ProviderInvalidResponse):
            await read_all(provider, stream=False)

    run(serving, script, test)


def test_what_grows_without_bounds_is_refused(serving, monkeypatch):
    monkeypatch.setattr("gateway.providers.upstream._MAX_EXPANDED", 1000)
    monkeypatch.setattr("gateway.providers.replies.MAX_ANSWER_BYTES", 2000)

    async def script(call):
        if call.number == 1:
            await call.plain(gzip.compress(b" " * 100_000), headers=b"content-encoding: gzip\r\n")
        else:
            await call.plain(b" " * 3000)

    async def test(server, provider):
        with pytest.raises(ProviderInvalidResponse, match="1000"):
            await read_all(provider, stream=False)
        with pytest.raises(ProviderInvalidResponse, match="2000"):
            await read_all(provider, stream=False)

    run(serving, script, test)


def test_the_context_limit_takes_two_seconds_at_most(serving, monkeypatch):
    monkeypatch.setattr("gateway.providers.openai_compatible._LIMIT_S", 0.1)

    async def script(call):
        await call.left()

    async def test(server, provider):
        started = time.perf_counter()
        return await provider.context_limit("m"), time.perf_counter() - started

    limit, seconds = run(serving, script, test)
    assert limit is None
    assert seconds < 1


@pytest.mark.parametrize("stream", [True, False])
def test_blanks_before_an_answer_are_no_answer_yet(serving, stream):
    async def script(call):
        await call.events(b" ", b"\n", COMPLETION, pause_s=0.02)

    async def test(server, provider):
        return await read_all(provider, stream=stream)

    body = run(serving, script, test)
    assert body.endswith(DONE) if stream else body == b" \n" + COMPLETION


def test_an_error_in_mid_stream_comes_after_what_was_legal(serving):
    async def script(call):
        await call.events(CHUNK + b'data: {"error":{"code":429}}\n\n' + CHUNK)

    async def test(server, provider):
        reply = await send(provider, True)
        first = await reply.read()
        for _ in range(2):
            with pytest.raises(ProviderRateLimit):
                await reply.read()
        await reply.aclose()
        return first

    assert run(serving, script, test) == CHUNK


def test_a_plain_answer_in_pieces_is_one(serving):
    async def script(call):
        await call.events(COMPLETION[:10], COMPLETION[10:30], COMPLETION[30:], pause_s=0.02)

    async def test(server, provider):
        return await read_all(provider, stream=False)

    assert run(serving, script, test) == COMPLETION
