"""What a client may see of a stream, and how it may end."""

from __future__ import annotations

import json

import pytest

from gateway.errors import (
    ProviderContextOverflow,
    ProviderInvalidResponse,
    ProviderOverloaded,
    ProviderRateLimit,
    ProviderStreamError,
    ProviderStreamTruncated,
)
from gateway.providers.stream_rules import DONE, StreamRules


def chunk(text: str = "x", reason: str | None = None, index: int = 0, **more: object) -> bytes:
    choice = {"index": index, "delta": {"content": text}, "finish_reason": reason}
    return b"data: " + json.dumps({"choices": [choice], **more}, ensure_ascii=False).encode() + b"\n\n"


def passed(*chunks: bytes) -> tuple[bytes, StreamRules]:
    rules = StreamRules()
    out = b"".join(rules.feed(piece) for piece in chunks)
    return out + (b"" if rules.over else rules.finish()), rules


STOP = chunk("", "stop")


def test_a_legal_stream_passes_byte_for_byte():
    stream = b": hello\n\n" + chunk("a") + b":\n\n" + b": c\n" + chunk("b") + STOP + DONE
    assert passed(stream)[0] == stream
    crlf = stream.replace(b"\n", b"\r\n")
    assert passed(crlf)[0] == crlf


@pytest.mark.parametrize(
    ("came", "goes"),
    [
        (b"event: message\nid: 1\nretry: 5\n" + chunk(), chunk()),
        (b'data: {"choices":\ndata: [{"index":0}]}\n\n', b'data: {"choices": [{"index":0}]}\n\n'),
        (b"\xef\xbb\xbf" + chunk(), chunk()),
        (b": ping - 12:00\n\n" + chunk(), b": keep-alive\n\n" + chunk()),
        (b":data: {}\n\n" + chunk(), b": keep-alive\n\n" + chunk()),
        (b": PING\n" + chunk(), b": keep-alive\n" + chunk()),
        (b": OPENROUTER PROCESSING\n\n" + chunk(), b": OPENROUTER PROCESSING\n\n" + chunk()),
        (b": key sk-1\n\n" + chunk(), b": keep-alive\n\n" + chunk()),
        (": é\u2028\n\n".encode() + chunk(), b": keep-alive\n\n" + chunk()),
        (b": \xff\n\n" + chunk(), b": keep-alive\n\n" + chunk()),
        (chunk("a")[:-1] + chunk("b"), chunk("a") + chunk("b")),
        (b"id: 1\r\n" + chunk("a")[:-1] + b": c\n" + chunk("b"), b": c\n\n" + chunk("a") + chunk("b")),
        (chunk("a")[6:-1] + chunk("b")[6:], chunk("a") + chunk("b")),
        (b"event: error\n\n" + chunk(), chunk()),
        (b"event: error\ndata:  \n\n" + chunk(), chunk()),
        (b'data: {"choices":[{"index":0,"error":null}]}\n\n', b'data: {"choices":[{"index":0,"error":null}]}\n\n'),
        (b'data: {"choices":[{"index":0,"t":"\xff"}]}\n\n', 'data: {"choices":[{"index":0,"t":"\ufffd"}]}\n\n'.encode()),
        (b'data: \xef\xbb\xbf{"choices":[{"index":0}]}\n\n', b'data: {"choices":[{"index":0}]}\n\n'),
        (b"event: ping\n\n" + chunk(), chunk()),
        (b"data:\n\n" + chunk(), chunk()),
        (b'data: {"type": "ping"}\n\n' + chunk(), chunk()),
        (b'data: "ok"\n\n' + chunk(), chunk()),
        (b'data: {"choices":[{"index":0}],"error":null}\n\n', b'data: {"choices":[{"index":0}]}\n\n'),
        (b'data: {"choices":[{"index":0,"p":NaN}]}\n\n', b'data: {"choices":[{"index":0,"p":null}]}\n\n'),
        (b'data: {"choices":[{"index":0,"p":NaN}],"error":null}\n\n', b'data: {"choices":[{"index":0,"p":null}]}\n\n'),
        (chunk().replace(b"\n", b"\r"), chunk()),
        (b'data: {"choices":null}\n\n' + chunk(), chunk()),
        (b'data: {"error":null}\n\n' + chunk(), chunk()),
    ],
)
def test_what_a_client_would_stumble_over_is_written_anew(came, goes):
    out, rules = passed(came, STOP, DONE)
    assert out == goes + STOP + DONE
    assert rules.failure is None


