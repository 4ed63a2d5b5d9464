"""Runs foreign code on threads of its own, so that neither waiting, looping, raising nor exiting reaches the gateway.

A call has one thread and, where it is a coroutine, its own event loop there. A thread past its time is abandoned: nothing waits
for it any more, and what it still gives back is dropped. What ends the process or holds the interpreter lock can't be contained.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import threading
import time
import traceback
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from gateway.shifting.guard import Interference, Refused

AT_ONCE = 3
"""Calls of one plug-in that run at a time; so many threads can be left behind at most, and then it is off."""

_log = logging.getLogger(__name__)


class CallFailed(Exception):
    """A call gave nothing that can be used: it raised, took too long, was refused, or the plug-in is off."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.interference = Interference(code, text)


class Call:
    """One visit of foreign code to a thread."""

    def __init__(self) -> None:
        self.abandoned = False
        self._loop: asyncio.AbstractEventLoop | None = None
        self._task: asyncio.Task[Any] | None = None

    def finish(self, found: object) -> object:
        """What a coroutine gives back, run in a loop of this thread; anything else as it is."""
        if not isinstance(found, Awaitable):
            return found
        with asyncio.Runner() as runner:
            self._loop = runner.get_loop()
            return runner.run(self._awaited(found))

    def require_time(self) -> None:
        """Raises CallFailed in a thread that was abandoned, so that most of those end soon."""
        if self.abandoned:
            raise CallFailed("timeout", "its time is over")

    def abandon(self) -> None:
        """Nobody waits any more; a coroutine is cancelled too."""
        self.abandoned = True
        if self._loop is not None and self._task is not None:
            with contextlib.suppress(RuntimeError):  # its loop has ended meanwhile
                self._loop.call_soon_threadsafe(self._task.cancel)

    async def _awaited(self, found: Awaitable[object]) -> object:
        self._task = asyncio.current_task()
        return await found


@dataclass(frozen=True, slots=True)
class _Outcome:
    value: Any = None
    failure: Interference | None = None

    def usable(self) -> Any:
        """The value. Raises CallFailed where there is none."""
        if self.failure is not None:
            raise CallFailed(self.failure.code, self.failure.text)
        return self.value


class PluginThreads:
    """The threads of one plug-in, and how many of them had to be abandoned."""

    def __init__(self, plugin: str) -> None:
        self.plugin = plugin
        self.abandoned = 0
        self._slots = asyncio.Semaphore(AT_ONCE)

    @property
    def off(self) -> bool:
        """Whether it has used up its patience and isn't called any more."""
        return self.abandoned >= AT_ONCE

    async def run(self, work: Callable[[Call], Any], timeout_s: float) -> Any:
        """What `work` gives back, run on a thread of its own within `timeout_s` seconds. Raises CallFailed.

        Waiting for a free thread counts as time, but not against the plug-in.
        """
        self._require_on()
        deadline = time.monotonic() + timeout_s
        try:
            async with asyncio.timeout(timeout_s):
                await self._slots.acquire()
        except TimeoutError:
            raise CallFailed("busy", f"all its {AT_ONCE} threads were busy for {timeout_s:g} s") from None
        try:
            self._require_on()
            outcome, call = self._started(work)
        except CallFailed:
            self._slots.release()
            raise
        try:
            await asyncio.wait([outcome], timeout=max(0.0, deadline - time.monotonic()))
        except asyncio.CancelledError:
            self._overdue_later(outcome, call, deadline)
            raise
        if not outcome.done():
            self._abandon(call)
            raise CallFailed("timeout", f"it took longer than {timeout_s:g} s")
        return outcome.result().usable()

    def _require_on(self) -> None:
        if self.off:
            raise CallFailed("off", f"it is off until the next reload, after {self.abandoned} calls that took too long")

    def _started(self, work: Callable[[Call], Any]) -> tuple[asyncio.Future[_Outcome], Call]:
        loop = asyncio.get_running_loop()
        outcome: asyncio.Future[_Outcome] = loop.create_future()
        call = Call()

        def ended(found: _Outcome) -> None:
            self._slots.release()
            outcome.set_result(found)

        def visit() -> None:
            found = contained(lambda: work(call), self.plugin)
            with contextlib.suppress(RuntimeError):  # the gateway has ended meanwhile
                loop.call_soon_threadsafe(ended, found)

        try:
            threading.Thread(target=visit, name=f"plug-in {self.plugin}", daemon=True).start()
        except RuntimeError:
            raise CallFailed("no-thread", "no thread could be started for it") from None
        return outcome, call

    def _overdue_later(self, outcome: asyncio.Future[_Outcome], call: Call, deadline: float) -> None:
        """A client that leaves must not hide a thread that hangs."""
        call.abandoned = True

        def look() -> None:
            if not outcome.done():
                self._abandon(call)

        asyncio.get_running_loop().call_later(max(0.0, deadline - time.monotonic()), look)

    def _abandon(self, call: Call) -> None:
        call.abandon()
        self.abandoned += 1
        _log.warning("plug-in %s: a call took too long; its thread is abandoned (%d of %d)", self.plugin, self.abandoned, AT_ONCE)


def contained(work: Callable[[], Any], plugin: str) -> _Outcome:
    """Runs foreign code; whatever it raises becomes an outcome, SystemExit and KeyboardInterrupt too."""
    try:
        return _Outcome(work())
    except (CallFailed, Refused) as refused:
        return _Outcome(failure=refused.interference)
    except BaseException as error:  # noqa: BLE001 - foreign code: whatever it raises, the request goes on without it
        return _Outcome(failure=_told(error, plugin))


def _told(error: BaseException, plugin: str) -> Interference:
    """The kind of an exception, and for the log its place; never its text, which may hold a prompt or a key."""
    kind = type(error).__name__
    place = traceback.extract_tb(error.__traceback__)[-1]
    _log.warning("plug-in %s: %s at %s:%s", plugin, kind, place.filename, place.lineno)
    return Interference("raised", f"it raised {kind}")


def call_now(work: Callable[[], Any], plugin: str, timeout_s: float) -> Any:
    """Runs foreign code on a thread while the caller waits, as loading and closing do. Raises CallFailed."""
    outcomes: list[_Outcome] = []
    thread = threading.Thread(target=lambda: outcomes.append(contained(work, plugin)), name=f"plug-in {plugin}", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if not outcomes:
        raise CallFailed("timeout", f"it took longer than {timeout_s:g} s")
    return outcomes[0].usable()
