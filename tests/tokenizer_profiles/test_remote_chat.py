from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tokenizer_profiles.toy_server import CALL, LINK, PDF, PNG, SOUND
from tokenizer_profiles.remote_anthropic import ANTHROPIC
from tokenizer_profiles.remote_base import encoded
from tokenizer_profiles.remote_chat import Call, Function, Media, Turn, is_json_object, json_object, read_chat, written
from tokenizer_profiles.remote_gemini import GEMINI
from tokenizer_profiles.remote_openai import OPENAI
from tokenizer_profiles.remote_vllm import VLLM


def test_every_documented_shape_is_read() -> None:
    chat = read_chat(
        [
            {"role": "developer", "content": "Be brief."},
            {"role": "user", "content": [{"type": "text", "text": "a"}, PNG, LINK, SOUND, PDF, {"type": "text", "text": ""}]},
            {"role": "assistant", "content": None, "tool_calls": [CALL], "refusal": None, "annotations": []},
            {"role": "tool", "tool_call_id": "c1", "content": "r"},
        ],
        {},
    )
    assert chat.turns == [
        Turn("developer", ["Be brief."], []),
        Turn(
            "user",
            [
                "a",
                Media("image_url", PNG, "image/png", "aGk=", "data:image/png;base64,aGk="),
                Media("image_url", LINK, url="https://example.test/x.png"),
                Media("input_audio", SOUND, "audio/wav", "aGk="),
                Media("file", PDF, "application/pdf", "aGk=", "data:application/pdf;base64,aGk="),
            ],
            [],
        ),
        Turn("assistant", [], [Call("c1", "f", "{}")]),
        Turn("tool", ["r"], [], "c1"),
    ]
    assert chat.turns[1].texts == ["a"]
    assert chat.rest == []


@pytest.mark.parametrize(
    "odd",
    [
        {"role": "pirate", "content": "x"},
        {"role": ["user"], "content": "x"},
        {"content": "x"},
        {"role": "tool", "content": "x"},
        {"role": "user", "content": 5},
        {"role": "user", "content": {"a": 1}},
        {"role": "user", "content": ["x"]},
        {"role": "user", "content": [{"type": "text", "text": 5}]},
        {"role": "user", "content": [{"type": "text", "text": "x", "colour": "red"}]},
        {"role": "user", "content": [{"type": ["text"]}]},
        {"role": "user", "content": [{"type": "video_url", "video_url": {"url": "x"}}]},
        {"role": "user", "content": [{"type": "image_url"}]},
        {"role": "user", "content": [{"type": "image_url", "image_url": {"url": 5}}]},
        {"role": "user", "content": [{"type": "file", "file": "x"}]},
        {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": 5}}]},
        {"role": "user", "content": "x", "name": "Ann"},
        {"role": "assistant", "content": "x", "reasoning_content": "hm"},
        {"role": "assistant", "content": "x", "tool_calls": 5},
        {"role": "assistant", "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": {}}}]},
        {"role": "assistant", "tool_calls": ["x"]},
        {"role": "assistant", "function_call": {"name": "f", "arguments": "{}"}},
    ],
)
def test_what_is_not_understood_goes_to_the_rest(odd: dict[str, Any]) -> None:
    assert len(read_chat([odd], {}).rest) == 1


def test_tools_and_formats_are_read() -> None:
    schema = {"name": "n", "schema": {"type": "object"}}
    chat = read_chat(
        [],
        {
            "tools": [
                {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"a": 1}, "strict": True}}
            ],
            "functions": [{"name": "g"}],
            "tool_choice": {"type": "function", "function": {"name": "f"}},
            "parallel_tool_calls": False,
            "response_format": {"type": "json_schema", "json_schema": schema},
        },
    )
    assert chat.functions == [Function("f", "d", {"a": 1}, strict=True), Function("g", None, None, strict=False)]
    assert (chat.choice, chat.parallel, chat.schema, chat.rest) == (("f",), False, schema, [])
    assert read_chat([], {"function_call": {"name": "g"}}).choice == ("g",)
    assert read_chat([], {"tool_choice": "required"}).choice == "required"
    assert read_chat([], {"response_format": {"type": "text"}}).schema is None
    assert read_chat([], {"response_format": {"type": "json_object"}}).schema == {}


@pytest.mark.parametrize(
    "request_",
    [
        {"tools": "x"},
        {"tools": [{"type": "custom", "custom": {"name": "c"}}]},
        {"tools": [{"type": "function", "function": {"name": 5}}]},
        {"tools": [{"type": "function", "function": {"name": "f", "parameters": "x"}}]},
        {"functions": ["x"]},
        {"tool_choice": "perhaps"},
        {"tool_choice": {"type": "allowed_tools"}},
        {"response_format": "json"},
        {"response_format": {"type": "grammar"}},
        {"response_format": {"type": "json_schema", "json_schema": 5}},
    ],
)
def test_odd_requests_go_to_the_rest(request_: dict[str, Any]) -> None:
    assert len(read_chat([], request_).rest) == 1


def test_parts_without_a_place_go_to_the_rest() -> None:
    rest: list[Any] = []
    sound = Media("input_audio", SOUND)
    assert written(["a", "b", sound], lambda part: {"t": part} if part == "a" else None, rest) == [{"t": "a"}]
    assert rest == [{"content": "b"}, {"content": [SOUND]}]


def test_objects_in_texts() -> None:
    assert json_object('{"a": 1}', "k") == {"a": 1}
    assert json_object("[1]", "k") == {"k": "[1]"}
    assert json_object("[" * 100_000, "k") == {"k": "[" * 100_000}
    assert [is_json_object(text) for text in ('{"a": 1}', "", "5", "{")] == [True, False, False, False]


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.sampled_from(["auto", "text", "function", "user"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "text", "function", "name", "x"]), inner)
    ),
    max_leaves=6,
)
MESSAGES = st.lists(
    st.fixed_dictionaries(
        {"role": st.sampled_from(["user", "assistant", "system", "tool"])},
        optional={
            "content": JSON | st.lists(st.sampled_from([PNG, LINK, SOUND, PDF]), max_size=2),
            "tool_calls": JSON | st.just([CALL]),
            "tool_call_id": JSON,
            "name": JSON,
        },
    ),
    max_size=4,
)
REQUESTS = st.dictionaries(
    st.sampled_from(["tools", "functions", "tool_choice", "parallel_tool_calls", "response_format", "reasoning_effort"]), JSON
)


@settings(deadline=None, max_examples=150)
@given(MESSAGES, REQUESTS)
def test_no_format_raises_on_odd_chats(messages: list[dict[str, Any]], request: dict[str, Any]) -> None:
    for form in (VLLM, OPENAI, ANTHROPIC, GEMINI):
        question = form.question("m", messages, request)
        assert encoded(question.body)
