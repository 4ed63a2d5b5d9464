"""Every URL of the interface is there, with its method, and nothing else is."""

from __future__ import annotations

import pytest

from tests.support.doubles import FakeProvider
from tests.support.rooms import ask, open_rooms, run
from tests.support.small_chats import model_config


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
        ("GET", "/metrics"),
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


@pytest.mark.parametrize("path", ["/v1/files", "/v1/responses/r/cancel", "/v1/chat/completions/chatcmpl-1", "/v1/x/y%2Fz"])
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_any_other_url_below_v1_is_passed_on(method: str, path: str) -> None:
    provider = FakeProvider()
    assert run(ask(open_rooms(provider, models=[model_config(None)]), method, path)).status_code == 200
    assert [request.path for request in provider.forwarded] == [path.removeprefix("/v1")]


@pytest.mark.parametrize("path", ["/files", "/embeddings", "/v2/files", "/api/v1/files"])
def test_nothing_outside_of_v1_is_passed_on(path: str) -> None:
    provider = FakeProvider()
    assert run(ask(open_rooms(provider, models=[model_config(None)]), "GET", path)).status_code == 404
    assert provider.forwarded == []


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/chat/completions"])
def test_reading_a_completion_is_not_allowed(path: str) -> None:
    assert run(ask(open_rooms(), "GET", path)).status_code == 405
