from __future__ import annotations

from typing import Any

from tests.tokenizer_profiles.toy_server import CALL, LINK, PDF, PNG, SOUND
from tokenizer_profiles.remote_gemini import question
from tokenizer_profiles.remote_whole import Question

TOOL = {"type": "function", "function": {"name": "f", "description": "d", "parameters": {"type": "object"}}}


def asked(messages: list[dict[str, Any]], **request: Any) -> tuple[Question, Any]:
    made = question("gemini-x", messages, request)
    assert made.path == "/v1beta/models/gemini-x:countTokens"
    assert list(made.body) == ["generateContentRequest"]
    return made, made.body["generateContentRequest"]


def test_a_chat_is_contents_of_user_and_model() -> None:
    chat = [{"role": "system", "content": "s"}, {"role": "user", "content": "a"}, {"role": "assistant", "content": "b"}]
    made, body = asked(chat)
    assert body == {
        "model": "models/gemini-x",
        "systemInstruction": {"parts": [{"text": "s"}]},
        "contents": [{"role": "user", "parts": [{"text": "a"}]}, {"role": "model", "parts": [{"text": "b"}]}],
    }
    assert made.exact
    assert not made.rest


def test_several_system_messages_are_not_quite_the_chat() -> None:
    made, body = asked([{"role": "system", "content": "s"}, {"role": "developer", "content": "t"}])
    assert body["systemInstruction"] == {"parts": [{"text": "s"}, {"text": "t"}]}
    assert not made.exact


def test_calls_and_results_that_are_objects() -> None:
    chat = [
        {"role": "assistant", "content": "wait", "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": "c1", "content": '{"found": 3}'},
    ]
    made, body = asked(chat)
    assert body["contents"] == [
        {"role": "model", "parts": [{"text": "wait"}, {"functionCall": {"name": "f", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "f", "response": {"found": 3}}}]},
    ]
    assert made.exact


def test_other_results_are_wrapped_and_not_quite_the_chat() -> None:
    made, body = asked([{"role": "assistant", "tool_calls": [CALL]}, {"role": "tool", "tool_call_id": "c1", "content": "three"}])
    assert body["contents"][1]["parts"][0]["functionResponse"]["response"] == {"result": "three"}
    assert not made.exact
    made, body = asked([{"role": "tool", "tool_call_id": "c9", "content": "{}"}])
    assert body["contents"][0]["parts"][0]["functionResponse"]["name"] == "c9"
    assert not made.exact
    broken = {**CALL, "function": {"name": "f", "arguments": "{"}}
    made, body = asked([{"role": "assistant", "tool_calls": [broken]}])
    assert body["contents"][0]["parts"][0]["functionCall"]["args"] == {"arguments": "{"}
    assert not made.exact


def test_media_in_the_message_have_a_place_and_links_have_not() -> None:
    made, body = asked([{"role": "user", "content": [PNG, SOUND, PDF, LINK]}])
    kinds = [part["inlineData"] for part in body["contents"][0]["parts"]]
    assert kinds == [{"mimeType": kind, "data": "aGk="} for kind in ("image/png", "audio/wav", "application/pdf")]
    assert made.rest == [{"content": [LINK]}]
    made, body = asked([{"role": "tool", "tool_call_id": "c1", "content": [PNG]}])
    assert len(body["contents"][0]["parts"]) == 2


def test_tools_choices_and_formats() -> None:
    schema = {"name": "n", "schema": {"type": "object"}}
    _, body = asked(
        [],
        tools=[TOOL, {"type": "function", "function": {"name": "g"}}],
        tool_choice={"type": "function", "function": {"name": "f"}},
        response_format={"type": "json_schema", "json_schema": schema},
    )
    assert body["tools"] == [
        {"functionDeclarations": [{"name": "f", "description": "d", "parametersJsonSchema": {"type": "object"}}, {"name": "g"}]}
    ]
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "ANY", "allowedFunctionNames": ["f"]}}
    assert body["generationConfig"] == {"responseMimeType": "application/json", "responseJsonSchema": {"type": "object"}}
    _, body = asked([], tools=[TOOL], tool_choice="none", response_format={"type": "json_object"})
    assert body["toolConfig"] == {"functionCallingConfig": {"mode": "NONE"}}
    assert body["generationConfig"] == {"responseMimeType": "application/json"}
    _, body = asked([], tools=[TOOL])
    assert "toolConfig" not in body


def test_the_name_of_the_model_is_one_step_of_the_path() -> None:
    assert question("models/gemini-x", [], {}).path == "/v1beta/models/gemini-x:countTokens"
    assert question("a/../b ä", [], {}).path == "/v1beta/models/a%2F..%2Fb%20%C3%A4:countTokens"
