"""What is read of a completion or a chunk."""

from __future__ import annotations

import json

import pytest

from gateway.providers.answer import read_answer, without_error


def test_a_strict_answer_keeps_its_bytes():
    data = b'{"choices": [{"index": 1, "finish_reason": "stop"}], "usage": {"a": 1.0}}'
    answer, kept = read_answer(data)
    assert kept is data
    assert [(choice.index, choice.finish_reason) for choice in answer.choices or ()] == [(1, "stop")]
    assert answer.reported_usage() == b'{"a": 1.0}'


def test_nan_and_infinities_become_null_outside_of_texts():
    data = b'{"choices":[{"index":0,"x":NaN,"y":-Infinity,"z":[Infinity],"t":"NaN \\" Infinity"}]}'
    _, mended = read_answer(data)
    assert mended == b'{"choices":[{"index":0,"x":null,"y":null,"z":[null],"t":"NaN \\" Infinity"}]}'


@pytest.mark.parametrize(
    ("choice", "index", "reason"),
    [
        ('{"index": null, "finish_reason": "stop"}', 0, "stop"),
        ('{"index": 1.0, "finish_reason": 3}', 1, None),
        ('{"index": 1e999, "finish_reason": "stop"}', 0, "stop"),
        ("null", 0, None),
        ('{"index": 2, "delta": {"content": "\\ud83d"}, "finish_reason": "length"}', 2, "length"),
    ],
)
def test_odd_choices_are_read_as_far_as_they_go(choice, index, reason):
    data = f'{{"choices": [{choice}]}}'.encode()
    answer, kept = read_answer(data)
    assert kept == data
    assert [(found.index, found.finish_reason) for found in answer.choices or ()] == [(index, reason)]


@pytest.mark.parametrize("data", [b"", b"x", b"[]", b"null", b'{"a":', b'{"a":' + b"[" * 100_000])
def test_what_is_no_object_is_refused(data):
    with pytest.raises(ValueError, match=r".*"):
        read_answer(data)


@pytest.mark.parametrize(
    "text",
    [
        b"{}",
        b'{"usage": null, "error": null}',
        b'{"error": ""}',
        b'{"error": {}}',
        b'{"error": [], "choices": [{"error": false, "finish_reason": "error"}]}',
        b'{"error": 0}',
        b'{"error": NaN, "usage": null}',
        b'{"object": "error", "choices": [{"index": 0}]}',
    ],
)
def test_absent_null_and_empty_are_no_error_and_no_usage(text):
    answer, data = read_answer(text)
    assert (answer.reported_usage(), answer.reported_error(data)) == (None, None)


@pytest.mark.parametrize(
    "text",
    [
        b'{"error": {"code": 429}, "choices": [{"index": 0}]}',
        b'{"error": "text"}',
        b'{"error": NaN, "type": "error"}',
        b'{"object": "error", "message": "m"}',
        b'{"type": "error", "choices": []}',
    ],
)
def test_an_error_is_told_with_all_that_stands_around_it(text):
    answer, data = read_answer(text)
    assert answer.reported_error(data) == data


@pytest.mark.parametrize("odd", [b"", b', "x": NaN'])
def test_a_choice_may_be_what_failed(odd):
    answer, data = read_answer(b'{"choices": [{"index": 0}, {"index": 1, "error": {"code": 429}%s}]}' % odd)
    assert answer.reported_error(data) == b'{"code": 429}'


@pytest.mark.parametrize(
    "text", [b'{"choices": [{"index": 0, "t": "\xff\xc3"}]}', b'{"choices": [{"t": "\xed\xa0\x80\xff"}], "u": NaN}']
)
def test_what_is_no_utf8_is_replaced(text):
    answer, mended = read_answer(text)
    assert "\ufffd" in json.loads(mended)["choices"][0]["t"]
    assert len(answer.choices or ()) == 1


def test_an_error_key_goes_and_the_rest_keeps_its_spelling():
    assert without_error(b'{"a": 1.0, "error": null, "b": "\\u00e9"}') == b'{"a":1.0,"b":"\\u00e9"}'
    assert json.loads(without_error(b'{"a": "\\ud83d", "error": null}')) == {"a": "\ud83d"}
