"""Every URL of the interface is there, with its method, and nothing else is."""

from __future__ import annotations

import pytest

from tests.support.rooms import ask, open_rooms, run


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/v1/chat/completions"),
        ("POST", "/chat/completions"),
        ("GET", "/v1/models"),
        ("GET", "/models"),
        ("GET", "/v1/models/m"),
        ("POST", "/api/v2/context-preview"),
        ("DELETE", "/api/v2/chats/c"),
        ("GET", "/api/v2/chats/c/context-audit"),
        ("GET", "/healthz"),
        ("GET", "/readyz"),
    ],
)
def test_every_url_is_served_by_its_method_alone(method: str, path: str) -> None:
    body = b"{" if method == "POST" else b""
    answer = run(ask(open_rooms(), method, path, body))
    assert answer.status_code in (200, 400, 404)
    assert answer.status_code != 404 or answer.json()["error"]["code"] == "CHAT_NOT_FOUND"
    other = run(ask(open_rooms(), "PUT", path))
    assert (other.status_code, other.json()["error"]["code"]) == (405, "METHOD_NOT_ALLOWED")


@pytest.mark.parametrize("path", ["/", "/v1", "/v2/chat/completions", "/api/v2/chats/c/other", "/api/v2/context-preview/"])
def test_any_other_url_is_not_found(path: str) -> None:
    answer = run(ask(open_rooms(), "GET", path))
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/chat/completions"])
def test_reading_a_completion_is_not_allowed(path: str) -> None:
    assert run(ask(open_rooms(), "GET", path)).status_code == 405
