"""Whether what several processes did to one chat, and what they saw of it, can have happened one after the other.

Every event has the time before and the time after the call, by the monotonic clock, which all processes of a machine share.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple


class Event(NamedTuple):
    """`put` makes a generation the chat's own, `delete` makes it none, `read` finds one or none."""

    what: str
    generation: str | None
    began: float
    ended: float


class _Latest:
    """The largest value of all events up to a time."""

    def __init__(self, events: Sequence[tuple[float, float]]) -> None:
        ordered = sorted(events)
        self._times = [time for time, _ in ordered]
        self._values = list(accumulate((value for _, value in ordered), max))

    def before(self, time: float) -> float:
        """Of those whose time is before this one; minus infinity where there are none."""
        number = bisect_left(self._times, time)
        return self._values[number - 1] if number else -math.inf


def contradictions(events: Sequence[Event]) -> list[str]:
    """What can't be: a generation found that had been replaced or deleted before, or nothing found where one had to be."""
    puts = {event.generation: event for event in events if event.what == "put"}
    deletes = [event for event in events if event.what == "delete"]
    last_write = _Latest([(event.ended, event.began) for event in (*puts.values(), *deletes)])
    last_put = _Latest([(event.ended, event.began) for event in puts.values()])
    last_delete = _Latest([(event.began, event.ended) for event in deletes])
    found = []
    for read in (event for event in events if event.what == "read"):
        put = puts.get(read.generation)
        if read.generation is None:
            if last_put.before(read.began) > last_delete.before(read.ended):
                found.append(f"nothing was found at {read.began}, though a generation had been put and not deleted")
        elif put is None or put.began > read.ended:
            found.append(f"{read.generation} was found before it was put")
        elif last_write.before(read.began) > put.ended:
            found.append(f"{read.generation} was found at {read.began}, after it had been replaced or deleted")
    return found