def test_nothing_follows_done():
    assert passed(chunk() + STOP + DONE + chunk("late") + b": c\n\n", chunk("later"))[0] == chunk() + STOP + DONE


def test_nothing_follows_done_in_an_event_either():
    assert passed((chunk("a") + STOP + DONE + chunk("late")).replace(b"\n\n", b"\n") + b"\n")[0] == chunk("a") + STOP + DONE


@pytest.mark.parametrize("end", [b"data: [DONE]  \n\n", b"data: [DONE]", b"data: [DONE]\n", b"", b": bye\n", b'data: {"cut'])
def test_a_finished_stream_ends_with_done(end):
    out, rules = passed(chunk() + STOP, end)
    assert out == chunk() + STOP + DONE
    assert rules.failure is None


@pytest.mark.parametrize("cut", [b"", b"data: [DONE]", b'data: {"choices":[{"in', b"data: "])
def test_what_lost_its_blank_lines_counts_as_far_as_it_is_whole(cut):
    out, rules = passed(chunk("a")[:-1] + chunk("b")[:-1] + STOP[:-1] + cut)
    assert (out, rules.failure) == (chunk("a") + chunk("b") + STOP + DONE, None)


def test_a_last_chunk_without_its_blank_line_counts():
    out, rules = passed(chunk(), STOP[:-1])
    assert (out, rules.finish_reason) == (chunk() + STOP + DONE, "stop")


@pytest.mark.parametrize("end", [b"", DONE, chunk()[:-9]])
def test_an_end_without_finish_reason_is_truncated(end):
    out, rules = passed(chunk(), end)
    assert out == chunk()
    assert isinstance(rules.failure, ProviderStreamTruncated)


def test_each_choice_needs_its_own_finish_reason():
    stream = chunk("a", None, 0) + chunk("b", None, 1) + chunk("", "stop", 1)
    assert isinstance(passed(stream, DONE)[1].failure, ProviderStreamTruncated)
    out, rules = passed(stream, chunk("", "length", 0), DONE)
    assert (rules.failure, rules.finish_reason) == (None, "length")
    assert out.endswith(DONE)


@pytest.mark.parametrize("stream", [b"", DONE, b": c\n\n", b'data: {"a": 1}\n\n', b"data: {cut\n\n", b"<html>"])
def test_a_stream_without_a_chunk_is_no_answer(stream):
    out, rules = passed(stream)
    assert isinstance(rules.failure, ProviderInvalidResponse)
    assert b"data" not in out


def test_a_chunk_after_its_finish_reason_opens_nothing():
    stream = chunk() + STOP + chunk("") + DONE
    assert passed(stream)[0] == stream


def test_usage_is_the_last_that_is_not_null():
    usage = b'data: {"choices":[],"usage":{"prompt_tokens": 2.0}}\n\n'
    stream = chunk(usage={"prompt_tokens": 1}) + chunk("", "stop", usage=None) + usage
    out, rules = passed(stream, DONE)
    assert (out, rules.usage) == (stream + DONE, b'{"prompt_tokens": 2.0}')


