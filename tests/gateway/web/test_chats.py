"""A chat that is deleted is gone with its audit, and nothing under way brings it back."""

from __future__ import annotations

import asyncio

import httpx

from gateway.settings import Settings
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
