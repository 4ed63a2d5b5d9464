"""Neighbours are joined and systems come first where a shape asks for it; no text is lost, and nothing else is touched."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.shaping import CONTINUED, is_changed, remarks, shaped

Wire = dict[str, Any]
PNG: Wire = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
NO: Wire = {"type": "refusal", "refusal": "no"}
CACHE: Wire = {"cache_control": {"type": "ephemeral"}}
CALL: Wire = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}
RESULT: Wire = {"role": "tool", "tool_call_id": "c", "content": "r"}


def said(role: str, content: Any, **more: Any) -> Wire:
    return {"role": role, "content": content, **more}


def text(words: str, **more: Any) -> Wire:
    return {"type": "text", "text": words, **more}


def sent(messages: Sequence[Wire], shape: Any = "strict") -> list[Any]:
    return [one.message for one in shaped(messages, shape)]


def short(messages: Sequence[Wire], shape: Any = "strict") -> list[tuple[str, Any]]:
    return [(message["role"], message.get("content")) for message in sent(messages, shape)]


def test_as_is_is_the_very_messages_whatever_they_are() -> None:
    chat = [said("assistant", "a"), said("assistant", "b"), said("system", "c")]
    assert all(one is other for one, other in zip(sent(chat, "as-is"), chat, strict=True))


@pytest.mark.parametrize("shape", ["merge", "strict"])
def test_neighbours_of_role_user_or_assistant_are_joined_by_a_blank_line(shape: str) -> None:
    chat = [said("user", "a"), said("user", "b"), said("assistant", "c"), said("assistant", "d"), said("user", "e")]
    assert short(chat, shape) == [("user", "a\n\nb"), ("assistant", "c\n\nd"), ("user", "e")]
    assert [one.sources for one in shaped(chat, shape)] == [(0, 1), (2, 3), (4,)]


def test_strict_brings_all_system_texts_to_the_front_and_then_joins_the_others() -> None:
    chat = [said("user", "a"), said("system", "b"), said("user", "c"), said("assistant", "d"), said("developer", "e")]
    assert short(chat) == [("system", "b\n\ne"), ("user", "a\n\nc"), ("assistant", "d")]
    assert [one.sources for one in shaped(chat, "strict")] == [(1, 4), (0, 2), (3,)]


def test_merge_leaves_every_system_message_in_its_place_and_joins_only_neighbours() -> None:
    chat = [said("developer", "a"), said("system", "b"), said("user", "c"), said("system", "d"), said("user", "e")]
    assert short(chat, "merge") == [("developer", "a\n\nb"), ("user", "c"), ("system", "d"), ("user", "e")]


def test_under_strict_a_user_stands_before_an_assistant_that_would_begin() -> None:
    chat = [said("system", "s"), said("assistant", "a"), said("user", "b")]
    assert short(chat) == [("system", "s"), ("user", "(continued)"), ("assistant", "a"), ("user", "b")]
    assert shaped(chat, "strict")[1] == (CONTINUED, (), 0)
    assert short([CALL, RESULT])[0] == ("user", "(continued)")
    assert not is_changed(shaped(chat, "merge"))


@pytest.mark.parametrize("chat", [[said("system", "s")], [RESULT, said("user", "a")], [said("user", "a")], []])
def test_nothing_is_put_before_anything_else(chat: list[Wire]) -> None:
    assert not is_changed(shaped(chat, "strict"))


@pytest.mark.parametrize("shape", ["merge", "strict"])
@pytest.mark.parametrize(
    "held",
    [
        CALL,
        said("assistant", "x", function_call={"name": "f", "arguments": "{}"}),
        said("assistant", "x", toolCalls=[{"callId": "c"}]),
        said("assistant", "x", tool_calls=[{"function": {"name": "no id"}}]),
        said("assistant", [text("x"), {"type": "tool_use", "id": "c"}]),
        said("assistant", [{"type": "server_tool_use", "id": "c"}]),
        said("user", [{"type": "tool_result", "tool_use_id": "c"}, text("x")]),
        said("user", {"odd": 1}),
        said("narrator", "x"),
        {"type": "function_call", "call_id": "c"},
    ],
)
def test_what_calls_or_answers_or_is_not_understood_is_never_joined(held: Wire, shape: str) -> None:
    role = held.get("role", "assistant")
    chat = [said("user", "u"), said(role, "a"), held, held, said(role, "b")]
    assert [message for message in sent(chat, shape) if message is held] == [held, held]


@pytest.mark.parametrize("shape", ["merge", "strict"])
def test_results_of_tools_are_never_joined(shape: str) -> None:
    chat = [said("user", "a"), CALL, RESULT, RESULT, said("function", "x", name="f"), said("function", "y", name="f")]
    assert not is_changed(shaped(chat, shape))


def test_an_empty_list_of_calls_is_no_call() -> None:
    chat = [said("user", "u"), said("assistant", "a", tool_calls=[]), said("assistant", "b", function_call=None)]
    assert sent(chat, "merge")[1:] == [said("assistant", "a\n\nb", tool_calls=[])]


@pytest.mark.parametrize(
    ("contents", "joined"),
    [
        (["", "a"], "a"),
        (["a", None], "a"),
        (["a", "", None, "b"], "a\n\nb"),
        ([None, ""], None),
        (["", None], ""),
        (["", [text("a"), PNG]], [text("a"), PNG]),
        (["a", [text("b"), PNG]], [text("a\n\nb"), PNG]),
        ([[text("a"), text("b")], [text("c")], "d"], [text("a"), text("b\n\nc\n\nd")]),
        ([[text("a"), PNG], [PNG, text("b")]], [text("a"), PNG, PNG, text("b")]),
        ([[PNG], "b", [PNG]], [PNG, text("b"), PNG]),
        ([[text("")], "b"], [text(""), text("b")]),
        ([["bare"], "b"], ["bare", text("b")]),
        ([[text("a", **CACHE)], "b"], [text("a", **CACHE), text("\n\nb")]),
        (["a", [text("b", **CACHE)]], [text("a\n\n"), text("b", **CACHE)]),
        ([[text("a", **CACHE)], [text("b", **CACHE)]], [text("a", **CACHE), text("\n\nb", **CACHE)]),
        ([[{"type": "text", "text": 5}], [NO]], [{"type": "text", "text": 5}, NO]),
    ],
)
def test_contents_are_joined_without_stray_blank_lines_and_parts_stay_parts(contents: list[Any], joined: Any) -> None:
    assert short([said("user", content) for content in contents]) == [("user", joined)]


def test_a_content_that_is_missing_stays_missing_or_is_the_other_s() -> None:
    nothing: Wire = {"role": "user"}
    assert sent([nothing, nothing]) == [nothing]
    assert sent([nothing, said("user", "a")]) == [said("user", "a")]


def test_what_was_given_is_not_changed() -> None:
    parts = [text("a")]
    chat = [said("user", parts), said("user", "b"), said("user", [text("c", **CACHE)], x=1)]
    shaped(chat, "strict")
    assert chat == [said("user", [text("a")]), said("user", "b"), said("user", [text("c", **CACHE)], x=1)]
    assert chat[0]["content"] is parts


def test_other_fields_are_kept_and_of_two_the_first() -> None:
    chat = [said("user", "a", x=None, y=1), said("user", "b", x=2, y=1, z=3), said("user", "c", x=5, z=4, y=None)]
    (one,) = shaped(chat, "merge")
    assert one.message == said("user", "a\n\nb\n\nc", x=2, y=1, z=3)
    assert one.lost == 2


@pytest.mark.parametrize(("first", "second"), [("ann", "bob"), ("ann", None), (None, "bob")])
def test_speakers_of_different_names_stay_apart_under_merge_and_lose_them_under_strict(
    first: str | None, second: str | None
) -> None:
    chat = [said("user", "a", name=first), said("user", "b", name=second)]
    assert not is_changed(shaped(chat, "merge"))
    (one,) = shaped(chat, "strict")
    assert (one.message, one.lost) == (said("user", "a\n\nb"), 1)


@pytest.mark.parametrize("shape", ["merge", "strict"])
def test_one_speaker_keeps_the_name(shape: str) -> None:
    chat = [said("user", "a", name="ann"), said("user", "b", name="ann")]
    assert sent(chat, shape) == [said("user", "a\n\nb", name="ann")]


def test_everything_that_was_done_is_told() -> None:
    chat = [said("assistant", "a"), said("system", "s"), said("user", "b", name="x"), said("user", "c", name="y")]
    assert remarks(shaped(chat, "strict"), "strict") == [
        (
            "info",
            "message-shape",
            "message_shape strict: 4 messages are sent as 4; neighbours of one role are joined by a blank line; system messages "
            "stand at the front; a user message (continued) stands before the assistant's first",
        ),
        (
            "warning",
            "message-shape-lost",
            "joined messages differed in other fields (1): the first's went out, and of differing names none",
        ),
    ]
    assert remarks(shaped(chat[1:2] * 2, "merge"), "merge") == [
        (
            "info",
            "message-shape",
            "message_shape merge: 2 messages are sent as 1; neighbours of one role are joined by a blank line",
        )
    ]


ROLES = ("system", "developer", "user", "user", "assistant", "assistant")


@st.composite
def chats(draw: st.DrawFn) -> list[Wire]:
    """Chats of any order of roles; every text and every image is named by its message and its place in it."""
    chat: list[Wire] = []
    for at in range(draw(st.integers(0, 10))):
        kind = draw(st.sampled_from(["text", "text", "text", "parts", "empty", "call", "result"]))
        name = draw(st.sampled_from([{}, {}, {"name": "ann"}, {"name": "bob"}]))
        if kind == "call":
            chat.append({**CALL, "content": f"t{at}.0 "})
        elif kind == "result":
            chat.append({**RESULT, "content": f"t{at}.0 "})
        else:
            parts = draw(st.lists(st.sampled_from(["text", "marked", "image"]), max_size=3))
            content = {"text": f"t{at}.0 ", "empty": draw(st.sampled_from(["", None])), "parts": _parts(at, parts)}[kind]
            chat.append(said(draw(st.sampled_from(ROLES)), content, **name))
    return chat


def _parts(at: int, kinds: list[str]) -> list[Wire]:
    made = {"text": {"type": "text"}, "marked": {"type": "text", **CACHE}, "image": {"type": "image_url"}}
    return [
        {**made[kind], **({"image_url": {"url": f"t{at}.{n} "}} if kind == "image" else {"text": f"t{at}.{n} "})}
        for n, kind in enumerate(kinds)
    ]


def named(messages: Sequence[Any]) -> list[str]:
    """All texts and images, in order."""
    return re.findall(r"t\d+\.\d+", str([message.get("content") for message in messages]))


def is_system(message: Any) -> bool:
    return message["role"] in ("system", "developer")


def is_of_tools(message: Any) -> bool:
    return message["role"] == "tool" or bool(message.get("tool_calls"))


@settings(max_examples=300, deadline=None)
@given(chats(), st.sampled_from(["merge", "strict"]))
def test_no_text_is_lost_or_moved_but_systems_and_a_shaped_chat_is_left_alone(chat: list[Wire], shape: Any) -> None:
    found = sent(chat, shape)
    order = sorted(chat, key=lambda message: not is_system(message)) if shape == "strict" else chat
    assert named(found) == named(order)
    assert not is_changed(shaped(found, shape))
    assert sorted(at for one in shaped(chat, shape) for at in one.sources) == list(range(len(chat)))


@settings(max_examples=300, deadline=None)
@given(chats(), st.sampled_from(["merge", "strict"]))
def test_what_is_not_joined_is_the_very_message_and_tools_never_are(chat: list[Wire], shape: Any) -> None:
    for one in shaped(chat, shape):
        assert len(one.sources) != 1 or one.message is chat[one.sources[0]]
    tools = [id(message) for message in chat if is_of_tools(message)]
    assert [id(message) for message in sent(chat, shape) if is_of_tools(message)] == tools


@settings(max_examples=300, deadline=None)
@given(chats())
def test_under_strict_one_system_is_first_and_the_others_alternate_but_around_tools(chat: list[Wire]) -> None:
    found = sent(chat)
    assert [is_system(message) for message in found[1:]] == [False] * len(found[1:])
    rest = [message for message in found if not is_system(message)]
    assert not rest or rest[0]["role"] != "assistant"
    for before, after in itertools.pairwise(rest):
        assert is_of_tools(before) or is_of_tools(after) or before["role"] != after["role"]


@settings(max_examples=300, deadline=None)
@given(chats())
def test_under_merge_no_neighbours_of_one_role_and_name_are_left(chat: list[Wire]) -> None:
    found = sent(chat, "merge")
    for before, after in itertools.pairwise(found):
        joinable = not is_of_tools(before) and not is_of_tools(after) and before.get("name") == after.get("name")
        assert not joinable or (before["role"] != after["role"] and not (is_system(before) and is_system(after)))
    assert [one.message for one in shaped(chat, "merge") if not one.sources] == []
