"""The few ASGI moves: a whole answer, and headers as text."""

from __future__ import annotations

from gateway.web.asgi import lower_headers, respond
from tests.support.rooms import Connection, run


def test_an_answer_with_a_body_is_json_with_its_length() -> None:
    connection = Connection()
    run(respond(connection.send, 201, b'{"a":1}', [(b"x-own", b"1")]))
    assert connection.sent == [
        {
            "type": "http.response.start",
            "status": 201,
            "headers": [(b"content-type", b"application/json"), (b"content-length", b"7"), (b"x-own", b"1")],
        },
        {"type": "http.response.body", "body": b'{"a":1}'},
    ]


def test_an_answer_without_a_body_says_nothing_of_one() -> None:
    connection = Connection()
    run(respond(connection.send, 204, b"", [(b"x-own", b"1")]))
    assert connection.sent[0]["headers"] == [(b"x-own", b"1")]


def test_headers_are_read_as_utf_8_else_as_latin_1_and_the_last_counts() -> None:
    raw = [(b"a", "ü".encode()), (b"b", b"\xfc"), (b"c", b"1"), (b"c", b"2")]
    assert lower_headers({"headers": raw}) == {"a": "ü", "b": "ü", "c": "2"}
