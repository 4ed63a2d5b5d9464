"""Any stream at all: what is legal passes byte for byte, cuts change nothing, and what goes on is legal whatever came."""

from __future__ import annotations

import itertools
import json

from hypothesis import given
from hypothesis import strategies as st

from gateway.providers.stream_rules import DONE, StreamRules
from tests.gateway.providers.test_stream_rules import STOP, chunk, passed
from tests.support.legal_stream import legal_events, require_chunks, require_legal


def called(arguments: str) -> bytes:
    """A part of a tool call."""
    call = {"index": 0, "id": "call_1", "function": {"name": "f", "arguments": arguments}}
    return b"data: " + json.dumps({"choices": [{"index": 1, "delta": {"tool_calls": [call]}}]}).encode() + b"\n\n"


def cut(stream: bytes, places: list[int]) -> list[bytes]:
    """The stream in pieces."""
    edges = [0, *sorted(place for place in places if place < len(stream)), len(stream)]
    return [stream[a:b] for a, b in itertools.pairwise(edges)]


EVENTS = st.lists(
    st.one_of(
        st.text(max_size=12).map(chunk),
        st.text(max_size=6).map(lambda text: chunk(text).replace(b"\n", b"\r\n")),
        st.text('{}[]":\\\n ', max_size=12).map(called),
        st.integers(0, 2).map(lambda index: chunk("n", None, index)),
        st.sampled_from([b": keep-alive\n\n", b":\n\n", b": a\n" + chunk(), b'data:{"choices":[],"usage":{"a":1}}\n\n']),
    ),
    max_size=8,
)
LEGAL = EVENTS.map(lambda events: b"".join([*events, *(chunk("", "stop", index) for index in range(3)), DONE]))
NOTES = (b"id: 1\n", b"event: x\n", b"event: error\n", b"retry: 1\n", b": ping\n", b":data: 1\n", b": \xff\x00\n")
LINE_ENDS = (b"\n", b"\r\n", b"\r", b"\n\n")
SPLINTERS = (b"\xef\xbb\xbf", b"\xc3", b"\x00", b" ", b"}", b"[1]", b"<html>", b'"', b"data", b"data:\n")
CHUNKS = (
    *(chunk(), chunk()[:-1], chunk()[6:-1], chunk()[:30], chunk("ü", None, 1), called('{"a'), b'data: {"a":\n'),
    *(STOP, chunk("", "stop", 1), b"data: [DONE]", b"data: NaN\n", b'data: {"choices":null}\n\n'),
    *(b'data: {"choices":[{"t":"\xff"}]}\n\n', b'data: {"choices":[\ndata: {}]}\n\n'),
    b'data: {"choices":[{"x":NaN}],"error":null}\n\n',
)
ERRORS = (b'data: {"error":"e"}\n\n', b'error: {"code":429}\n\n', b'{"object":"error"}\n\n')
FRAGMENTS = st.lists(st.sampled_from(NOTES + LINE_ENDS + SPLINTERS + CHUNKS * 3 + ERRORS), max_size=14).map(b"".join)
ILLEGAL = FRAGMENTS.map(lambda fragments: fragments + STOP + DONE)
PLACES = st.lists(st.integers(0, 900), max_size=10)


@given(LEGAL, PLACES)
def test_a_legal_stream_cut_anywhere_comes_out_byte_exact(stream, places):
    require_legal(stream)
    assert passed(*cut(stream, places))[0] == stream


@given(LEGAL)
def test_a_legal_stream_in_single_bytes_comes_out_byte_exact(stream):
    assert passed(*(stream[at : at + 1] for at in range(len(stream))))[0] == stream


@given(LEGAL, st.integers(0, 2000))
def test_of_a_legal_stream_that_breaks_off_only_whole_events_go_on(stream, length):
    rules = StreamRules()
    out = rules.feed(stream[:length])
    assert stream.startswith(out)
    legal_events(out)
    rest = rules.finish()
    assert rules.done == (rules.failure is None)
    assert rules.failure is not None or require_legal(out + rest)


@given(ILLEGAL, PLACES)
def test_cuts_change_nothing_in_an_illegal_stream(stream, places):
    whole, rules = passed(stream)
    pieces, cut_rules = passed(*cut(stream, places))
    assert (pieces, type(cut_rules.failure)) == (whole, type(rules.failure))


@given(st.one_of(ILLEGAL, FRAGMENTS, st.binary(max_size=60)))
def test_whatever_came_what_goes_on_is_legal(stream):
    out, rules = passed(stream)
    events = legal_events(out)
    require_chunks([event for event in events if event != "[DONE]"], finished=rules.done)
    assert ("[DONE]" in events) == rules.done == (rules.failure is None)
