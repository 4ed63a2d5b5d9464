"""Options count by their place, and a wrong one is told by its path or its header."""

from __future__ import annotations

import contextlib
import json
import sys
from typing import Any

import pytest

from gateway.chat import ContextOptions, MarkRule, Marks, MemoryEntry
from gateway.errors import InvalidRequest
from gateway.web.wire_options import OWN_BODY_KEYS, checked_chat_id, read_options

NAMES = ("X-OpenWebUI-Chat-Id", "X-Session-Id")


def options(body: dict[str, Any] | None = None, **headers: str) -> ContextOptions:
    return read(body, **headers)[0]


def read(body: dict[str, Any] | None = None, **headers: str) -> Any:
    fields = {key: json.dumps(value).encode() for key, value in (body or {}).items()}
    return read_options(fields, {name.replace("_", "-"): value for name, value in headers.items()}, NAMES)


def shift(**values: Any) -> dict[str, Any]:
    return {"contextShift": values}


def refused(body: dict[str, Any] | None = None, **headers: str) -> str | None:
    with pytest.raises(InvalidRequest) as caught:
        options(body, **headers)
    return caught.value.param


@pytest.mark.parametrize(
    "nothing",
    [
        {},
        dict.fromkeys([*OWN_BODY_KEYS, "metadata", "prompt_cache_key"]),
        shift(),
        shift(**dict.fromkeys(["chatId", "contextStrategy", "replyReserve", "contextLimit", "report", "purpose", "marks"])),
        shift(**dict.fromkeys(["character", "persona", "lorebooks", "memory", "variables"])),
        shift(memory=[]),
    ],
)
def test_a_request_that_asks_for_nothing_gets_nothing(nothing: dict[str, Any]) -> None:
    asked, told = read(nothing)
    assert asked == ContextOptions()
    assert not told


def test_the_strongest_strategy_counts() -> None:
    sources: list[tuple[dict[str, Any], dict[str, str]]] = [
        ({"contextShift": {"contextStrategy": "one"}}, {}),
        ({"contextStrategy": "two"}, {}),
        ({"metadata": {"contextStrategy": "three"}}, {}),
        ({}, {"x_context_strategy": "four"}),
    ]
    for start, expected in enumerate(("one", "two", "three", "four")):
        body = {key: value for own, _ in sources[start:] for key, value in own.items()}
        headers = {key: value for _, own in sources[start:] for key, value in own.items()}
        assert options(body, **headers).strategy == expected


def test_the_strongest_chat_id_counts() -> None:
    sources: list[tuple[dict[str, Any], dict[str, str]]] = [
        ({"contextShift": {"chatId": "one"}}, {}),
        ({"metadata": {"chat_id": "two"}}, {}),
        ({}, {"x_context_chat_id": "three"}),
        ({}, {"x_openwebui_chat_id": "four"}),
        ({}, {"x_session_id": "five"}),
        ({"prompt_cache_key": "six", "user": "never"}, {}),
        ({"user": "never"}, {}),
    ]
    for start, expected in enumerate(("one", "two", "three", "four", "five", "six", None)):
        body = {key: value for own, _ in reversed(sources[start:]) for key, value in own.items()}
        headers = {key: value for _, own in sources[start:] for key, value in own.items()}
        assert options(body, **headers).chat_id == expected