def test_usage_of_a_dropped_event_is_read():
    assert passed(chunk() + STOP + b'data: {"usage":{"a":1}}\n\n' + DONE)[1].usage == b'{"a":1}'


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (b'{"error":{"code":429,"message":"slow"}}', ProviderRateLimit),
        (b'{"choices":[],"error":{"code":502,"message":"sk-secret"}}', ProviderStreamError),
        (b'{"error":{"type":"server_error","code":null}}', ProviderStreamError),
        (b'{"type":"error","error":{"type":"overloaded_error","message":"x"}}', ProviderOverloaded),
        (b'{"object":"error","message":"x","code":"1000"}', ProviderStreamError),
        (b'{"error":"text"}', ProviderStreamError),
        (b'{"type":"error","message":"x"}', ProviderStreamError),
        (b'{"choices":[{"index":0,"finish_reason":"error","error":{"code":429,"message":"sk-secret"}}]}', ProviderRateLimit),
        (b'{"choices":[{"index":0},{"index":1,"error":{"code":429}}]}', ProviderRateLimit),
        (b'{"choices":[{"index":0,"x":NaN,"error":"sk-secret"}]}', ProviderStreamError),
        (b"{damaged", ProviderStreamError),
    ],
)
def test_an_error_in_mid_stream_ends_it(error, kind):
    out, rules = passed(chunk() + b"data: " + error + b"\n\n" + chunk("late") + DONE)
    assert out == chunk()
    assert type(rules.failure) is kind
    assert "secret" not in rules.failure.message


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (b'event: error\ndata: {"code":429,"message":"sk-secret"}\n\n', ProviderRateLimit),
        (b'event: error\r\ndata: {"error":{"code":429}}\r\n\r\n', ProviderRateLimit),
        (b"event: error\ndata: sk-secret\n\n", ProviderStreamError),
        (b'event: error\ndata: {"choices":[{"index":0,"delta":{"content":"no chunk"}}]}\n\n', ProviderStreamError),
        (b'event: error\ndata: {"code":\ndata: 429}\n\n', ProviderRateLimit),
        (b'error: {"code":429,"message":"slow"}\n\n', ProviderRateLimit),
        (b'error: {"code":429,"mess\n\n', ProviderRateLimit),
        (b'{"error":{"code":429}}\n\n', ProviderRateLimit),
        (b'data: {"choices":[]}\ndata: {"error":{"code":429}}\n\n', ProviderRateLimit),
    ],
)
@pytest.mark.parametrize("started", [True, False])
def test_errors_have_many_spellings(error, kind, started):
    out, rules = passed((chunk() if started else b"") + error, b"data: late\n\n" + DONE)
    assert out.replace(b'data: {"choices":[]}\n\n', b"") == (chunk() if started else b"")
    assert rules.failure is not None
    assert started or type(rules.failure) is not ProviderStreamError
    assert kind is ProviderStreamError or type(rules.failure) is kind
    assert "secret" not in rules.failure.message


def test_a_choice_that_was_broken_off_without_a_word_is_a_choice():
    ended = chunk("", "error")
    assert passed(chunk() + ended + DONE)[0] == chunk() + ended + DONE


def test_an_event_of_endless_lines_fails_the_stream(monkeypatch):
    monkeypatch.setattr("gateway.providers.event_stream.MAX_EVENT_LINES", 100)
    for stream in (b":\n" * 200, b":\n" * 200 + b"\n"):
        assert isinstance(passed(chunk(), stream)[1].failure, ProviderInvalidResponse)


def test_an_error_as_the_first_event_is_classified_as_an_answer():
    overflow = b'data: {"error":{"message":"maximum context length is 100 tokens"}}\n\n'
    failure = passed(overflow)[1].failure
    assert isinstance(failure, ProviderContextOverflow)
    assert failure.metadata == {"providerLimit": 100}


def test_an_endless_event_fails_the_stream(monkeypatch):
    monkeypatch.setattr("gateway.providers.event_stream.MAX_EVENT_BYTES", 100)
    assert isinstance(passed(chunk(), b"data: " + b"x" * 200)[1].failure, ProviderInvalidResponse)
