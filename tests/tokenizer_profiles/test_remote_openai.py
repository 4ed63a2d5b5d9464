from __future__ import annotations

from typing import Any

from tests.tokenizer_profiles.toy_server import CALL, LINK, PDF, PNG, SOUND
from tokenizer_profiles.remote_openai import question


def asked(messages: list[dict[str, Any]], **request: Any) -> Any:
    made = question("gpt-5", messages, request)
    assert made.path == "/v1/responses/input_tokens"
    assert made.exact
    assert not made.rest
    return made.body


def test_a_plain_chat_stays_one() -> None:
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}, {"role": "assistant", "content": ""}]
    assert asked(chat) == {"model": "gpt-5", "input": chat}


def test_parts_are_input_or_output() -> None:
    text = {"type": "text", "text": "a"}
    body = asked([{"role": "user", "content": [text, PNG, LINK, PDF]}, {"role": "assistant", "content": [text, text]}])
    assert body["input"] == [
        {
            "role": "user",
            "content": [
                {"type": "input_text", "text": "a"},
                {"type": "input_image", "image_url": "data:image/png;base64,aGk=", "detail": "auto"},
                {"type": "input_image", "image_url": "https://example.test/x.png", "detail": "auto"},
                {"type": "input_file", "file_data": "data:application/pdf;base64,aGk=", "filename": "a.pdf"},
            ],
        },
        {"role": "assistant", "content": [{"type": "output_text", "text": "a"}] * 2},
    ]


def test_the_detail_of_a_picture_is_kept() -> None:
    low = {"type": "image_url", "image_url": {"url": "https://example.test/x.png", "detail": "low"}}
    assert asked([{"role": "user", "content": [low]}])["input"][0]["content"][0]["detail"] == "low"


def test_calls_and_results_are_items() -> None:
    chat = [{"role": "assistant", "content": None, "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c1", "content": "r"}]
    assert asked(chat)["input"] == [
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "c1", "output": "r"},
    ]
    assert asked([{**chat[0], "content": "wait"}])["input"][0] == {"role": "assistant", "content": "wait"}


def test_tools_choices_and_formats() -> None:
    tool = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}
    schema = {"name": "n", "schema": {"type": "object"}, "strict": True}
    body = asked(
        [],
        tools=[tool, {"type": "function", "function": {"name": "g", "strict": True}}],
        tool_choice={"type": "function", "function": {"name": "f"}},
        parallel_tool_calls=False,
        response_format={"type": "json_schema", "json_schema": schema},
        reasoning_effort="low",
        temperature=1,
    )
    assert body == {
        "model": "gpt-5",
        "input": [],
        "tools": [
            {"type": "function", "name": "f", "parameters": {"type": "object"}, "strict": False, "description": "d"},
            {"type": "function", "name": "g", "parameters": None, "strict": True},
        ],
        "tool_choice": {"type": "function", "name": "f"},
        "parallel_tool_calls": False,
        "text": {"format": {"type": "json_schema", **schema}},
        "reasoning": {"effort": "low"},
    }
    assert asked([], response_format={"type": "json_object"})["text"] == {"format": {"type": "json_object"}}
    assert asked([], tools=[tool], tool_choice="none")["tool_choice"] == "none"


def test_sounds_have_no_place() -> None:
    made = question("", [{"role": "user", "content": [SOUND]}], {})
    assert made.rest == [{"content": [SOUND]}]
    assert made.body == {"input": [{"role": "user", "content": ""}]}
