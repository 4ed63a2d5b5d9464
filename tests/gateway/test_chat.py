"""Marks find their messages, and the stronger word counts, field by field."""

from __future__ import annotations

import pytest

from gateway.chat import NO_MARKS, ContextOptions, MarkRule, Marks, marked
from gateway.shifting import BlockKind
from tests.support.small_chats import chat_message, chat_request

MESSAGES = [
    chat_message({"role": "user", "content": "a", "name": "ann"}, message_id="first"),
    chat_message({"role": "assistant", "content": "b"}),
    chat_message({"role": "user", "content": "c", "name": "ann"}, message_id="last"),
]
PIN = Marks(pinned=True)


def test_marks_are_laid_over_weaker_ones_field_by_field() -> None:
    weaker = Marks(False, True, True, BlockKind.MEMORY, 0.5, "entry", "label")
    assert NO_MARKS.over(weaker) == weaker
    assert weaker.over(Marks(True, False, False, BlockKind.TOOL, 0.1, "e", "l")) == weaker
    assert Marks(pinned=True, relevance=0.0).over(weaker) == Marks(True, True, True, BlockKind.MEMORY, 0.0, "entry", "label")


@pytest.mark.parametrize(
    ("rule", "found"),
    [
        (MarkRule(PIN, index=0), [0]),
        (MarkRule(PIN, index=2), [2]),
        (MarkRule(PIN, index=-1), [2]),
        (MarkRule(PIN, index=-3), [0]),
        (MarkRule(PIN, index=3), []),
        (MarkRule(PIN, index=-4), []),
        (MarkRule(PIN, range=(0, 1)), [0, 1]),
        (MarkRule(PIN, range=(-2, -1)), [1, 2]),
        (MarkRule(PIN, range=(0, -1)), [0, 1, 2]),
        (MarkRule(PIN, range=(1, 1)), [1]),
        (MarkRule(PIN, range=(2, 1)), []),
        (MarkRule(PIN, range=(1, 3)), []),
        (MarkRule(PIN, range=(-4, 1)), []),
        (MarkRule(PIN, id="last"), [2]),
        (MarkRule(PIN, id="nobody"), []),
        (MarkRule(PIN, name="ann"), [0, 2]),
        (MarkRule(PIN, name="bob"), []),
    ],
)
def test_a_rule_finds_its_messages(rule: MarkRule, found: list[int]) -> None:
    assert rule.positions(MESSAGES) == found


def test_a_rule_that_finds_nothing_is_told() -> None:
    marks, told = marked(chat_request(MESSAGES, options=ContextOptions(rules=(MarkRule(PIN, index=9),))))
    assert marks == [NO_MARKS] * 3
    assert [(item.stage, item.level, item.code) for item in told] == [("marks", "warning", "mark-without-message")]


def test_a_messages_own_marks_win_over_rules_and_earlier_rules_over_later_ones() -> None:
    own = chat_message({"role": "user", "content": "a"}, Marks(relevance=0.1))
    rules = (MarkRule(Marks(relevance=0.2, label="x"), index=0), MarkRule(Marks(label="y", entry_id="e"), index=0))
    marks, told = marked(chat_request([own], options=ContextOptions(rules=rules)))
    assert marks == [Marks(relevance=0.1, label="x", entry_id="e")]
    assert not told


@pytest.mark.parametrize("stays", [Marks(pinned=True), Marks(required=True)])
def test_pinned_and_required_win_over_excluded_and_that_is_told(stays: Marks) -> None:
    excluded = MarkRule(Marks(manual_excluded=True), range=(0, -1))
    marks, told = marked(chat_request(MESSAGES, options=ContextOptions(rules=(MarkRule(stays, index=1), excluded))))
    assert marks == [Marks(manual_excluded=True), Marks(manual_excluded=False).over(stays), Marks(manual_excluded=True)]
    assert [(item.level, item.code) for item in told] == [("info", "pinned-wins")]
    assert told[0].message.startswith("messages[1] ")


def test_a_mark_that_says_no_pins_nothing() -> None:
    rules = (MarkRule(Marks(pinned=False, manual_excluded=True), index=1),)
    marks, told = marked(chat_request(MESSAGES, options=ContextOptions(rules=rules)))
    assert marks[1] == Marks(pinned=False, manual_excluded=True)
    assert not told
