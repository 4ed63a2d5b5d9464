"""The host: plug-ins of every kind run, and whatever they do, the prompt that comes out keeps the promises."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.plugins.base import InterceptionContext
from gateway.plugins.base import PluginHost as HostOfPlugin
from gateway.plugins.host import LONG_CHARACTERS, Intercepted, PluginHost
from gateway.plugins.threads import CallFailed
from gateway.shifting import ContextStrategyRegistry, PromptBlock, Reason, ShiftOptions, ShiftResult, shift_context
from gateway.shifting.shift import protection
from tests.gateway.plugins.prompts import CONTEXT, blocks_of, chat, counted
from tests.gateway.shifting.conversations import conversations

OPTIONS = ShiftOptions(0.5, 7)
Register = Callable[[HostOfPlugin], Any]


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What hanging code waits for; opened at the end."""
    event = threading.Event()
    yield event
    event.set()


def host_with(*plugins: Register, timeout_s: float = 5.0) -> PluginHost:
    host = PluginHost(ContextStrategyRegistry.with_builtins(), strategy_timeout_s=timeout_s, interceptor_timeout_s=timeout_s)
    for number, register in enumerate(plugins):
        host.load(f"p{number}", register)
    return host


def strategy(found: Any) -> PluginHost:
    return host_with(lambda host: host.strategies.register("mine", found))


def shifted(host: PluginHost, name: str = "mine", budget: int = 12, blocks: Any = None) -> ShiftResult[PromptBlock]:
    given_blocks = chat() if blocks is None else blocks
    return asyncio.run(host.shift(host.strategies.get(name), given_blocks, counted, budget, OPTIONS))


def intercepted(host: PluginHost, blocks: Any = None, context: InterceptionContext = CONTEXT) -> Intercepted:
    return asyncio.run(host.intercept(chat() if blocks is None else blocks, context))


def keep_ends(blocks: Any, count_tokens: Any, budget: int) -> Any:
    return ShiftResult([blocks[0], blocks[-1]], blocks[1:-1])


class WithOptions:
    def shift(self, blocks: Any, count_tokens: Any, budget: int, *, options: ShiftOptions) -> Any:
        assert (options, count_tokens(blocks), budget) == (OPTIONS, counted(chat()), 12)
        return keep_ends(blocks, count_tokens, budget)


class Async:
    async def shift(self, blocks: Any, count_tokens: Any, budget: int) -> Any:
        await asyncio.sleep(0)
        return keep_ends(blocks, count_tokens, budget)


async def with_more(blocks: Any, count_tokens: Any, budget: int, **more: Any) -> Any:
    assert more == {"options": OPTIONS}
    return keep_ends(blocks, count_tokens, budget)


@pytest.mark.parametrize("found", [keep_ends, WithOptions(), Async(), with_more], ids=["plain", "options", "async", "more"])
def test_a_strategy_is_an_object_or_a_callable_sync_or_async_with_options_or_without(found: Any) -> None:
    result = shifted(strategy(found))
    assert [block.id for block in result.kept] == ["m0", "m3"]
    assert (list(result.diagnostics), result.prompt_tokens, result.fits) == ([], 9, True)


def test_a_callable_that_hides_its_parameters_gets_no_options() -> None:
    class Hidden:
        __signature__ = "odd"

        def __call__(self, blocks: Any, count_tokens: Any, budget: int) -> Any:
            return keep_ends(blocks, count_tokens, budget)

    assert list(shifted(strategy(Hidden())).diagnostics) == []


def test_a_built_in_strategy_runs_as_it_is() -> None:
    assert shifted(host_with(), "truncate") == shift_context(chat(), counted, 12, 0.5)


@pytest.mark.parametrize(("characters", "leaves"), [(10, False), (LONG_CHARACTERS, True)])
def test_a_strategy_that_reads_texts_leaves_the_loop_with_long_ones(characters: int, leaves: bool) -> None:
    threads = []

    class Reader:
        reads_texts = True

        def shift(self, blocks: Any, count_tokens: Any, budget: int, *, options: ShiftOptions) -> Any:
            threads.append(threading.current_thread() is threading.main_thread())
            return shift_context(blocks, count_tokens, budget)

    host = host_with()
    blocks = blocks_of([{"role": "user", "content": "x" * characters}, {"role": "user", "content": "now"}])
    asyncio.run(host.shift(Reader(), blocks, counted, 100, ShiftOptions()))
    assert threads == [not leaves]


def boom(blocks: Any, count_tokens: Any, budget: int) -> Any:
    raise SystemExit(3)


def test_a_rejected_strategy_is_named_and_truncate_serves() -> None:
    for found, code in ((boom, "strategy-raised"), (lambda *a: None, "strategy-no-result")):
        result = shifted(strategy(found))
        assert replace(result, diagnostics=()) == shift_context(chat(), counted, 12, 0.5)
        ((told, text),) = result.diagnostics
        assert told == code
        assert text.startswith("strategy mine of plug-in p0: it r")
        assert text.endswith("its result was rejected, truncate served instead")


