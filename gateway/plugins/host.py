"""The host of the plug-ins: runs their strategies and interceptors, each call guarded, timed and contained.

One host serves one configuration; a reload makes a new one and closes the old. Knows no files and no web.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

from gateway.chat import Diagnostic
from gateway.plugins.base import Cleanup, InterceptionContext, PromptInterceptor
from gateway.plugins.copies import Copies
from gateway.plugins.interception import Interceptor, InterceptorStacks, checked, require_name
from gateway.plugins.threads import AT_ONCE, Call, CallFailed, PluginThreads, call_now
from gateway.shifting import ContextStrategyRegistry, PromptBlock, Reason, ShiftOptions, ShiftResult, TokenCounter
from gateway.shifting.guard import Interference, guarded, restored, truncated

LONG_CHARACTERS = 64 * 1024  # of a prompt: from here on a strategy that reads texts leaves the event loop
CLEANUP_S = 5.0  # so long a plug-in's cleanup may take
_log = logging.getLogger(__name__)


class Intercepted(NamedTuple):
    """A prompt after all interceptors, remarks on what was put right, and why blocks left, by id."""

    blocks: Sequence[PromptBlock]
    diagnostics: tuple[Diagnostic, ...]
    reasons: dict[str, Reason]


@dataclass(frozen=True, slots=True)
class PluginStrategy:
    """A strategy of a plug-in, as it stands in the registry. Only the host can run it."""

    name: str
    strategy: Any
    wants_options: bool
    threads: PluginThreads

    def work(
        self, call: Call, blocks: Sequence[PromptBlock], count_tokens: TokenCounter, budget: int, options: ShiftOptions
    ) -> ShiftResult[PromptBlock]:
        """One call on copies, on the plug-in's thread. Raises what the strategy raises, or Refused."""
        copies = Copies(blocks)
        shift = getattr(self.strategy, "shift", self.strategy)
        more = {"options": options} if self.wants_options else {}
        found = shift(copies.blocks, copies.counter(count_tokens, call.require_time), budget, **more)
        return copies.result(call.finish(found))


class PluginHost:
    """Everything that plug-ins registered, and the way to run it."""

    def __init__(
        self, strategies: ContextStrategyRegistry, *, strategy_timeout_s: float = 15.0, interceptor_timeout_s: float = 2.0
    ) -> None:
        """Strategies of plug-ins go into this registry. Timeouts are in seconds."""
        self.strategies = strategies
        self.interceptors = InterceptorStacks()
        self._strategy_timeout_s = strategy_timeout_s
        self._interceptor_timeout_s = interceptor_timeout_s
        self._threads: dict[str, PluginThreads] = {}
        self._cleanups: list[tuple[str, Cleanup]] = []

    @property
    def intercepts(self) -> bool:
        """Whether there is any interceptor."""
        return bool(self.interceptors.in_order())

    def load(self, plugin: str, register: Callable[[Any], object], timeout_s: float = 60.0) -> None:
        """Lets a plug-in register itself. Raises CallFailed, and then nothing of it is left."""
        threads = self._threads.setdefault(plugin, PluginThreads(plugin))
        before = len(self._cleanups)

        def call() -> None:
            found = register(_Door(self, plugin, threads))
            if found is not None and not callable(found):
                raise TypeError("register must return a cleanup or None")
            if found is not None:
                self._cleanups.append((plugin, found))

        try:
            call_now(call, plugin, timeout_s)
        except CallFailed:
            self._undo(before)
            del self._threads[plugin]
            raise

    async def shift(
        self, strategy: Any, blocks: Sequence[PromptBlock], count_tokens: TokenCounter, budget: int, options: ShiftOptions
    ) -> ShiftResult[PromptBlock]:
        """The result of a strategy from the registry; a plug-in's is guarded, and what was put right is in its diagnostics.

        Never raises for what a plug-in does: `truncate` serves instead.
        """
        if not isinstance(strategy, PluginStrategy):
            own: Callable[[], ShiftResult[PromptBlock]] = partial(strategy.shift, blocks, count_tokens, budget, options=options)
            off_loop = getattr(strategy, "reads_texts", False) and sum(len(block.content) for block in blocks) > LONG_CHARACTERS
            return await asyncio.to_thread(own) if off_loop else own()
        work = partial(strategy.work, blocks=blocks, count_tokens=count_tokens, budget=budget, options=options)
        try:
            returned = await strategy.threads.run(work, self._strategy_timeout_s)
        except CallFailed as failed:
            result, found = truncated(blocks, count_tokens, budget, options.cut_step), [failed.interference]
            refused = True
        else:
            result, found, refused = guarded(blocks, returned, count_tokens, budget, options.cut_step)
        who = f"strategy {strategy.name} of plug-in {strategy.threads.plugin}"
        end = "; its result was rejected, truncate served instead" if refused else ""
        return replace(result, diagnostics=[(f"strategy-{code}", f"{who}: {text}{end}") for code, text in found])

    async def intercept(self, blocks: Sequence[PromptBlock], context: InterceptionContext) -> Intercepted:
        """Runs all interceptors, each on what the one before left. Never raises for what a plug-in does."""
        diagnostics: list[Diagnostic] = []
        reasons: dict[str, Reason] = {}
        for interceptor in self.interceptors.in_order():
            try:
                returned = await interceptor.threads.run(
                    partial(interceptor.work, blocks=blocks, context=context), interceptor.timeout_s
                )
            except CallFailed as failed:
                undone = Interference(failed.interference.code, f"{failed.interference.text}; its work was undone")
                diagnostics.append(_remark(interceptor, undone))
                continue
            back = restored(blocks, returned)
            blocks = back.blocks
            reasons |= back.reasons
            diagnostics += [_remark(interceptor, found) for found in back.interferences]
        return Intercepted(blocks, tuple(diagnostics), reasons)

    def names(self) -> tuple[str, ...]:
        """The plug-ins that are loaded, in their order."""
        return tuple(self._threads)

    def problems(self) -> list[str]:
        """The plug-ins that are off, in words for people."""
        off = [name for name, threads in self._threads.items() if threads.off]
        return [f"plug-in {name} is off until the next reload: {AT_ONCE} of its calls took too long" for name in off]

    def close(self) -> None:
        """Runs all cleanups, the newest first; one that fails stops no other. Blocks, and may be called twice."""
        self._undo(0)

    def _undo(self, first: int) -> None:
        while len(self._cleanups) > first:
            plugin, cleanup = self._cleanups.pop()
            try:
                call_now(cleanup, plugin, CLEANUP_S)
            except CallFailed as failed:
                _log.warning("plug-in %s: its cleanup failed: %s", plugin, failed)

    def _keep(self, plugin: str, cleanup: Cleanup) -> Cleanup:
        self._cleanups.append((plugin, cleanup))
        return cleanup


