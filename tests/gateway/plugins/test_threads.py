"""Foreign code may wait, loop, raise and exit: its caller goes on in time, and knows what happened."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from gateway.plugins.threads import AT_ONCE, Call, CallFailed, PluginThreads, call_now
from gateway.shifting.guard import Refused


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a hanging thread waits for; opened at the end."""
    event = threading.Event()
    yield event
    event.set()


def run(story: Callable[[PluginThreads], Awaitable[Any]], plugin: str = "p") -> Any:
    async def bounded() -> Any:
        return await asyncio.wait_for(story(PluginThreads(plugin)), 10)

    return asyncio.run(bounded())


def alive(plugin: str) -> list[threading.Thread]:
    """The threads of a plug-in that haven't ended."""
    return [thread for thread in threading.enumerate() if thread.name == f"plug-in {plugin}"]


def failure(threads: PluginThreads, work: Callable[[Call], Any], timeout_s: float = 5.0) -> Awaitable[str]:
    async def failed() -> str:
        with pytest.raises(CallFailed) as found:
            await threads.run(work, timeout_s)
        return found.value.interference.code

    return failed()


def raising(error: BaseException) -> Callable[[Call], Any]:
    def work(call: Call) -> Any:
        raise error

    return work


def test_a_call_runs_elsewhere_and_gives_its_value() -> None:
    name = run(lambda threads: threads.run(lambda call: threading.current_thread().name, 5))
    assert name == "plug-in p"


def test_a_coroutine_has_a_loop_of_its_own() -> None:
    async def hook() -> object:
        await asyncio.sleep(0)
        return asyncio.get_running_loop()

    async def story(threads: PluginThreads) -> None:
        loop = await threads.run(lambda call: call.finish(hook()), 5)
        assert isinstance(loop, asyncio.AbstractEventLoop)
        assert loop is not asyncio.get_running_loop()

    run(story)


@pytest.mark.parametrize(
    "error", [ValueError("x"), SystemExit(1), KeyboardInterrupt(), GeneratorExit(), StopIteration(), BaseException()]
)
def test_whatever_is_raised_is_contained(error: BaseException, caplog: pytest.LogCaptureFixture) -> None:
    async def hook() -> None:
        raise error

    assert run(lambda threads: failure(threads, raising(error))) == "raised"
    assert run(lambda threads: failure(threads, lambda call: call.finish(hook()))) == "raised"
    assert "test_threads.py" in caplog.text


def test_the_text_of_an_exception_is_told_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(CallFailed, match="it raised ValueError") as found, caplog.at_level(logging.DEBUG):
        run(lambda threads: threads.run(raising(ValueError("a secret")), 5))
    assert "secret" not in caplog.text + str(found.value)


def test_a_refusal_keeps_its_code() -> None:
    assert run(lambda threads: failure(threads, raising(Refused("foreign-blocks", "x")))) == "foreign-blocks"


def test_a_thread_past_its_time_is_abandoned_three_times_and_then_the_plug_in_is_off(gate: threading.Event) -> None:
    async def story(threads: PluginThreads) -> list[str]:
        found = [await failure(threads, lambda call: gate.wait(), 0.02) for _ in range(AT_ONCE)]
        assert threads.off
        return [*found, await failure(threads, lambda call: 1)]

    assert run(story, "hanging") == ["timeout"] * AT_ONCE + ["off"]
    assert len(alive("hanging")) == AT_ONCE


def test_a_burst_leaves_no_more_threads_behind(gate: threading.Event) -> None:
    async def story(threads: PluginThreads) -> list[str]:
        return await asyncio.gather(*(failure(threads, lambda call: gate.wait(), 0.05) for _ in range(20)))

    codes = run(story, "burst")
    assert len(alive("burst")) == AT_ONCE
    assert codes.count("timeout") == AT_ONCE
    assert set(codes) <= {"timeout", "busy", "off"}


def test_one_that_waited_for_a_thread_learns_that_the_plug_in_went_off(gate: threading.Event) -> None:
    async def story(threads: PluginThreads) -> str:
        late = threading.Event()
        slow = [asyncio.ensure_future(failure(threads, lambda call: late.wait(), 0.05)) for _ in range(AT_ONCE)]
        await asyncio.sleep(0)
        waiting = asyncio.ensure_future(failure(threads, lambda call: 1, 5))
        await asyncio.gather(*slow)
        late.set()
        return await waiting

    assert run(story) == "off"


def test_a_coroutine_past_its_time_is_cancelled() -> None:
    ended = threading.Event()

    async def hook() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()

    assert run(lambda threads: failure(threads, lambda call: call.finish(hook()), 0.05)) == "timeout"
    assert ended.wait(5)


def test_an_abandoned_thread_that_counts_is_stopped() -> None:
    stopped = threading.Event()

    def work(call: Call) -> None:
        try:
            while True:
                call.require_time()
                time.sleep(0.001)
        finally:
            stopped.set()

    assert run(lambda threads: failure(threads, work, 0.02)) == "timeout"
    assert stopped.wait(5)


def test_a_client_that_leaves_hides_no_thread_that_hangs(gate: threading.Event) -> None:
    async def story(threads: PluginThreads) -> tuple[int, int]:
        done = asyncio.ensure_future(threads.run(lambda call: 1, 0.5))
        hanging = asyncio.ensure_future(threads.run(lambda call: gate.wait(), 0.5))
        await asyncio.sleep(0)
        for task in (done, hanging):
            task.cancel()
        await asyncio.gather(done, hanging, return_exceptions=True)
        before = threads.abandoned
        await asyncio.sleep(0.7)
        return before, threads.abandoned

    assert run(story) == (0, 1)


def test_without_a_thread_the_call_fails_and_nothing_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def start(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    async def story(threads: PluginThreads) -> None:
        with monkeypatch.context() as patched:
            patched.setattr(threading.Thread, "start", start)
            for _ in range(AT_ONCE + 1):
                assert await failure(threads, lambda call: 1) == "no-thread"
        assert await threads.run(lambda call: 1, 5) == 1

    run(story)


def test_a_thread_that_outlives_the_gateway_harms_nobody(gate: threading.Event) -> None:
    assert run(lambda threads: failure(threads, lambda call: gate.wait(), 0.01), "left") == "timeout"
    (left,) = alive("left")
    gate.set()
    left.join(5)
    assert not left.is_alive()


def test_calls_outside_a_loop_wait_bounded(gate: threading.Event) -> None:
    assert call_now(lambda: 7, "p", 5) == 7
    with pytest.raises(CallFailed, match="longer than"):
        call_now(gate.wait, "p", 0.02)
    with pytest.raises(CallFailed, match="raised SystemExit"):
        call_now(lambda: raising(SystemExit())(Call()), "p", 5)
