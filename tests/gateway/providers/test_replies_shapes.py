"""Answers in another shape than the one that was asked for: converted, with every rule of a stream, or refused as a whole."""

from __future__ import annotations

import json

import pytest

from gateway.errors import (
    ProviderInvalidResponse,
    ProviderRateLimit,
    ProviderServerError,
    ProviderStreamTruncated,
)
from tests.gateway.providers.test_replies import CHUNK, COMPLETION, DONE, STOP, read_all, run, send

LINES = CHUNK[6:-1] + b" \r\n" + STOP[6:]
LIMITED = b'data: {"error":{"code":429,"message":"sk-secret"}}\n\n'


def answered(serving, *pieces, stream):
    """What is read of an answer in these pieces."""

    async def script(call):
        await call.events(*pieces, pause_s=0.02)

    async def test(server, provider):
        return await read_all(provider, stream=stream)

    return run(serving, script, test)


@pytest.mark.parametrize("pieces", [(LINES,), (LINES[:90], LINES[90:]), (b" \n", LINES + b"\n\n")])
def test_lines_of_json_are_a_stream(serving, pieces):
    assert answered(serving, *pieces, stream=True) == CHUNK.rstrip() + b"\n\n" + STOP + DONE
    whole = json.loads(answered(serving, *pieces, stream=False))
    assert whole["choices"] == [{"index": 0, "message": {"content": "hi"}, "finish_reason": "stop"}]


def test_a_completion_on_several_lines_is_one(serving):
    spread = json.dumps(json.loads(COMPLETION), indent=1).encode() + b"\n"
    assert answered(serving, spread, stream=False) == spread


@pytest.mark.parametrize(
    ("rest", "kind"),
    [
        (b"", ProviderInvalidResponse),
        (DONE, ProviderInvalidResponse),
        (b"data: {damaged\n\n", ProviderServerError),
        (LIMITED, ProviderRateLimit),
    ],
)
def test_of_a_stream_that_breaks_no_part_is_an_answer(serving, rest, kind):
    with pytest.raises(kind) as caught:
        answered(serving, CHUNK, rest or b": c\n\n", stream=False)
    assert type(caught.value) is kind
    assert "secret" not in caught.value.message


def test_a_completion_without_an_end_becomes_a_stream_without_one(serving):
    async def script(call):
        await call.plain(COMPLETION.replace(b'"stop"', b"null"))

    async def test(server, provider):
        reply = await send(provider, True)
        first = await reply.read()
        with pytest.raises(ProviderStreamTruncated):
            await reply.read()
        await reply.aclose()
        return first

    assert b'"content":"hi"' in run(serving, script, test)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("text", [b"internal error", b"<html>", b"data", b"\xef\xbb\xbf"])
def test_a_text_is_no_answer(serving, stream, text):
    with pytest.raises(ProviderInvalidResponse) as caught:
        answered(serving, text, stream=stream)
    assert text.decode() not in caught.value.message
