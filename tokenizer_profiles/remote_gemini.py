"""Gemini's own count: a chat request in the form of `POST /v1beta/models/MODEL:countTokens`. Pure; knows no server.

Shapes after Google's API reference (GenerateContentRequest: contents, functionDeclarations, toolConfig). How Google's
OpenAI-compatible endpoint words several system messages, or a tool's result that is no JSON object, is not published: such counts
are marked as estimates. A picture that stands elsewhere has no place there.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import quote

from tokenizer_profiles.base import Message, Request
from tokenizer_profiles.remote_chat import Chat, Media, Turn, is_json_object, json_object, read_chat, written
from tokenizer_profiles.remote_whole import PromptFormat, Question

_MODES = {"auto": "AUTO", "required": "ANY", "none": "NONE"}
_SYSTEM = ("system", "developer")


def question(model: str, messages: Sequence[Message], request: Request) -> Question:
    """The request that counts a chat."""
    chat = read_chat(messages, request)
    name = model.removeprefix("models/")
    names = {call.id: call.name for turn in chat.turns for call in turn.calls}
    system = [turn for turn in chat.turns if turn.role in _SYSTEM]
    body: dict[str, Any] = {"model": f"models/{name}", "contents": _contents(chat, names)}
    if system:
        body["systemInstruction"] = {"parts": [part for turn in system for part in written(turn.parts, _part, chat.rest)]}
    body |= _tools(chat)
    if chat.schema is not None:
        schema = chat.schema.get("schema")
        body["generationConfig"] = {"responseMimeType": "application/json"} | ({"responseJsonSchema": schema} if schema else {})
    exact = len(system) < 2 and all(_is_plain(turn, names) for turn in chat.turns)
    return Question(f"/v1beta/models/{quote(name, safe='')}:countTokens", {"generateContentRequest": body}, chat.rest, exact)


GEMINI = PromptFormat(question, "totalTokens")


def _is_plain(turn: Turn, names: Mapping[str, str]) -> bool:
    """Whether its calls and results are JSON objects, which need no wrapping, and a result's function is known."""
    if turn.role == "tool":
        return turn.answers in names and is_json_object("".join(turn.texts))
    return all(is_json_object(call.arguments) for call in turn.calls)


def _contents(chat: Chat, names: Mapping[str, str]) -> list[dict[str, Any]]:
    out: list[dict[str, Any]] = []
    for turn in chat.turns:
        parts = _parts(turn, names, chat.rest) if turn.role not in _SYSTEM else []
        if parts:
            out.append({"role": "model" if turn.role == "assistant" else "user", "parts": parts})
    return out


def _parts(turn: Turn, names: Mapping[str, str], rest: list[Message]) -> list[dict[str, Any]]:
    if turn.role == "tool":
        media = written([part for part in turn.parts if isinstance(part, Media)], _part, rest)
        response = json_object("".join(turn.texts), "result")
        return [{"functionResponse": {"name": names.get(turn.answers, turn.answers), "response": response}}, *media]
    calls = [{"functionCall": {"name": call.name, "args": json_object(call.arguments, "arguments")}} for call in turn.calls]
    return [*written(turn.parts, _part, rest), *calls]


def _part(part: str | Media) -> dict[str, Any] | None:
    if isinstance(part, str):
        return {"text": part}
    return {"inlineData": {"mimeType": part.media_type, "data": part.data}} if part.data else None


def _tools(chat: Chat) -> dict[str, Any]:
    if not chat.functions:
        return {}
    declared = [
        {"name": each.name}
        | ({"description": each.description} if each.description is not None else {})
        | ({"parametersJsonSchema": each.parameters} if each.parameters is not None else {})
        for each in chat.functions
    ]
    body: dict[str, Any] = {"tools": [{"functionDeclarations": declared}]}
    if chat.choice is None:
        return body
    if isinstance(chat.choice, tuple):
        config: dict[str, Any] = {"mode": "ANY", "allowedFunctionNames": [chat.choice[0]]}
    else:
        config = {"mode": _MODES[chat.choice]}
    return body | {"toolConfig": {"functionCallingConfig": config}}
