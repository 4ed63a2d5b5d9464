"""Limits are asked from the upstream once, kept for a while, and asked again."""

from __future__ import annotations

import asyncio

import pytest

from gateway.learned import NOTHING, Learned
from gateway.learned_limits import LearnedLimits
from gateway.model_catalog import ASSUMED_CONTEXT_LIMIT
from gateway.model_limits import KNOWN_S, UNKNOWN_S, ModelLimits
from gateway.stores.memory import MemoryStore
from tests.support.doubles import FakeProvider
from tests.support.rooms import run
from tests.support.small_chats import model_config

ASKS = model_config(context_limit=None, max_output=7)


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_limit_in_the_file_asks_nobody() -> None:
    provider = FakeProvider(limit=5)
    found = run(ModelLimits({"up": provider}).limits(model_config(context_limit=100), "m"))
    assert (found.context_limit, found.source, provider.asked) == (100, "file here", [])


def test_a_limit_that_no_file_names_is_the_upstreams() -> None:
    provider = FakeProvider(limit=4096)
    found = run(ModelLimits({"up": provider}).limits(ASKS, "m-1"))
    assert (found.context_limit, found.max_output, found.source, provider.asked) == (4096, 7, "upstream", ["m-1"])


def test_a_limit_that_nobody_names_is_assumed_with_a_warning() -> None:
    found = run(ModelLimits({"up": FakeProvider(limit=None)}).limits(ASKS, "nobody-knows-this-model"))
    assert (found.context_limit, found.source) == (ASSUMED_CONTEXT_LIMIT, "default")
    assert found.warning


@pytest.mark.parametrize(("limit", "holds_s"), [(4096, KNOWN_S), (None, UNKNOWN_S)])
def test_an_answer_holds_for_its_time_and_is_then_asked_again(limit: int | None, holds_s: float) -> None:
    provider, clock = FakeProvider(limit=limit), Clock()
    limits = ModelLimits({"up": provider}, clock=clock)

    async def ask() -> None:
        await limits.limits(ASKS, "m")
        clock.now += holds_s - 0.1
        await limits.limits(ASKS, "m")
        assert len(provider.asked) == 1
        clock.now += 0.2
        await limits.limits(ASKS, "m")
        assert len(provider.asked) == 2

    run(ask())


def test_every_model_of_every_provider_is_asked_for_itself() -> None:
    one, two = FakeProvider(limit=1), FakeProvider(limit=2)
    limits = ModelLimits({"up": one, "other": two})
    other = model_config(context_limit=None, provider="other")

    async def ask() -> list[int]:
        return [(await limits.limits(config, name)).context_limit for config in (ASKS, other) for name in ("a", "b")]

    assert run(ask()) == [1, 1, 2, 2]
    assert (one.asked, two.asked) == (["a", "b"], ["a", "b"])


def test_requests_at_the_same_time_ask_once() -> None:
    provider = FakeProvider(limit=9)
    limits = ModelLimits({"up": provider})

    async def ask() -> list[int]:
        found = await asyncio.gather(*(limits.limits(ASKS, "m") for _ in range(20)))
        return [limit.context_limit for limit in found]

    assert run(ask()) == [9] * 20
    assert provider.asked == ["m"]


def test_a_request_that_is_cancelled_takes_the_answer_from_nobody() -> None:
    provider = FakeProvider(limit=9)
    limits = ModelLimits({"up": provider})

    async def ask() -> int:
        first = asyncio.create_task(limits.limits(ASKS, "m"))
        await asyncio.sleep(0)
        second = asyncio.create_task(limits.limits(ASKS, "m"))
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        return (await second).context_limit

    assert run(ask()) == 9
    assert provider.asked == ["m"]


def test_what_overflows_taught_is_told_of_the_right_model_and_key_alone() -> None:
    async def story() -> None:
        store, provider = MemoryStore(), FakeProvider()
        await store.open()
        learned = LearnedLimits(store)
        limits = ModelLimits({"up": provider}, learned)
        config = model_config(context_limit=100)
        assert (await limits.limits(config, "m")).learned is NOTHING
        await learned.learn("up", "m", provider.account("key-1"), Learned(80))
        assert (await limits.limits(config, "m", "key-1")).learned == Learned(80)
        assert (await limits.limits(config, "m", "key-1")).context_limit == 100
        assert (await limits.limits(config, "m", "key-2")).learned is NOTHING
        assert (await limits.limits(config, "n", "key-1")).learned is NOTHING

    run(story())
