"""A chat's audit is shown to its tenant, in the view that was asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import httpx
import pytest

from gateway.secret import Secret
from gateway.settings import AuthSettings, ClientKey, Settings
from gateway.web import context_audit
from gateway.web.rooms import Rooms
from tests.support.rooms import ask, chat, open_rooms, run
from tests.support.small_chats import turns

KEYS = AuthSettings(keys=tuple(ClientKey(name, Secret(hashlib.sha256(name.encode()).hexdigest())) for name in ("one", "two")))


async def say(rooms: Rooms, chat_id: str, headers: Mapping[str, str] | None = None) -> str:
    """A generation in a chat; its id."""
    answer = await ask(rooms, "POST", "/v1/chat/completions", chat(contextShift={"chatId": chat_id}), headers)
    assert answer.status_code == 200
    return answer.headers["x-context-generation-id"]


def shown(chat_id: str, path: str) -> httpx.Response:
    async def story() -> httpx.Response:
        rooms = open_rooms()
        await say(rooms, chat_id)
        return await ask(rooms, "GET", path)

    return run(story())


@pytest.mark.parametrize(
    ("query", "keys"),
    [
        ("", {"blocks", "providerMessages"}),
        ("?view=full", {"blocks", "providerMessages"}),
        ("?view=index", {"blocks"}),
        ("?view=summary", set()),
    ],
)
def test_an_audit_is_shown_in_its_view(query: str, keys: set[str]) -> None:
    answer = shown("c", f"/api/v2/chats/c/context-audit{query}")
    audit = answer.json()["audit"]
    assert (answer.status_code, audit["chatId"], audit["status"]) == (200, "c", "completed")
    assert {"blocks", "providerMessages"} & set(audit) == keys


def test_an_unknown_view_is_refused() -> None:
    answer = shown("c", "/api/v2/chats/c/context-audit?view=all")
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "view")


@pytest.mark.parametrize(("chat_id", "path"), [("a/b ü", "a%2Fb%20%C3%BC"), ("a%2Fb", "a%252Fb"), ("..", ".%2E")])
def test_a_chat_id_stands_percent_encoded_in_the_path(chat_id: str, path: str) -> None:
    assert shown(chat_id, f"/api/v2/chats/{path}/context-audit").json()["audit"]["chatId"] == chat_id


def test_a_chat_that_is_not_there_is_not_found() -> None:
    answer = shown("c", "/api/v2/chats/d/context-audit")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "CHAT_NOT_FOUND")


@pytest.mark.parametrize("chat_id", ["%00", "x" * 257, "a%0Ab"])
def test_what_can_be_no_chat_id_is_refused(chat_id: str) -> None:
    answer = shown("c", f"/api/v2/chats/{chat_id}/context-audit")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")


def test_a_generation_without_a_chat_is_found_by_its_id() -> None:
    async def story() -> Any:
        rooms = open_rooms()
        answer = await ask(rooms, "POST", "/v1/chat/completions", chat())
        generation_id = answer.headers["x-context-generation-id"]
        assert answer.headers["x-context-chat-id"] == generation_id
        found = await ask(rooms, "GET", f"/api/v2/chats/{generation_id}/context-audit")
        return found.json()["audit"]["generationId"] == generation_id

    assert run(story())


def test_nobody_sees_the_audits_of_others() -> None:
    async def story() -> None:
        rooms = open_rooms(settings=Settings(auth=KEYS))
        await say(rooms, "c", {"api-key": "one"})
        path = "/api/v2/chats/c/context-audit"
        own = await ask(rooms, "GET", path, headers={"api-key": "one"})
        assert own.json()["audit"]["tenant"] == "one"
        assert (await ask(rooms, "GET", path, headers={"api-key": "two"})).status_code == 404
        assert (await ask(rooms, "GET", path)).status_code == 401

    run(story())


@pytest.mark.parametrize(
    "odd", [{"n": "NUMBER"}, {"contentLength": "x"}, {"contentLength": 5, "content": None}], ids=lambda odd: next(iter(odd))
)
def test_an_audit_can_be_read_whatever_a_client_sent(odd: dict[str, Any]) -> None:
    async def story() -> int:
        rooms = open_rooms()
        body = chat(contextShift={"chatId": "c"})
        body["messages"][0] |= odd
        raw = httpx.Request("POST", "http://x", json=body).content.replace(b'"NUMBER"', b"1e400")
        assert (await ask(rooms, "POST", "/v1/chat/completions", raw)).status_code == 200
        return (await ask(rooms, "GET", "/api/v2/chats/c/context-audit")).status_code

    assert run(story()) == 200


def test_a_long_audit_is_read_window_by_window() -> None:
    async def story() -> None:
        rooms = open_rooms()
        body = {"model": "m", "messages": turns(31), "contextShift": {"chatId": "c"}}
        await ask(rooms, "POST", "/v1/chat/completions", body)
        whole = (await ask(rooms, "GET", "/api/v2/chats/c/context-audit")).json()["audit"]["blocks"]
        found = []
        for first in range(0, 40, 10):
            window = (await ask(rooms, "GET", f"/api/v2/chats/c/context-audit/blocks?from={first}&limit=10")).json()
            assert window["total"] == len(whole)
            found += window["blocks"]
        assert found == whole
        assert (await ask(rooms, "GET", "/api/v2/chats/c/context-audit/blocks")).json()["blocks"] == whole
        assert (await ask(rooms, "GET", "/api/v2/chats/c/context-audit/blocks?from=1000")).json()["blocks"] == []

    run(story())


@pytest.mark.parametrize("query", ["from=-1", "limit=0", "limit=1001", "from=x", "limit=1e3", "from=9999999999999"])
def test_a_window_that_can_not_be_is_refused(query: str) -> None:
    answer = shown("c", f"/api/v2/chats/c/context-audit/blocks?{query}")
    assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")
    assert answer.json()["error"]["param"] == query.partition("=")[0]


def test_the_blocks_of_an_unknown_chat_are_not_found() -> None:
    answer = shown("c", "/api/v2/chats/d/context-audit/blocks")
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "CHAT_NOT_FOUND")


def test_a_long_audit_is_read_on_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(context_audit, "OFF_LOOP_BYTES", 10)
    assert shown("c", "/api/v2/chats/c/context-audit").json()["audit"]["chatId"] == "c"