def test_an_interference_is_told_without_rejection() -> None:
    result = shifted(strategy(lambda blocks, count, budget: ShiftResult([blocks[-1], blocks[0]], blocks[1:-1])))
    assert list(result.diagnostics) == [
        (
            "strategy-reordered",
            "strategy mine of plug-in p0: it changed the order of messages; they are back in the order of the request",
        )
    ]


def test_an_old_list_of_another_request_is_rejected() -> None:
    old: list[Any] = []

    def stale(blocks: Any, count_tokens: Any, budget: int) -> Any:
        old.append(ShiftResult(blocks, []))
        return old[0]

    host = strategy(stale)
    shifted(host)
    other = blocks_of([{**block.message, "content": "mine"} for block in chat()])
    result = shifted(host, blocks=other)
    assert {block.content for block in result.kept} == {"mine"}
    assert [code for code, _ in result.diagnostics] == ["strategy-foreign-blocks"]


def test_a_strategy_that_hangs_is_off_after_three_and_the_host_says_so(gate: threading.Event) -> None:
    host = host_with(lambda host: host.strategies.register("mine", lambda *a: gate.wait()), timeout_s=0.02)
    codes = [code for _ in range(4) for code, _ in shifted(host).diagnostics]
    assert codes == ["strategy-timeout"] * 3 + ["strategy-off"]
    assert host.problems() == ["plug-in p0 is off until the next reload: 3 of its calls took too long"]


def test_a_plug_in_that_is_off_takes_no_other_along(gate: threading.Event) -> None:
    host = host_with(
        lambda host: host.interceptors.register("bad", lambda *a: gate.wait(), timeout_s=0.02),
        lambda host: host.interceptors.register("good", lambda blocks, request: blocks[:1] + blocks[2:]),
    )
    for code in ["interceptor-timeout"] * 3 + ["interceptor-off"]:
        found = intercepted(host)
        assert [remark.code for remark in found.diagnostics] == [code]
        assert [block.id for block in found.blocks] == ["m0", "m2", "m3"]
        assert found.reasons == {"m1": Reason.INTERCEPTOR}


def test_interceptors_run_in_order_each_on_what_the_last_one_left() -> None:
    def adding(text: str) -> Any:
        async def hook(blocks: Any, request: InterceptionContext) -> Any:
            return [*blocks, PromptBlock.new("system", f"{text}{len(blocks)}")]

        return hook

    host = host_with(
        lambda host: host.interceptors.register("late", adding("late"), priority=200),
        lambda host: host.interceptors.register("early", adding("early"), priority=1, timeout_s=2.0),
    )
    found = intercepted(host)
    assert [block.content for block in found.blocks[4:]] == ["early4", "late5"]
    assert len({block.id for block in found.blocks}) == 6
    assert found.diagnostics == ()


def test_without_interceptors_the_prompt_stays_the_very_same() -> None:
    blocks = chat()
    host = host_with()
    assert (host.intercepts, intercepted(host, blocks)) == (False, (blocks, (), {}))
    assert host_with(lambda host: host.interceptors.register("x", lambda blocks, request: blocks)).intercepts


def test_an_interceptor_that_raises_is_undone_whole() -> None:
    def hook(blocks: Any, request: Any) -> Any:
        blocks.clear()
        raise SystemExit(1)

    found = intercepted(host_with(lambda host: host.interceptors.register("x", hook)))
    assert found.blocks == chat()
    (remark,) = found.diagnostics
    assert (remark.stage, remark.level, remark.code) == ("interception", "warning", "interceptor-raised")
    assert remark.message == "interceptor x of plug-in p0: it raised SystemExit; its work was undone"


def test_protected_blocks_come_back() -> None:
    found = intercepted(
        host_with(lambda host: host.interceptors.register("x", lambda blocks, request: [blocks[1].with_content("ok")]))
    )
    assert [block.content for block in found.blocks] == ["rules", "ok", "now"]
    assert [remark.code for remark in found.diagnostics] == ["interceptor-protected-restored"]


def test_closing_runs_all_cleanups_the_newest_first_whatever_they_raise() -> None:
    seen: list[str] = []

    def first(host: HostOfPlugin) -> Any:
        host.strategies.register("mine", keep_ends)
        return lambda: seen.append("first")

    def second(host: HostOfPlugin) -> Any:
        host.interceptors.register("x", lambda blocks, request: blocks)

        def cleanup() -> None:
            seen.append("second")
            raise SystemExit(1)

        return cleanup

    host = host_with(first, second)
    assert host.names() == ("p0", "p1")
    host.close()
    host.close()
    assert seen == ["second", "first"]
    assert "mine" not in host.strategies.names()
    assert host.interceptors.in_order() == []


