"""Anthropic's own count: a chat request in the form of `POST /v1/messages/count_tokens`. Pure; knows no server.

Shapes after Anthropic's API reference (Messages: content blocks, tools). As its OpenAI-compatible endpoint does, system messages
are joined by newlines and put first. Anthropic calls the number an estimate, close to what is billed; so it is marked as one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tokenizer_profiles.base import Message, Request
from tokenizer_profiles.remote_chat import Chat, Media, Turn, json_object, read_chat, written
from tokenizer_profiles.remote_whole import PromptFormat, Question

_PATH = "/v1/messages/count_tokens"
_CHOICES = {"auto": "auto", "required": "any", "none": "none"}
_SYSTEM = ("system", "developer")


def question(model: str, messages: Sequence[Message], request: Request) -> Question:
    """The request that counts a chat."""
    chat = read_chat(messages, request)
    system = [turn for turn in chat.turns if turn.role in _SYSTEM]
    for turn in system:
        written([part for part in turn.parts if isinstance(part, Media)], lambda _: None, chat.rest)
    if chat.schema is not None:
        chat.rest.append({"response_format": dict(chat.schema)})
    body: dict[str, Any] = {"model": model, "messages": _turns(chat)}
    body |= {"system": "\n".join("".join(turn.texts) for turn in system)} if system else {}
    return Question(_PATH, body | _tools(chat), chat.rest)


ANTHROPIC = PromptFormat(question, "input_tokens", exact=False)


def _turns(chat: Chat) -> list[dict[str, Any]]:
    """Messages of user and assistant by turns: those of one role, one behind the other, are one."""
    out: list[dict[str, Any]] = []
    for turn in chat.turns:
        blocks = _blocks(turn, chat.rest) if turn.role not in _SYSTEM else []
        role = "assistant" if turn.role == "assistant" else "user"
        if blocks and out and out[-1]["role"] == role:
            out[-1]["content"] += blocks
        elif blocks:
            out.append({"role": role, "content": blocks})
    return out


def _blocks(turn: Turn, rest: list[Message]) -> list[dict[str, Any]]:
    blocks = written(turn.parts, _block, rest)
    if turn.role == "tool":
        return [{"type": "tool_result", "tool_use_id": turn.answers, "content": blocks}]
    calls = [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": json_object(call.arguments, "arguments")}
        for call in turn.calls
    ]
    return [*blocks, *calls]


def _block(part: str | Media) -> dict[str, Any] | None:
    if isinstance(part, str):
        return {"type": "text", "text": part} if part.strip() else None  # an empty text is refused
    source = {"type": "base64", "media_type": part.media_type, "data": part.data}
    if part.kind == "image_url":
        return {"type": "image", "source": source if part.data else {"type": "url", "url": part.url}}
    return {"type": "document", "source": source} if part.media_type == "application/pdf" else None


def _tools(chat: Chat) -> dict[str, Any]:
    if not chat.functions:
        return {}
    tools = [
        {"name": each.name, "input_schema": each.parameters or {"type": "object"}}
        | ({"description": each.description} if each.description is not None else {})
        for each in chat.functions
    ]
    return {"tools": tools} if chat.choice is None and chat.parallel is None else {"tools": tools, "tool_choice": _choice(chat)}


def _choice(chat: Chat) -> dict[str, Any]:
    if isinstance(chat.choice, tuple):
        choice: dict[str, Any] = {"type": "tool", "name": chat.choice[0]}
    else:
        choice = {"type": _CHOICES[chat.choice or "auto"]}
    alone = chat.parallel is False and choice["type"] != "none"
    return choice | ({"disable_parallel_tool_use": True} if alone else {})
