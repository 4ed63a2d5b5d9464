"""Chats are listed for their tenant, in pages; a deleted one is gone with its audit, and nothing under way brings it back."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from gateway.settings import Settings
from gateway.web.rooms import Rooms
from tests.gateway.web.test_context_audit import KEYS, say
from tests.support.doubles import FakeProvider
from tests.support.rooms import ask, chat, open_rooms, run

CHAT = "/api/v2/chats/a%2Fb"


def test_a_deleted_chat_is_gone() -> None:
    async def story() -> list[httpx.Response]:
        rooms = open_rooms()
        await say(rooms, "a/b")
        steps = [("DELETE", CHAT), ("GET", f"{CHAT}/context-audit"), ("DELETE", CHAT)]
        return [await ask(rooms, method, path) for method, path in steps]

    deleted, looked_for, again = run(story())
    assert (deleted.status_code, deleted.content) == (204, b"")
    assert (looked_for.status_code, looked_for.json()["error"]["code"]) == (404, "CHAT_NOT_FOUND")
    assert (again.status_code, again.json()["error"]["code"]) == (404, "CHAT_NOT_FOUND")


def test_a_generation_under_way_does_not_bring_it_back_and_a_later_one_starts_anew() -> None:
    async def story() -> list[int]:
        provider = FakeProvider()
        provider.hold, called = asyncio.Event(), asyncio.Event()
        provider.before_send = called.set
        rooms = open_rooms(provider)
        await rooms.store.open()
        under_way = asyncio.create_task(say(rooms, "a/b"))
        await called.wait()
        found = [(await ask(rooms, "DELETE", CHAT)).status_code]
        provider.hold.set()
        await under_way
        found.append((await ask(rooms, "GET", f"{CHAT}/context-audit")).status_code)
        await say(rooms, "a/b")
        return [*found, (await ask(rooms, "GET", f"{CHAT}/context-audit")).status_code]

    assert run(story()) == [204, 404, 200]


def test_nobody_deletes_the_chats_of_others() -> None:
    async def story() -> list[int]:
        rooms = open_rooms(settings=Settings(auth=KEYS))
        await say(rooms, "a/b", {"api-key": "one"})
        return [(await ask(rooms, "DELETE", CHAT, headers={"api-key": key})).status_code for key in ("two", "one")]

    assert run(story()) == [404, 204]


def test_an_auxiliary_generation_does_not_replace_the_chats_audit() -> None:
    async def story() -> tuple[str, str]:
        rooms = open_rooms()
        first = await say(rooms, "a/b")
        aside = chat(contextShift={"chatId": "a/b", "purpose": "auxiliary"})
        await ask(rooms, "POST", "/v1/chat/completions", aside)
        return first, (await ask(rooms, "GET", f"{CHAT}/context-audit")).json()["audit"]["generationId"]

    first, found = run(story())
    assert first == found


async def listed(rooms: Rooms, query: str = "", **headers: str) -> Any:
    answer = await ask(rooms, "GET", f"/api/v2/chats{query}", headers=headers)
    assert answer.status_code == 200
    return answer.json()


def test_chats_come_in_pages_the_last_used_first() -> None:
    async def story() -> None:
        rooms = open_rooms()
        for name in ("one", "two", "three", "one"):
            await say(rooms, name)
        first = await listed(rooms, "?limit=2")
        assert [found["id"] for found in first["chats"]] == ["one", "three"]
        rest = await listed(rooms, f"?limit=2&before={first['nextBefore']}")
        assert ([found["id"] for found in rest["chats"]], rest["nextBefore"]) == (["two"], None)
        assert (await listed(rooms, "?limit=3"))["nextBefore"] is None
        assert await listed(open_rooms()) == {"chats": [], "nextBefore": None}

    run(story())


def test_one_chat_says_when_it_began_and_how_it_stands() -> None:
    async def story() -> None:
        rooms = open_rooms()
        await say(rooms, "a/b")
        generation = await say(rooms, "a/b")
        found = (await ask(rooms, "GET", CHAT)).json()
        assert set(found) == {"id", "createdAt", "updatedAt", "model", "status", "generationId"}
        assert (found["id"], found["model"], found["status"], found["generationId"]) == ("a/b", "m", "completed", generation)
        assert found["createdAt"] <= found["updatedAt"]
        assert found["createdAt"].endswith("Z")
        assert (await listed(rooms))["chats"] == [found]

    run(story())


def test_a_generation_on_the_side_is_not_listed() -> None:
    async def story() -> None:
        rooms = open_rooms()
        await ask(rooms, "POST", "/v1/chat/completions", chat(contextShift={"chatId": "a/b", "purpose": "auxiliary"}))
        assert (await listed(rooms))["chats"] == []

    run(story())


def test_nobody_sees_the_chats_of_others() -> None:
    async def story() -> None:
        rooms = open_rooms(settings=Settings(auth=KEYS))
        await say(rooms, "a/b", {"api-key": "one"})
        assert (await listed(rooms, **{"api-key": "two"}))["chats"] == []
        assert len((await listed(rooms, **{"api-key": "one"}))["chats"]) == 1
        assert (await ask(rooms, "GET", CHAT, headers={"api-key": "two"})).json()["error"]["code"] == "CHAT_NOT_FOUND"

    run(story())


@pytest.mark.parametrize(
    ("query", "param"),
    [(f"limit={bad}", "limit") for bad in ("0", "201", "x", "")] + [(f"before={bad}", "before") for bad in ("!", "")],
)
def test_a_page_that_can_not_be_is_refused(query: str, param: str) -> None:
    answer = run(ask(open_rooms(), "GET", f"/api/v2/chats?{query}"))
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"]) == (400, "INVALID_REQUEST", param)
