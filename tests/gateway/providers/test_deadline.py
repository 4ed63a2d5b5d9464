"""First token, silence, total: one clock."""

from __future__ import annotations

import asyncio
import time

import pytest

from gateway.errors import ProviderTimeout
from gateway.providers.base import Timeouts
from gateway.providers.deadline import Patience


async def outwait(patience: Patience) -> tuple[float, str]:
    started = time.perf_counter()
    with pytest.raises(ProviderTimeout) as caught, patience:
        await asyncio.sleep(5)
    patience.close()
    return time.perf_counter() - started, caught.value.message


@pytest.mark.parametrize(
    ("timeouts", "begun", "words"),
    [
        (Timeouts(first_token_s=0.05), False, "first token within 0.05 s"),
        (Timeouts(first_token_s=9, total_s=0.05), False, "finish its answer within 0.05 s"),
        (Timeouts(idle_s=0.05), True, "silent in the middle of its answer within 0.05 s"),
        (Timeouts(idle_s=9, total_s=0.05), True, "finish its answer within 0.05 s"),
    ],
)
def test_each_phase_names_its_own_time(timeouts, begun, words):
    async def main():
        patience = Patience(timeouts)
        if begun:
            patience.begin()
        return await outwait(patience)

    seconds, message = asyncio.run(main())
    assert words in message
    assert 0.03 < seconds < 1


@pytest.mark.parametrize(
    ("timeouts", "words"),
    [
        (Timeouts(first_token_s=10.05), "first token within 10.05 s"),
        (Timeouts(first_token_s=99, total_s=10.05), "finish its answer within 10.05 s"),
    ],
)
def test_a_call_that_began_before_has_the_less_left(timeouts, words):
    async def main():
        return await outwait(Patience(timeouts, asyncio.get_running_loop().time() - 10))

    seconds, message = asyncio.run(main())
    assert words in message
    assert seconds < 1


def test_hearing_something_moves_the_moment():
    async def main():
        patience = Patience(Timeouts(idle_s=0.12))
        patience.begin()
        for _ in range(6):
            with patience:
                await asyncio.sleep(0.04)
            patience.heard()
        return await outwait(patience)

    assert asyncio.run(main())[0] > 0.08


def test_before_the_beginning_hearing_moves_nothing():
    async def main():
        patience = Patience(Timeouts(first_token_s=0.1))

        async def listen():
            while True:
                with patience:
                    await asyncio.sleep(0.02)
                patience.heard()

        started = time.perf_counter()
        with pytest.raises(ProviderTimeout):
            await listen()
        patience.close()
        return time.perf_counter() - started

    assert asyncio.run(main()) < 1


def test_time_spent_elsewhere_does_not_interrupt():
    async def main():
        patience = Patience(Timeouts(first_token_s=0.02))
        with patience:
            await asyncio.sleep(0)
        await asyncio.sleep(0.05)
        return await outwait(patience)

    assert asyncio.run(main())[0] < 1


def test_cancelling_from_outside_stays_a_cancellation():
    async def main():
        patience = Patience(Timeouts())

        async def wait():
            with patience:
                await asyncio.sleep(5)

        task = asyncio.create_task(wait())
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        patience.close()

    asyncio.run(main())


def test_a_cancellation_beside_the_timeout_wins():
    async def main():
        patience = Patience(Timeouts(first_token_s=0.02))

        async def wait():
            try:
                with patience:
                    await asyncio.sleep(5)
            except ProviderTimeout:
                return "timeout"
            return "done"

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        asyncio.get_running_loop().call_at(patience._at, task.cancel)
        with pytest.raises(asyncio.CancelledError):
            await task
        patience.close()

    asyncio.run(main())


def test_patience_needs_a_task():
    async def main():
        patience = Patience(Timeouts())
        failure = asyncio.get_running_loop().create_future()

        def outside():
            with pytest.raises(RuntimeError), patience:
                pass
            failure.set_result(None)

        asyncio.get_running_loop().call_soon(outside)
        await failure

    asyncio.run(main())
