"""A reply says itself when its last bytes have been given out; an audit relies on it."""

from __future__ import annotations

import pytest

from gateway.errors import ProviderRateLimit
from tests.gateway.providers.test_replies import CHUNK, COMPLETION, DONE, STOP, run, send

TALK = b'data: {"choices":[{"index":0,"delta":{"content":"data: [DONE]"},"finish_reason":null}]}\n\n'


@pytest.mark.parametrize("last", [(DONE,), (STOP + DONE,), ()])
def test_a_stream_has_ended_with_its_last_word_and_not_with_that_word_in_a_text(serving, last):
    async def script(call):
        await call.events(TALK, CHUNK, STOP, *last, pause_s=0.02)

    async def test(server, provider):
        reply = await send(provider, True)
        ends = [(reply.ended, b"")]
        while part := await reply.read():
            ends.append((reply.ended, part))
        await reply.aclose()
        return ends

    *before, end = run(serving, script, test)
    assert (end[0], end[1][-len(DONE) :]) == (True, DONE)
    assert before == [(False, b""), (False, TALK), (False, CHUNK), (False, STOP)]


@pytest.mark.parametrize("pieces", [(CHUNK + STOP + DONE,), (COMPLETION,)])
@pytest.mark.parametrize("stream", [True, False])
def test_what_comes_as_a_whole_has_ended_once_it_is_read(serving, pieces, stream):
    async def script(call):
        await call.events(*pieces)

    async def test(server, provider):
        reply = await send(provider, stream)
        before = reply.ended
        part = await reply.read()
        ended = reply.ended
        assert await reply.read() == b""
        await reply.aclose()
        return before, bool(part), ended

    assert run(serving, script, test) == (False, True, True)


def test_an_error_is_no_end_of_a_stream(serving):
    async def script(call):
        await call.events(CHUNK + b'data: {"error":{"code":429}}\n\n')

    async def test(server, provider):
        reply = await send(provider, True)
        ends = [(await reply.read(), reply.ended)]
        with pytest.raises(ProviderRateLimit):
            await reply.read()
        await reply.aclose()
        return [*ends, reply.ended]

    assert run(serving, script, test) == [(CHUNK, False), False]
