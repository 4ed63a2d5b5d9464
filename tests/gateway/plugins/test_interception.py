"""Interceptors by name and order, and what a registration must be."""

from __future__ import annotations

import math
from typing import Any

import pytest

from gateway.plugins.interception import Interceptor, InterceptorStacks, checked
from gateway.plugins.threads import Call, PluginThreads
from gateway.shifting import PromptBlock
from tests.gateway.plugins.prompts import CONTEXT, chat, counted


def hook(blocks: Any, request: Any) -> Any:
    return blocks


def interceptor(name: str, priority: float = 100) -> Interceptor:
    return Interceptor(name, hook, priority, 1.0, PluginThreads("p"))


def names(stacks: InterceptorStacks) -> list[str]:
    return [one.name for one in stacks.in_order()]


def test_a_lower_priority_runs_first_and_equals_as_registered() -> None:
    stacks = InterceptorStacks()
    for name, priority in (("c", 100), ("b", 5), ("a", 100), ("d", -1)):
        stacks.add(interceptor(name, priority))
    assert names(stacks) == ["d", "b", "c", "a"]


def test_the_newest_of_a_name_serves_and_each_cleanup_removes_only_itself() -> None:
    stacks = InterceptorStacks()
    old, new = interceptor("x"), interceptor("x")
    undo_old, undo_new = stacks.add(old), stacks.add(new)
    assert stacks.in_order() == [new]
    undo_new()
    undo_new()
    assert stacks.in_order() == [old]
    stacks.add(new)
    undo_old()
    assert stacks.in_order() == [new]


@pytest.mark.parametrize(
    ("given", "error", "words"),
    [
        (("", hook, 1, 1), TypeError, "a text that isn't empty"),
        ((None, hook, 1, 1), TypeError, "a text that isn't empty"),
        (("x", None, 1, 1), TypeError, "interceptor x: the hook must be callable"),
        (("x", hook, "1", 1), TypeError, "interceptor x: priority must be a number"),
        (("x", hook, math.nan, 1), ValueError, "interceptor x: priority must be finite"),
        (("x", hook, 1, True), TypeError, "interceptor x: timeout_s must be a number"),
        (("x", hook, 1, math.inf), ValueError, "interceptor x: timeout_s must be finite"),
        (("x", hook, 1, 0), ValueError, "interceptor x: timeout_s must be more than 0 seconds"),
    ],
)
def test_a_wrong_registration_says_what_is_wrong(given: tuple[Any, ...], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        checked(*given)


def test_a_hook_sees_copies_and_the_request() -> None:
    blocks = chat()
    seen: list[Any] = []

    def look(found: Any, request: Any) -> Any:
        seen.append((request.model, request.count_tokens(found), found[0] is blocks[0]))
        return [*found, PromptBlock.new("system", "late")]

    one = Interceptor("x", look, 1, 1.0, PluginThreads("p"))
    back = one.work(Call(), blocks, CONTEXT)
    assert back[:-1] == blocks
    assert back[-1].content == "late"
    assert seen == [("m", counted(blocks), False)]
