"""An answer of an ordinary endpoint is JSON."""

from __future__ import annotations

from gateway.web.json_response import json_response


def test_a_value_becomes_json_with_status_and_headers() -> None:
    response = json_response({"a": ["ü"]}, 418, ((b"x-own", b"1"),))
    assert (response.status_code, response.body) == (418, '{"a":["ü"]}'.encode())
    assert (response.headers["content-type"], response.headers["x-own"]) == ("application/json", "1")
    assert json_response([]).status_code == 200
