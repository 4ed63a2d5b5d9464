"""What is read of an error, in whatever form it comes, and that odd and hostile ones cost little."""

from __future__ import annotations

import json

import pytest

from gateway.providers.error_signals import Walk, signals_of

WALK = Walk(
    descend=frozenset({"error", "message", "details", "detail"}),
    words=frozenset({"code", "type"}),
    texts=frozenset({"error", "message", "detail"}),
    statuses=frozenset({"code", "status"}),
    params=frozenset({"param", "loc"}),
    waits=frozenset({"retry_after", "retry_after_ms"}),
)
ERROR = {"error": {"code": "Some_Code", "message": "Too much"}}


def read(body):
    return signals_of(body if isinstance(body, bytes) else json.dumps(body).encode(), WALK)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32"])
def test_json_may_come_in_any_of_its_encodings(encoding):
    signals = read(json.dumps(ERROR).encode(encoding))
    assert (signals.words, signals.texts) == ({"some_code"}, ["too much"])


@pytest.mark.parametrize(
    "body",
    [
        [ERROR],
        {"error": [ERROR]},
        {"message": json.dumps(ERROR)},
        {"message": json.dumps({"message": json.dumps(ERROR)})},
        {"error": {"details": [{"detail": ERROR}]}},
        json.dumps(ERROR).encode()[:-2],
        json.dumps(ERROR).encode() + b" and more",
        b'data: {"error":{"code":"Some_Code","message":"Too much"}}',
    ],
)
def test_an_error_is_found_inside_lists_strings_and_cut_json(body):
    signals = read(body)
    assert "some_code" in signals.words
    assert "too much" in signals.texts


def test_json_that_was_cut_inside_its_text_still_tells_it():
    signals = read(b'{"error":{"type":"t","code":429,"param":"p","message":"It is \\"long\\"\\nand ' + b"x" * 300_000)
    assert signals.words == {"t", "param=p"}
    assert signals.inner_status == 429
    assert signals.texts[-1].startswith('it is "long" and xxx')
    assert all(len(text) <= 8192 for text in signals.texts)


@pytest.mark.parametrize("body", [b"Too much", b'"Too much"', b'["Too much"]', "\u201cToo\u00a0much\u201d".encode()])
def test_a_bare_text_is_a_text(body):
    assert read(body).texts[0].strip('"') == "too much"


def test_the_script_of_a_page_says_nothing():
    signals = read(b'<html><script>x = {"code": "invalid_api_key", "message": "no"}</script>')
    assert signals.words == set()
    assert len(signals.texts) == 1


def test_a_key_that_is_not_named_hides_what_is_below_it():
    signals = read(
        {"input": {"code": "hidden", "message": "hidden"}, "content": "hidden", "error": {"other": {"code": "hidden"}}}
    )
    assert (signals.words, signals.texts) == (set(), [])


def test_numbers_are_finite_counts_and_no_truths():
    signals = read(b'{"a": 1, "b": -1, "c": 1e400, "d": NaN, "e": true, "f": 1e13, "a": 2, "g": 2.5}')
    assert signals.numbers == {"a": 2, "g": 2.5}


@pytest.mark.parametrize(
    ("value", "status"), [(429, 429), ("429", 429), (200, None), ("42", None), ("4290", None), ("\u0664\u0662\u0669", None)]
)
def test_a_status_may_be_named_inside(value, status):
    assert read({"error": {"status": value}}).inner_status == status


@pytest.mark.parametrize(
    ("fields", "seconds"),
    [({"retry_after": 3}, 3), ({"retry_after": "1.5s"}, 1.5), ({"retry_after_ms": 250}, 0.25), ({"retry_after": "soon"}, None)],
)
def test_a_wait_may_be_named_inside(fields, seconds):
    assert read({"error": fields}).wait == seconds


def test_the_last_part_of_a_qualified_name_is_the_word():
    assert read({"type": "com.service.v1#ThrottlingException"}).words == {"throttlingexception"}


def test_parameters_are_words_and_texts():
    signals = read({"detail": [{"loc": ["body", "max_tokens"]}], "param": "messages"})
    assert signals.words == {"param=body", "param=max_tokens", "param=messages"}
    assert set(signals.texts) == signals.words


@pytest.mark.parametrize(
    ("said", "read_as"),
    [
        ("Limit 128,000, asked 1_000_000", "limit 128000, asked 1000000"),
        ("8001,500 or 1,2,3 or 1.234,567", "8001,500 or 1,2,3 or 1.234,567"),
        ("sum " + "1" * 400, "sum #"),
        ("model\u2019s\n  length", "model's length"),
    ],
)
def test_texts_are_read_as_patterns_want_them(said, read_as):
    assert read({"message": said}).texts == [read_as]


HOSTILE = {
    "nothing": b"",
    "null": b"null",
    "nested objects": b'{"error":' * 50_000,
    "nested lists": b"[" * 200_000,
    "closed nesting": b"[" * 5000 + b"]" * 5000,
    "strings in strings": json.dumps({"message": json.dumps({"message": json.dumps({"message": "{" * 50_000})})}).encode(),
    "many texts": json.dumps({"error": [{"message": "word " * 1000}] * 100}).encode(),
    "many fields": json.dumps({"error": [{"code": f"c{number}"} for number in range(20_000)]}).encode(),
    "backslashes": b'{"a":"' + b"\\" * 200_000,
    "blanks": b'{"a"' + b" " * 200_000,
    "quotes": b'"' * 200_000,
    "no text at all": bytes(range(256)) * 800,
    "half a pair": b'{"message":"\\ud800"}',
}


@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_body_is_read_within_bounds(body):
    signals = read(body)
    assert sum(map(len, signals.texts)) <= 16_384
    assert len(signals.words) <= 2000
    assert all(len(word) <= 128 for word in signals.words)
