"""The interceptors by name, and one call of one of them. Knows no threads; what they may not do is the guard's."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gateway.plugins.base import Cleanup, InterceptionContext, PromptInterceptor
from gateway.plugins.copies import Copies
from gateway.plugins.threads import Call, PluginThreads
from gateway.shifting import PromptBlock


@dataclass(frozen=True, slots=True)
class Interceptor:
    """A registered hook. `timeout_s` is in seconds."""

    name: str
    hook: PromptInterceptor
    priority: float
    timeout_s: float
    threads: PluginThreads

    def work(self, call: Call, blocks: Sequence[PromptBlock], context: InterceptionContext) -> Any:
        """One call on copies, on the plug-in's thread, in terms of the originals. Raises what the hook raises, or Refused."""
        copies = Copies(blocks)
        counter = copies.counter(context.count_tokens, call.require_time)
        return copies.taken_back(call.finish(self.hook(copies.blocks, replace(context, count_tokens=counter))))


def checked(name: object, hook: object, priority: object, timeout_s: object) -> tuple[float, float]:
    """Priority and timeout of a registration. Raises TypeError or ValueError that says what is wrong."""
    require_name(name)
    if not callable(hook):
        raise TypeError(f"interceptor {name}: the hook must be callable")
    order, limit = _number(f"interceptor {name}: priority", priority), _number(f"interceptor {name}: timeout_s", timeout_s)
    if limit <= 0:
        raise ValueError(f"interceptor {name}: timeout_s must be more than 0 seconds")
    return order, limit


def require_name(name: object) -> None:
    """Raises TypeError for anything but a text that isn't empty."""
    if not isinstance(name, str) or not name:
        raise TypeError("a name must be a text that isn't empty")


def _number(what: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what} must be a number")
    if not math.isfinite(value):
        raise ValueError(f"{what} must be finite")
    return float(value)


class InterceptorStacks:
    """Interceptors by name; registering a name again stacks, and the newest serves."""

    def __init__(self) -> None:
        self._registered: list[Interceptor] = []  # in the order of registration

    def add(self, interceptor: Interceptor) -> Cleanup:
        """Adds one; the cleanup removes just this registration and may be called twice."""
        self._registered = [*self._registered, interceptor]

        def cleanup() -> None:
            self._registered = [one for one in self._registered if one is not interceptor]

        return cleanup

    def in_order(self) -> list[Interceptor]:
        """Those that serve: lower priority first, equals as they were registered."""
        newest = {one.name: one for one in self._registered}
        return sorted([one for one in self._registered if newest[one.name] is one], key=lambda one: one.priority)
