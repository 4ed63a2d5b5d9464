from __future__ import annotations

from typing import Any

import pytest

from tests.tokenizer_profiles.toy_server import CALL, LINK, PDF, PNG, SOUND
from tokenizer_profiles.remote_anthropic import ANTHROPIC, question

TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object", "properties": {}}}}


def asked(messages: list[dict[str, Any]], **request: Any) -> Any:
    made = question("claude", messages, request)
    assert made.path == "/v1/messages/count_tokens"
    assert not made.rest
    return made.body


def text(words: str) -> dict[str, str]:
    return {"type": "text", "text": words}


def test_system_messages_come_first_and_roles_take_turns() -> None:
    chat = [
        {"role": "system", "content": "s"},
        {"role": "user", "content": "a"},
        {"role": "user", "content": "b"},
        {"role": "developer", "content": [text("t"), text("u")]},
        {"role": "assistant", "content": "c"},
    ]
    assert asked(chat) == {
        "model": "claude",
        "system": "s\ntu",
        "messages": [{"role": "user", "content": [text("a"), text("b")]}, {"role": "assistant", "content": [text("c")]}],
    }


def test_calls_and_results_are_blocks() -> None:
    chat = [
        {"role": "assistant", "content": "wait", "tool_calls": [CALL, {**CALL, "id": "c2"}]},
        {"role": "tool", "tool_call_id": "c1", "content": "r"},
        {"role": "tool", "tool_call_id": "c2", "content": ""},
        {"role": "user", "content": "well"},
    ]
    uses = [{"type": "tool_use", "id": name, "name": "f", "input": {}} for name in ("c1", "c2")]
    results = [
        {"type": "tool_result", "tool_use_id": "c1", "content": [text("r")]},
        {"type": "tool_result", "tool_use_id": "c2", "content": []},
    ]
    assert asked(chat)["messages"] == [
        {"role": "assistant", "content": [text("wait"), *uses]},
        {"role": "user", "content": [*results, text("well")]},
    ]


def test_arguments_that_are_no_object_are_kept_as_text() -> None:
    broken = {**CALL, "function": {"name": "f", "arguments": "{"}}
    block = asked([{"role": "assistant", "tool_calls": [broken]}])["messages"][0]["content"][0]
    assert block["input"] == {"arguments": "{"}


def test_pictures_and_documents() -> None:
    assert asked([{"role": "user", "content": [PNG, LINK, PDF]}])["messages"][0]["content"] == [
        {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}},
        {"type": "image", "source": {"type": "url", "url": "https://example.test/x.png"}},
        {"type": "document", "source": {"type": "base64", "media_type": "application/pdf", "data": "aGk="}},
    ]


@pytest.mark.parametrize(
    ("request_", "choice"),
    [
        ({}, None),
        ({"tool_choice": "auto"}, {"type": "auto"}),
        ({"tool_choice": "required", "parallel_tool_calls": False}, {"type": "any", "disable_parallel_tool_use": True}),
        ({"tool_choice": "none", "parallel_tool_calls": False}, {"type": "none"}),
        ({"parallel_tool_calls": True}, {"type": "auto"}),
        ({"tool_choice": {"type": "function", "function": {"name": "f"}}}, {"type": "tool", "name": "f"}),
    ],
)
def test_tools_and_choices(request_: dict[str, Any], choice: dict[str, Any] | None) -> None:
    body = asked([], tools=[TOOL, {"type": "function", "function": {"name": "g"}}], **request_)
    assert body["tools"] == [
        {"name": "f", "description": "d", "input_schema": {"type": "object", "properties": {}}},
        {"name": "g", "input_schema": {"type": "object"}},
    ]
    assert body.get("tool_choice") == choice


def test_what_has_no_place_is_left_to_an_estimate() -> None:
    chat = [{"role": "user", "content": [SOUND, text(" ")]}, {"role": "system", "content": [PNG]}]
    made = question("claude", chat, {"response_format": {"type": "json_object"}})
    assert made.body["messages"] == []
    assert sorted(map(str, made.rest)) == sorted(
        map(str, [{"content": [SOUND]}, {"content": " "}, {"content": [PNG]}, {"response_format": {}}])
    )


def test_the_number_is_an_estimate_as_anthropic_says() -> None:
    assert not ANTHROPIC.exact