@pytest.mark.parametrize(
    ("last", "words"),
    [
        (lambda host: 7, "it raised TypeError"),
        (lambda host: host.strategies.register("x", 7), "it raised TypeError"),
        (lambda host: host.strategies.register("x", Async), "it raised TypeError"),
        (lambda host: host.strategies.register("", keep_ends), "it raised TypeError"),
        (lambda host: host.interceptors.register("x", keep_ends, timeout_s=0), "it raised ValueError"),
        (lambda host: boom(0, 0, 0), "it raised SystemExit"),
    ],
)
def test_of_a_plug_in_that_fails_to_register_nothing_is_left(last: Register, words: str) -> None:
    def register(host: HostOfPlugin) -> Any:
        host.strategies.register("mine", keep_ends)
        host.interceptors.register("x", lambda blocks, request: blocks)
        return last(host)

    host = host_with()
    with pytest.raises(CallFailed, match=words):
        host.load("bad", register)
    assert "mine" not in host.strategies.names()
    assert (host.interceptors.in_order(), host.names()) == ([], ())


def test_a_running_strategy_outlives_its_cleanup(gate: threading.Event) -> None:
    started = threading.Event()

    def slow(blocks: Any, count_tokens: Any, budget: int) -> Any:
        started.set()
        gate.wait(5)
        return keep_ends(blocks, count_tokens, budget)

    async def story() -> Any:
        host = strategy(slow)
        running = asyncio.ensure_future(host.shift(host.strategies.get("mine"), chat(), counted, 12, OPTIONS))
        await asyncio.to_thread(started.wait, 5)
        await asyncio.to_thread(host.close)
        gate.set()
        return await running

    assert [block.id for block in asyncio.run(story()).kept] == ["m0", "m3"]


def evil(blocks: list[PromptBlock], plan: dict[str, Any], memory: list[Any]) -> Any:
    """What a hostile plug-in gives back, by plan; `memory` lasts from call to call."""
    memory.append([*blocks])
    if plan["mutate"]:
        for block in blocks:
            object.__setattr__(block, "content", "evil")
            block.message["content"] = "evil"  # type: ignore[index]
    if plan["raise"] is not None:
        raise plan["raise"]
    if plan["give"] == "old":
        return memory[0]
    if plan["give"] is not list:
        return plan["give"]
    out = [blocks[i % len(blocks)] for i in plan["picks"]]
    out += [replace(block, id="new", pinned=True, tokens=0) for block in out[: plan["invent"]]]
    out += [PromptBlock.new("user", "invented " * plan["invent"])] * plan["invent"]
    return out


plans = st.fixed_dictionaries(
    {
        "mutate": st.booleans(),
        "raise": st.sampled_from([None, None, None, ValueError("x"), SystemExit(1), KeyboardInterrupt()]),
        "give": st.sampled_from([list, list, list, "old", None, 7, "text", iter(()), [None], {"a": 1}]),
        "picks": st.lists(st.integers(0, 20), max_size=20),
        "invent": st.integers(0, 3),
    }
)


def assert_protected(blocks: list[PromptBlock], kept: list[PromptBlock], *, but: Any = ()) -> None:
    """Protected blocks are there unchanged, known ones in order, groups whole."""
    plan = protection(blocks)
    order = [blocks.index(block) for block in kept if block in blocks]
    assert order == sorted(order)
    present = {block.id for block in kept}
    for group, protected in zip(plan.groups, plan.protected, strict=True):
        left = [blocks[i].id in present for i in group.indexes]
        assert all(left) == any(left)
        if protected and group not in but:
            assert all(any(blocks[i] is block for block in kept) for i in group.indexes)


@settings(deadline=None, max_examples=60)
@given(conversations, plans, st.booleans(), st.integers(0, 60))
def test_whatever_a_hostile_plug_in_does_the_promises_hold(
    messages: list[dict[str, Any]], plan: dict[str, Any], is_async: bool, budget: int
) -> None:
    memory: list[Any] = []

    def shift(blocks: Any, count_tokens: Any, budget: int) -> Any:
        found = evil(blocks, plan, memory)
        return ShiftResult(found, []) if plan["give"] is list or plan["give"] == "old" else found

    async def hook(blocks: Any, request: Any) -> Any:
        return evil(blocks, plan, memory)

    def register(host: HostOfPlugin) -> None:
        host.strategies.register("mine", shift)
        host.interceptors.register("x", hook if is_async else lambda blocks, request: evil(blocks, plan, memory))

    host = host_with(register)
    blocks = blocks_of(messages)
    before = [(block, dict(block.message)) for block in blocks]
    started = time.monotonic()
    result = shifted(host, budget=budget, blocks=blocks)
    found = intercepted(host, blocks)
    assert time.monotonic() - started < 5
    assert [(block, dict(block.message)) for block in blocks] == before
    assert_protected(blocks, list(result.kept), but=protection(blocks).last_resort())
    assert result.fits == (counted(result.kept) <= budget)
    assert result.fits or counted(result.kept) <= counted(shift_context(blocks, counted, budget).kept)
    assert_protected(blocks, list(found.blocks))
