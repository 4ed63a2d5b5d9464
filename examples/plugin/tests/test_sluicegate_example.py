"""The plug-in by itself: no gateway runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sluicegate_example import KeepOpening, without_reasoning  # type: ignore[import-not-found]  # by its folder, or installed

from gateway.plugins.base import InterceptionContext, PromptBlock


def words(blocks: Sequence[PromptBlock]) -> int:
    """Words as tokens."""
    return sum(len(block.content.split()) for block in blocks)


def block(name: str, role: str, text: str, *, protected: bool = False) -> PromptBlock:
    """A block as the gateway hands it out."""
    return replace(PromptBlock.new(role, text), id=name, protected=protected)


CHAT = [
    block("m0", "system", "rules", protected=True),
    *(block(f"m{n}", ("assistant", "user")[n % 2], "one two") for n in range(1, 9)),
    block("m9", "user", "now", protected=True),
]


def test_the_middle_leaves() -> None:
    result = KeepOpening().shift(CHAT, words, 10)
    assert [one.id for one in result.kept] == ["m0", "m1", "m2", "m7", "m8", "m9"]
    assert [one.id for one in result.excluded] == ["m3", "m4", "m5", "m6"]


def test_what_fits_stays_and_what_can_not_fit_ends() -> None:
    assert KeepOpening().shift(CHAT, words, 100).kept == CHAT
    assert [one.id for one in KeepOpening().shift(CHAT, words, 0).kept] == ["m0", "m1", "m2", "m9"]


def test_old_reasoning_leaves_and_everything_else_stays() -> None:
    request = InterceptionContext("m", "m", "truncate", 100, 10, 90, words)
    thought = block("m1", "assistant", "<think>long\nand wide</think>\nyes")
    only = block("m2", "assistant", "<think>nothing else</think>")
    asked = block("m3", "user", "what is <think>?</think>")
    current = block("m4", "assistant", "<think>in use</think> no", protected=True)
    found = without_reasoning([thought, only, asked, current], request)
    assert [one.content for one in found] == ["yes", only.content, asked.content, current.content]
    assert found[0].message == {"role": "assistant", "content": "yes"}