class _Door:
    """What one plug-in is given to register with."""

    def __init__(self, host: PluginHost, plugin: str, threads: PluginThreads) -> None:
        self.strategies = _StrategyDoor(host, plugin, threads)
        self.interceptors = _InterceptorDoor(host, plugin, threads)


class _StrategyDoor:
    def __init__(self, host: PluginHost, plugin: str, threads: PluginThreads) -> None:
        self._host, self._plugin, self._threads = host, plugin, threads

    def register(self, name: str, strategy: Any) -> Cleanup:
        """See base.Strategies.register."""
        require_name(name)
        shift = getattr(strategy, "shift", strategy)
        if isinstance(strategy, type) or not callable(shift):
            raise TypeError(f"strategy {name}: must be an object with a method shift, or a callable; not a class")
        wrapped = PluginStrategy(name, strategy, _takes_options(shift), self._threads)
        return self._host._keep(self._plugin, self._host.strategies.register(name, wrapped))


class _InterceptorDoor:
    def __init__(self, host: PluginHost, plugin: str, threads: PluginThreads) -> None:
        self._host, self._plugin, self._threads = host, plugin, threads

    def register(self, name: str, hook: PromptInterceptor, priority: float = 100, timeout_s: float | None = None) -> Cleanup:
        """See base.Interceptors.register."""
        limit = self._host._interceptor_timeout_s if timeout_s is None else timeout_s
        interceptor = Interceptor(name, hook, *checked(name, hook, priority, limit), self._threads)
        return self._host._keep(self._plugin, self._host.interceptors.add(interceptor))


def _takes_options(shift: Callable[..., object]) -> bool:
    with contextlib.suppress(TypeError, ValueError):
        parameters = inspect.signature(shift).parameters.values()
        return any(one.name == "options" or one.kind is inspect.Parameter.VAR_KEYWORD for one in parameters)
    return False


def _remark(interceptor: Interceptor, found: Interference) -> Diagnostic:
    text = f"interceptor {interceptor.name} of plug-in {interceptor.threads.plugin}: {found.text}"
    return Diagnostic("interception", "warning", f"interceptor-{found.code}", text)
