"""Alive is one thing, ready another."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.web.rooms import Rooms
from tests.support.doubles import BrokenStore, FakeProvider
from tests.support.rooms import ask, open_rooms, run


def get(path: str, rooms: Rooms) -> tuple[int, Any]:
    answer = run(ask(rooms, "GET", path))
    return answer.status_code, answer.json()


def test_who_answers_is_alive() -> None:
    rooms = open_rooms(store=BrokenStore("check"))
    rooms.draining = True
    assert get("/healthz", rooms) == (200, {"status": "ok"})


def test_a_gateway_with_a_store_is_ready_and_asks_no_provider() -> None:
    provider = FakeProvider()
    ready = {"status": "ready", "store": "ok", "draining": False, "configuration": "ok", "plugins": "ok"}
    assert get("/readyz", open_rooms(provider)) == (200, ready)
    assert (provider.asked, provider.sent) == ([], [])


@pytest.mark.parametrize(("store", "draining"), [("unavailable", False), ("ok", True), ("unavailable", True)])
def test_a_gateway_that_drains_or_has_no_store_is_not_ready(store: str, draining: bool) -> None:
    rooms = open_rooms(store=BrokenStore(*["check"] * (store != "ok")))
    rooms.draining = draining
    assert get("/readyz", rooms) == (
        503,
        {"status": "not ready", "store": store, "draining": draining, "configuration": "ok", "plugins": "ok"},
    )


def test_a_broken_new_configuration_is_told_and_still_ready() -> None:
    rooms = open_rooms()
    rooms.problem = lambda: "gateway.toml: server.port: is wrong"
    status, told = get("/readyz", rooms)
    assert (status, told["status"], told["configuration"]) == (200, "ready", "gateway.toml: server.port: is wrong")
