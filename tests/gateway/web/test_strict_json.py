"""What is checked is what is sent: JSON is taken exactly where a careful reader would take it."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.errors import InvalidRequest
from gateway.web import strict_json
from tests.support.spellings import spelled_string

SPACES = st.text(" \t\r\n", max_size=2)


STRINGS = st.builds(spelled_string, st.text(max_size=5), st.booleans())
KEYS = st.builds(spelled_string, st.sampled_from(["a", "b", "é", "\U0001f600", "a\\b", 'q"', "", "\x7f"]), st.booleans())
NUMBERS = st.sampled_from(["0", "-0", "1.50", "1e2", "1E+2", "-1.0e-2", "9007199254740993", "1e400", "9" * 30])


def _joined(brackets: str, parts: list[str], spaces: str) -> str:
    return brackets[0] + spaces + f"{spaces},{spaces}".join(parts) + spaces + brackets[1]


def _containers(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    pairs = st.builds(lambda key, space, value: f"{key}{space}:{space}{value}", KEYS, SPACES, inner)
    lists = st.builds(_joined, st.just("[]"), st.lists(inner, max_size=3), SPACES)
    objects = st.builds(_joined, st.just("{}"), st.lists(pairs, max_size=3), SPACES)
    return lists | objects


VALUES = st.recursive(NUMBERS | STRINGS | st.sampled_from(["null", "true", "false"]), _containers, max_leaves=8)
PAIRS = st.builds(lambda key, space, value: f"{key}{space}:{space}{value}", KEYS, SPACES, VALUES)
OBJECTS = st.builds(
    lambda before, inside, after: before + inside + after,
    SPACES,
    st.builds(_joined, st.just("{}"), st.lists(PAIRS, max_size=5), SPACES),
    SPACES,
)


def reference(body: bytes) -> list[tuple[str, Any]] | None:
    """The top-level pairs of a strict JSON object, slowly; None for anything else. Repeats inside of values are not seen."""

    def never(text: str) -> None:
        raise ValueError(text)

    def top(pairs: list[tuple[str, Any]]) -> list[tuple[str, Any]]:
        return pairs

    try:
        text = body.decode()
        found = json.loads(text, object_pairs_hook=top, parse_constant=never)
        json.dumps(json.loads(text), ensure_ascii=False).encode()
    except (ValueError, RecursionError):
        return None
    if not text.strip(" \t\r\n").startswith("{") or len({key for key, _ in found}) != len(found):
        return None
    return list(found)


def accepted(body: bytes) -> dict[str, bytes] | None:
    try:
        return strict_json.fields(body)
    except InvalidRequest:
        return None


def agrees(body: bytes) -> None:
    expected, found = reference(body), accepted(body)
    if expected is None or found is None:
        # repeats further down are `value`'s to find; looking for repeats at the top may find them already
        assert found is None or expected is not None
        assert expected is None or _repeats_inside(body)
        return
    assert list(found) == [key for key, _ in expected]
    for raw, (_, value) in zip(found.values(), expected, strict=True):
        assert repr(json.loads(raw, object_pairs_hook=lambda pairs: pairs)) == repr(value)
        assert raw in body


def _repeats_inside(body: bytes) -> bool:
    repeated = []

    def seen(pairs: list[tuple[str, Any]]) -> None:
        repeated.append(len(dict(pairs)) != len(pairs))

    json.loads(body, object_pairs_hook=seen)
    return any(repeated)


@settings(max_examples=250, deadline=None)
@given(OBJECTS)
@example('{"a":1,"\\u0061":2}')
@example('{"a":12,"a":1}')
@example('{"a":12,"b":1,"a":1}')
@example('{"a":1,"b":2,"a":1}')
@example('{"a":{"b":1,"b":2}}')
def test_objects_are_accepted_exactly_where_a_slow_reader_accepts_them(text: str) -> None:
    agrees(text.encode())


@settings(max_examples=250, deadline=None)
@given(OBJECTS, st.integers(0, 60), st.binary(max_size=2), st.integers(0, 2))
def test_damaged_objects_are_refused_exactly_where_a_slow_reader_refuses_them(text: str, at: int, new: bytes, cut: int) -> None:
    body = text.encode()
    agrees(body[:at] + new + body[at + cut :])


@settings(max_examples=200, deadline=None)
@given(VALUES)
@example('{"a":{"b":1,"\\u0062":2}}')
def test_values_with_a_repeated_key_anywhere_are_refused_and_no_others(text: str) -> None:
    raw = text.encode()
    if _repeats_inside(raw):
        with pytest.raises(InvalidRequest, match="repeats a key") as caught:
            strict_json.value(raw, depth=1, param="tools")
        assert caught.value.param == "tools"
    else:
        assert repr(strict_json.value(raw, depth=1)) == repr(json.loads(raw))


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[]", "must be a JSON object"),
        (b'"a"', "must be a JSON object"),
        (b"null", "must be a JSON object"),
        (b'{"a":NaN}', r"not valid JSON \(byte 5\)"),
        (b'{"a":-Infinity}', "not valid JSON"),
        (b'{"a":"\\ud800"}', "lone surrogates"),
        (b'{"a":{"b":["\\ud800"]}}', "lone surrogates"),
        (b'{"\\udc00":1}', "lone surrogates"),
        (b'{"a":"\xff"}', r"not valid UTF-8 \(byte 6\)"),
        (b'{"a":"\xed\xa0\x80"}', "not valid UTF-8"),
        (b'\xef\xbb\xbf{"a":1}', "not valid JSON"),
        (b'{"a":"\n"}', "not valid JSON"),
        (b'{"a":1}{}', "not valid JSON"),
        (b'{"a":1,"a":1}', "repeats a key"),
        (b'{"a":1,"\\u0061":1}', "repeats a key"),
        (b'{"a":' + b"[" * 100_000 + b"]" * 100_000 + b"}", "deeper than 128"),
        (b'{"a":' * 100_000 + b"1" + b"}" * 100_000, "deeper than 128"),
    ],
)
def test_what_is_no_strict_object_is_refused_with_a_reason(body: bytes, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words):
        strict_json.fields(body)


def test_fields_are_raw_slices_in_the_order_of_the_body() -> None:
    found = strict_json.fields(b' {"b" : 1.50 ,\n"a":[ 1 ] , "c":"\\u00e9"}\t')
    assert list(found.items()) == [("b", b"1.50"), ("a", b"[ 1 ]"), ("c", b'"\\u00e9"')]
    assert strict_json.fields(b"{}") == {}


@pytest.mark.parametrize("spelling", [b"[", b'{"a":'])
@pytest.mark.parametrize("around", [0, 1, 2])
def test_nesting_ends_at_a_hundred_and_twenty_eight_levels(spelling: bytes, around: int) -> None:
    closing = {b"[": b"]"}.get(spelling, b"}")

    def nested(levels: int) -> bytes:
        return spelling * levels + b"1" + closing * levels

    strict_json.value(nested(strict_json.MAX_DEPTH - around), depth=around)
    with pytest.raises(InvalidRequest, match="deeper than 128"):
        strict_json.value(nested(strict_json.MAX_DEPTH - around + 1), depth=around)
    with pytest.raises(InvalidRequest, match="deeper than 128") as caught:
        strict_json.value(nested(50_000), depth=around, param="x")
    assert caught.value.param == "x"


def test_many_brackets_side_by_side_are_not_deep() -> None:
    raw = b"[" + b",".join([b'{"a":[]}'] * 500) + b"]"
    assert len(strict_json.value(raw, depth=1)) == 500


def test_an_endless_integer_counts_as_infinite() -> None:
    assert strict_json.value(b"1" * 3999, depth=0) == int("1" * 3999)
    assert strict_json.value(b"1" * 10_000, depth=0) == float("inf")


def test_elements_are_raw_slices() -> None:
    assert strict_json.elements(b'[ 1.0 , {"a" :1},"x"]', "messages") == [b"1.0", b'{"a" :1}', b'"x"']
    with pytest.raises(InvalidRequest, match="must be a list") as caught:
        strict_json.elements(b"{}", "messages")
    assert caught.value.param == "messages"


@pytest.mark.parametrize(("raw", "container"), [(b"[]", True), (b"{}", True), (b'"["', False), (b"1", False), (b"", False)])
def test_only_objects_and_lists_are_containers(raw: bytes, container: bool) -> None:
    assert strict_json.is_container(raw) is container


def test_brackets_in_texts_are_no_levels_and_neighbours_stand_on_one() -> None:
    many = json.dumps({'a"[[': ["[{" * 100, "\\", '\\"]' * 100, *[[{}]] * 500], "]]": "{"}).encode()
    assert strict_json.value(many, depth=strict_json.MAX_DEPTH - 4)
    with pytest.raises(InvalidRequest):
        strict_json.value(many, depth=strict_json.MAX_DEPTH - 3)
