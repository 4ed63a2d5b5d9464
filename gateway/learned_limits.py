"""Remembers what overflows taught, for all processes that share a store; a process looks it up in its own memory.

Knows no prompt and no provider. Replicas hear of each other's lessons within `REFRESH_S`. A store that fails costs the memory of
a lesson, never a request.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Iterable
from contextlib import suppress

from gateway.errors import StoreUnavailable
from gateway.learned import NOTHING, Learned, Lesson
from gateway.stores.base import AuditStore

REFRESH_S = 5.0
_log = logging.getLogger(__name__)
_Subject = tuple[str, str, str]


class LearnedLimits:
    """The lessons in force, by provider, upstream model and account."""

    def __init__(
        self,
        store: AuditStore,
        *,
        remember_s: float = 86_400.0,
        clock: Callable[[], float] = time.time,
        changed: Callable[[Iterable[Lesson]], object] = lambda lessons: None,
    ) -> None:
        """`remember_s`: how long a lesson holds after the overflow that taught it. `changed` is told all of them."""
        self.remember_s = remember_s
        self._store = store
        self._clock = clock
        self._changed = changed
        self._lessons: dict[_Subject, Lesson] = {}

    @property
    def any(self) -> bool:
        """Whether there may be something to look up."""
        return bool(self._lessons)

    def of(self, provider: str, model: str, account: str) -> Learned:
        """What is known of a model behind an account."""
        lesson = self._lessons.get((provider, model, account))
        return lesson.learned if lesson is not None and lesson.expires_at > self._clock() else NOTHING

    async def learn(self, provider: str, model: str, account: str, learned: Learned) -> None:
        """Takes a lesson up, at once for this process and in the store for the others."""
        if learned == NOTHING:
            return
        now = self._clock()
        lesson = Lesson(provider, model, account, learned, now + self.remember_s)
        subject = (provider, model, account)
        self._lessons[subject] = lesson.after(self._lessons.get(subject), now)
        self._changed(self._lessons.values())
        try:
            await self._store.learn(lesson, now)
        except StoreUnavailable:
            _log.warning("what an overflow of %s taught could not be stored", provider)

    def take_up(self, stored: Iterable[Lesson]) -> None:
        """Makes these the lessons in force, next to those of this process, whose writing may be under way or have failed."""
        now = self._clock()
        fresh = {(one.provider, one.model, one.account): one for one in stored}
        for subject, mine in self._lessons.items():
            if mine.expires_at > now:
                fresh[subject] = mine.after(fresh.get(subject), now)
        if fresh != self._lessons:
            self._lessons = fresh
            self._changed(fresh.values())

    async def refresh(self) -> None:
        """Takes up what the store holds: the lessons of others too, without those that have expired."""
        with suppress(StoreUnavailable):
            self.take_up(await self._store.lessons(self._clock()))

    async def keep_fresh(self) -> None:
        """Refreshes for ever."""
        while True:
            await self.refresh()
            await asyncio.sleep(REFRESH_S)
