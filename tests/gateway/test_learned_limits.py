"""Lessons are known at once here, soon elsewhere, and never cost a request."""

from __future__ import annotations

import asyncio

import pytest

from gateway import learned_limits
from gateway.errors import StoreUnavailable
from gateway.learned import NOTHING, Learned, Lesson
from gateway.learned_limits import LearnedLimits
from gateway.stores.memory import MemoryStore
from tests.gateway.stores.batches import until
from tests.support.rooms import run

KEY = ("up", "m", "account")


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Forgetful(MemoryStore):
    """Keeps audits, but has no room for lessons."""

    async def learn(self, lesson: Lesson, now: float) -> None:
        raise StoreUnavailable("the disk is full")

    async def lessons(self, now: float) -> list[Lesson]:
        raise StoreUnavailable("the disk is full")


async def opened(store: MemoryStore) -> MemoryStore:
    await store.open()
    return store


def test_a_lesson_is_known_at_once_and_until_it_expires() -> None:
    async def story() -> None:
        clock = Clock()
        limits = LearnedLimits(await opened(MemoryStore()), remember_s=60, clock=clock)
        assert not limits.any
        await limits.learn(*KEY, Learned(80, 18))
        assert limits.any
        assert limits.of(*KEY) == Learned(80, 18)
        assert limits.of("up", "m", "another") == NOTHING
        clock.now += 60
        assert limits.of(*KEY) == NOTHING

    run(story())


def test_a_later_lesson_only_lowers_and_holds_longer() -> None:
    async def story() -> None:
        clock = Clock()
        limits = LearnedLimits(await opened(MemoryStore()), remember_s=60, clock=clock)
        await limits.learn(*KEY, Learned(80))
        clock.now += 30
        await limits.learn(*KEY, Learned(90, 20))
        clock.now += 59
        assert limits.of(*KEY) == Learned(80, 20)

    run(story())


def test_nothing_is_not_remembered() -> None:
    async def story() -> None:
        store = await opened(MemoryStore())
        limits = LearnedLimits(store)
        await limits.learn(*KEY, NOTHING)
        assert not limits.any
        assert await store.lessons(0.0) == []

    run(story())


def test_another_gateway_of_the_store_hears_of_it_and_adds_its_own() -> None:
    async def story() -> None:
        store, clock = await opened(MemoryStore()), Clock()
        told: list[list[Lesson]] = []
        here = LearnedLimits(store, clock=clock)
        there = LearnedLimits(store, clock=clock, changed=lambda lessons: told.append(list(lessons)))
        await here.learn(*KEY, Learned(80))
        assert there.of(*KEY) == NOTHING
        await there.refresh()
        assert there.of(*KEY) == Learned(80)
        await there.refresh()
        assert [[one.learned for one in lessons] for lessons in told] == [[Learned(80)]]
        await there.learn(*KEY, Learned(None, 20))
        await here.refresh()
        assert here.of(*KEY) == Learned(80, 20)

    run(story())


def test_what_the_store_no_longer_holds_is_forgotten_when_it_has_expired() -> None:
    async def story() -> None:
        clock = Clock()
        limits = LearnedLimits(await opened(MemoryStore()), remember_s=60, clock=clock)
        await limits.learn(*KEY, Learned(80))
        clock.now += 61
        await limits.refresh()
        assert not limits.any

    run(story())


def test_a_store_that_fails_costs_neither_the_request_nor_what_is_known_here(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        limits = LearnedLimits(await opened(Forgetful()))
        await limits.learn(*KEY, Learned(80))
        await limits.refresh()
        assert limits.of(*KEY) == Learned(80)

    run(story())
    assert "could not be stored" in caplog.text


def test_it_is_refreshed_over_and_over(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(learned_limits, "REFRESH_S", 0.001)

    async def story() -> None:
        store = await opened(MemoryStore())
        here, there = LearnedLimits(store), LearnedLimits(store)
        chore = asyncio.create_task(there.keep_fresh())
        await asyncio.sleep(0.01)
        await here.learn(*KEY, Learned(80))
        await until(lambda: there.of(*KEY) == Learned(80))
        chore.cancel()
        await asyncio.gather(chore, return_exceptions=True)

    run(story())