@pytest.mark.parametrize(
    ("body", "headers", "field", "expected"),
    [
        (shift(chat_id="c"), {}, "chat_id", "c"),
        ({"context_shift": {"chatId": "c"}}, {}, "chat_id", "c"),
        ({"contextShift": None, "context_shift": {"chatId": "c"}}, {}, "chat_id", "c"),
        ({"metadata": {"chatId": "c"}}, {}, "chat_id", "c"),
        ({"metadata": {"chat_id": None, "chatId": "c"}}, {}, "chat_id", "c"),
        ({"metadata": {"chat_id": 5}, "prompt_cache_key": "k"}, {}, "chat_id", "k"),
        ({"metadata": "odd", "prompt_cache_key": 5}, {}, "chat_id", None),
        ({"prompt_cache_key": ""}, {"x_session_id": ""}, "chat_id", None),
        ({}, {"x_context_chat_id": "a%2Fb%20%C3%A9"}, "chat_id", "a/b é"),
        ({}, {"x_context_chat_id": "%FF"}, "chat_id", "\ufffd"),
        (shift(context_strategy="s"), {}, "strategy", "s"),
        ({"contextStrategy": None, "context_strategy": "s"}, {}, "strategy", "s"),
        ({"metadata": {"context_strategy": "s"}}, {}, "strategy", "s"),
        ({"metadata": {"contextStrategy": 5}}, {"x_context_strategy": "s"}, "strategy", "s"),
        (shift(replyReserve=5), {"x_context_reply_reserve": "6"}, "reply_reserve", 5),
        (shift(reply_reserve=5), {}, "reply_reserve", 5),
        (shift(replyReserve=100.0), {}, "reply_reserve", 100),
        ({}, {"x_context_reply_reserve": " 6 "}, "reply_reserve", 6),
        ({}, {"x_context_reply_reserve": " "}, "reply_reserve", None),
        (shift(contextLimit=50), {}, "context_limit", 50),
        (shift(context_limit=50), {}, "context_limit", 50),
        (shift(report="full"), {"x_context_report": "off"}, "report", "full"),
        (shift(report="off"), {"x_context_report": "full"}, "report", "off"),
        ({}, {"x_context_report": "summary"}, "report", "summary"),
        (shift(purpose="auxiliary"), {}, "auxiliary", True),
        (shift(purpose="reply"), {"x_context_purpose": "auxiliary"}, "auxiliary", False),
        ({}, {"x_context_purpose": "auxiliary"}, "auxiliary", True),
    ],
)
def test_an_option_is_read_in_every_form(body: dict[str, Any], headers: dict[str, str], field: str, expected: object) -> None:
    assert getattr(options(body, **headers), field) == expected


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "100", [], {}, -5.0, float("inf")])
@pytest.mark.parametrize("name", ["replyReserve", "contextLimit"])
def test_tokens_are_whole_numbers(name: str, value: object) -> None:
    raw = json.dumps({name: value}).replace("Infinity", "1e400").encode()
    with pytest.raises(InvalidRequest) as caught:
        read_options({"contextShift": raw}, {}, NAMES)
    assert caught.value.param == f"contextShift.{name}"


@pytest.mark.parametrize("value", ["0", "-1", "1.0", "x", "1e2", "²", "1" * 13, "1,2"])
def test_tokens_in_a_header_are_digits(value: str) -> None:
    assert refused(x_context_reply_reserve=value) == "x-context-reply-reserve"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"contextShift": []}, "contextShift"),
        ({"contextShift": "x"}, "contextShift"),
        (shift(chatId=5), "contextShift.chatId"),
        (shift(chatId=""), "contextShift.chatId"),
        (shift(chatId="a\nb"), "contextShift.chatId"),
        ({"metadata": {"chat_id": "x" * 257}}, "metadata.chat_id"),
        ({"prompt_cache_key": "x" * 257}, "prompt_cache_key"),
        (shift(contextStrategy=5), "contextShift.contextStrategy"),
        ({"contextStrategy": 5}, "contextStrategy"),
        ({"context_strategy": []}, "contextStrategy"),
        (shift(report="loud"), "contextShift.report"),
        (shift(report=True), "contextShift.report"),
        (shift(purpose="fun"), "contextShift.purpose"),
        (shift(marks={}), "contextShift.marks"),
        (shift(marks=[5]), "contextShift.marks[0]"),
        (shift(marks=[{"index": 0}, {"pinned": True}]), "contextShift.marks[1]"),
        (shift(marks=[{"index": 0, "id": "x"}]), "contextShift.marks[0]"),
        (shift(marks=[{"index": "0"}]), "contextShift.marks[0].index"),
        (shift(marks=[{"index": True}]), "contextShift.marks[0].index"),
        (shift(marks=[{"index": 1.5}]), "contextShift.marks[0].index"),
        (shift(marks=[{"range": 5}]), "contextShift.marks[0].range"),
        (shift(marks=[{"range": [1]}]), "contextShift.marks[0].range"),
        (shift(marks=[{"range": [1, "2"]}]), "contextShift.marks[0].range"),
        (shift(marks=[{"id": 5}]), "contextShift.marks[0].id"),
        (shift(marks=[{"name": []}]), "contextShift.marks[0].name"),
        (shift(marks=[{"index": 0, "pinned": 1}]), "contextShift.marks[0].pinned"),
        (shift(marks=[{"index": 0, "relevance": "x"}]), "contextShift.marks[0].relevance"),
        (shift(memory={}), "contextShift.memory"),
        (shift(memory="x"), "contextShift.memory"),
        (shift(memory=["x"]), "contextShift.memory[0]"),
        (shift(memory=[{"content": "a"}, None]), "contextShift.memory[1].content"),
        (shift(memory=[{"content": None}]), "contextShift.memory[0].content"),
        (shift(memory=[{"content": ["a"]}]), "contextShift.memory[0].content"),
        (shift(memory=[{"content": "a", "relevance": "NaN"}]), "contextShift.memory[0].relevance"),
        (shift(memory=[{"content": "a", "relevance": True}]), "contextShift.memory[0].relevance"),
        (shift(memory=[{"content": "a", "required": 1}]), "contextShift.memory[0].required"),
        (shift(character="x"), "contextShift.character"),
    ],
)
def test_a_wrong_option_is_told_by_its_path(body: dict[str, Any], param: str) -> None:
    assert refused(body) == param


