"""Events out of bytes, whatever the cuts."""

from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.errors import ProviderInvalidResponse
from gateway.providers import event_stream
from gateway.providers.event_stream import Event, EventReader


def read(*chunks: bytes) -> list[Event]:
    reader = EventReader()
    return [event for chunk in chunks for event in reader.feed(chunk)]


def test_a_plain_event_keeps_its_bytes():
    assert read(b"data: {}\n\n") == [Event(b"data: {}\n\n", b"{}")]


def test_many_events_in_one_chunk_and_the_rest_is_held():
    reader = EventReader()
    assert [event.data for event in reader.feed(b"data: 1\n\ndata: 2\n\nda")] == [b"1", b"2"]
    assert [event.data for event in reader.feed(b"ta: 3\n\n")] == [b"3"]
    assert reader.finish() is None


@pytest.mark.parametrize(
    ("raw", "data", "clean"),
    [
        (b"data:x\n\n", b"x", True),
        (b"data: x\r\n\r\n", b"x", True),
        (b"data: x\r\r", b"x", False),
        (b"data: a\ndata: b\n\n", b"a\nb", False),
        (b"event: e\nid: 1\ndata: x\n\n", b"x", False),
        (b"retry: 3\n\n", None, False),
        (b"data\n\n", b"", False),
        (b": hi\ndata: x\n\n", b"x", True),
        (b": hi\n\n", None, True),
        (b'error: {"a": 1}\n\n', b'{"a": 1}', False),
        (b'{"error": "bare"}\n\n', b'{"error": "bare"}', False),
    ],
)
def test_every_form_of_an_event(raw, data, clean):
    (event,) = read(raw)
    assert (event.raw, event.data, event.clean) == (raw, data, clean)


@pytest.mark.parametrize(
    ("raw", "name"),
    [
        (b"data: x\n\n", b""),
        (b"event: error\ndata: x\n\n", b"error"),
        (b"data: x\r\nevent:error\r\n\r\n", b"error"),
        (b"error: x\n\n", b"error"),
        (b"event: error\nevent: message\ndata: x\n\n", b"message"),
    ],
)
def test_an_event_has_the_name_that_was_given_last(raw, name):
    (event,) = read(raw)
    assert (event.name, event.data) == (name, b"x")


def test_comments_are_told():
    assert read(b": a\n:b\n\n")[0].comments == (b": a", b":b")


def test_a_byte_order_mark_is_dropped_even_when_cut():
    assert read(b"\xef", b"\xbb", b"\xbfdata: x\n\n") == [Event(b"data: x\n\n", b"x")]
    assert read(b"\xef\xbb\xbfdata: x\n\n") == [Event(b"data: x\n\n", b"x")]


def test_blank_lines_between_events_are_dropped():
    assert [event.raw for event in read(b"\n\n\ndata: x\n\n\n\n", b"\ndata: y\n\n")] == [b"data: x\n\n", b"data: y\n\n"]


def test_an_event_of_lone_carriage_returns_is_reported_at_once():
    assert [len(read(b"data: x\r\r")), len(read(b"data: x\r", b"\r"))] == [1, 1]


def test_half_a_line_end_waits_for_its_other_half():
    reader = EventReader()
    assert reader.feed(b"data: x\r\n\r") == []
    assert [event.raw for event in reader.feed(b"\n")] == [b"data: x\r\n\r\n"]


def test_what_lost_its_blank_line_is_told_at_the_end():
    reader = EventReader()
    reader.feed(b"data: [DONE]")
    assert reader.finish() == Event(b"data: [DONE]", b"[DONE]", (), clean=False)


def test_an_event_without_end_is_refused(monkeypatch):
    monkeypatch.setattr(event_stream, "MAX_EVENT_BYTES", 1000)
    with pytest.raises(ProviderInvalidResponse, match="1000"):
        read(*[b"x"] * 2000)
    with pytest.raises(ProviderInvalidResponse):
        EventReader().feed(b"data: " + b"x" * 2000)


@pytest.mark.parametrize("line", [b":\n", b"data:\r"])
def test_an_event_of_too_many_lines_is_refused_also_at_the_end(monkeypatch, line):
    monkeypatch.setattr(event_stream, "MAX_EVENT_LINES", 1000)
    assert len(read(line * 900 + b"\n\n")) == 1
    with pytest.raises(ProviderInvalidResponse, match="1000 lines"):
        read(line * 1100 + b"\n\n")
    reader = EventReader()
    reader.feed(line * 1100)
    with pytest.raises(ProviderInvalidResponse, match="1000 lines"):
        reader.finish()


def test_the_time_is_linear_whatever_the_cuts():
    event = b"data: " + b"x" * 200_000 + b"\n\n"
    started = time.process_time()
    assert len(read(*(event[at : at + 1] for at in range(len(event))))) == 1
    assert time.process_time() - started < 3


LINES = st.sampled_from([b"data: {}", b"data:x", b": c", b"id: 1", b"event: e", b"retry: 1", b"data", "data: ü€🌍".encode(), b""])
STREAMS = st.lists(st.tuples(LINES, st.sampled_from([b"\n", b"\r\n", b"\r"])), max_size=25).map(
    lambda lines: b"".join(text + end for text, end in lines) + b"data: last\n\n"
)


def meaning(chunks: list[bytes]) -> list[tuple[object, ...]]:
    return [(event.data, event.comments, event.clean, event.raw if event.clean else None) for event in read(*chunks)]


@given(STREAMS, st.lists(st.integers(0, 400), max_size=12))
def test_cuts_change_nothing(stream, cuts):
    edges = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    assert meaning([stream[a:b] for a, b in itertools.pairwise(edges)]) == meaning([stream])
    assert meaning([stream[at : at + 1] for at in range(len(stream))]) == meaning([stream])