@pytest.mark.parametrize(
    ("name", "value", "param"),
    [
        ("x_context_chat_id", "%00", "X-Context-Chat-Id"),
        ("x_session_id", "x" * 257, "X-Session-Id"),
        ("x_context_report", "loud", "X-Context-Report"),
        ("x_context_purpose", "fun", "X-Context-Purpose"),
        ("x_context_pin", "1;2", "x-context-pin"),
        ("x_context_exclude", "1..", "x-context-exclude"),
        ("x_context_pin", "1" * 10, "x-context-pin"),
        ("x_context_character", "guide", None),
        ("x_context_lorebooks", "realm", None),
    ],
)
def test_a_wrong_header_is_told_by_its_name(name: str, value: str, param: str | None) -> None:
    assert refused(**{name: value}) == param


def test_a_repeated_key_of_the_extension_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="repeats a key"):
        read_options({"contextShift": b'{"chatId":"a","chatId":"b"}'}, {}, NAMES)


def test_marks_are_read_with_every_selector_in_their_order() -> None:
    marks = [
        {"index": -1, "pinned": True},
        {"range": [0, -2], "manual_excluded": True, "id": None},
        {"id": "x", "relevance": 5},
        {"name": "ann", "required": True, "kind": "memory"},
    ]
    rules = options(shift(marks=marks), x_context_pin=" 0, 3,-2..-1 ,", x_context_exclude="5").rules
    assert [(rule.index, rule.range, rule.id, rule.name) for rule in rules] == [
        (-1, None, None, None),
        (None, (0, -2), None, None),
        (None, None, "x", None),
        (None, None, None, "ann"),
        (None, (0, 0), None, None),
        (None, (3, 3), None, None),
        (None, (-2, -1), None, None),
        (None, (5, 5), None, None),
    ]
    assert rules[1].marks == Marks(manual_excluded=True)
    assert rules[2].marks == Marks(relevance=1.0)
    assert rules[4] == MarkRule(Marks(pinned=True), range=(0, 0))
    assert rules[7].marks == Marks(manual_excluded=True)


def test_memory_is_read_in_its_order() -> None:
    memory = [
        {"content": "plain"},
        {"content": "", "relevance": None, "required": None},
        {"content": "low", "relevance": -3, "required": False},
        {"content": "high", "relevance": 2, "required": True, "id": "of the client"},
        {"content": "mid", "relevance": 0.25},
        {"content": "broken \ud800 half", "kind": 5},
    ]
    assert options(shift(memory=memory)).memory == (
        MemoryEntry("plain", None, False),
        MemoryEntry("", None, False),
        MemoryEntry("low", 0.0, False),
        MemoryEntry("high", 1.0, True),
        MemoryEntry("mid", 0.25, False),
        MemoryEntry("broken ? half", None, False),
    )


def test_an_option_nobody_knows_is_told_and_no_other() -> None:
    known = {"chat_id": "c", "context_limit": 5, "reply_reserve": None, "variables": None}
    told = read(shift(**known, chatID="c", **{"y" * 90: 1}))[1]
    assert [(item.level, item.code) for item in told] == [("warning", "unknown-option")] * 2
    assert told[0].message.startswith("contextShift.'chatID' ")
    assert len(told[1].message) < 130


@pytest.mark.parametrize("chat_id", ["a", "x" * 256, "a/b", "ü", " ", "\U0001f600"])
def test_a_chat_id_may_be_anything_printable(chat_id: str) -> None:
    assert checked_chat_id(chat_id, "there") == chat_id


@pytest.mark.parametrize("chat_id", ["", "x" * 257, "a\x00", "\x1f", "\x7f", "\x85", "tab\t"])
def test_a_chat_id_is_neither_empty_nor_long_nor_holds_controls(chat_id: str) -> None:
    with pytest.raises(InvalidRequest, match="the one in there has not") as caught:
        checked_chat_id(chat_id, "there")
    assert caught.value.param == "there"


def test_the_bodys_own_keys_are_those_that_are_read() -> None:
    assert sorted(OWN_BODY_KEYS) == ["contextShift", "contextStrategy", "context_shift", "context_strategy"]


@pytest.mark.parametrize("key", ["metadata", "contextShift", "prompt_cache_key"])
def test_large_options_are_not_kept_in_memory(key: str) -> None:
    large = json.dumps("x" * 1_000_000 if key == "prompt_cache_key" else {"chatId": "c", "more": "x" * 1_000_000}).encode()
    held = sys.getrefcount(large)
    with contextlib.suppress(InvalidRequest):
        read_options({key: large}, {}, NAMES)
    assert sys.getrefcount(large) == held
