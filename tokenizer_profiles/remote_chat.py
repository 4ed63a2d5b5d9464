"""Reads a chat request for the formats of other counting endpoints: texts, media, calls, tools. Knows no endpoint.

What is not of OpenAI's documented shape goes to the `rest`, as messages whose tokens are estimated. Nothing here raises.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeGuard

from tokenizer_profiles.attachments import split_data_url
from tokenizer_profiles.base import Message, Request

Part = Mapping[str, Any]

_ROLES = ("system", "developer", "user", "assistant", "tool")
_MESSAGE_KEYS = frozenset(("role", "content", "tool_calls", "tool_call_id", "id", "type", "status", "index", "cache_control"))
_PART_KEYS = frozenset(("type", "text", "cache_control"))
_CHOICES = ("auto", "none", "required")


@dataclass(frozen=True, slots=True)
class Media:
    """An image, a sound or a file: `part` as it came; `media_type` and base64 `data` where it stands in the message itself."""

    kind: str  # the type of the part: image_url, input_audio, file
    part: Part
    media_type: str = ""
    data: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """A call of a function; `arguments` is the model's own text, which should be a JSON object."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Turn:
    """A message: its texts and media in order, its calls, and of a tool's message the id of the call that it answers."""

    role: str
    parts: Sequence[str | Media]
    calls: Sequence[Call] = ()
    answers: str = ""

    @property
    def texts(self) -> list[str]:
        """The texts alone."""
        return [part for part in self.parts if isinstance(part, str)]


@dataclass(frozen=True, slots=True)
class Function:
    """The definition of a function; `parameters` is its JSON schema, None where it has none."""

    name: str
    description: str | None
    parameters: Mapping[str, Any] | None
    strict: bool


@dataclass(frozen=True, slots=True)
class Chat:
    """A chat request. `choice` is auto, none, required, (name,) of the one function that must be called, or None.

    `schema` is the `json_schema` of the response format, an empty one for any JSON object, None for text. The `rest` grows
    while the chat is written in a format that lacks something.
    """

    turns: Sequence[Turn]
    functions: Sequence[Function] = ()
    choice: str | tuple[str] | None = None
    parallel: bool | None = None
    schema: Mapping[str, Any] | None = None
    rest: list[Message] = field(default_factory=list)


def read_chat(messages: Sequence[Message], request: Request) -> Chat:
    """A chat request in the terms above."""
    rest: list[Message] = []
    turns = [turn for message in messages if (turn := _turn(message, rest)) is not None]
    parallel = request.get("parallel_tool_calls")
    return Chat(
        turns,
        _functions(request, rest),
        _choice(request, rest),
        parallel if isinstance(parallel, bool) else None,
        _schema(request, rest),
        rest,
    )


def written(
    parts: Sequence[str | Media], write: Callable[[str | Media], dict[str, Any] | None], rest: list[Message]
) -> list[dict[str, Any]]:
    """What `write` makes of each part; those for which that is None go to the rest."""
    out: list[dict[str, Any]] = []
    for part in parts:
        made = write(part)
        if made is not None:
            out.append(made)
        else:
            rest.append({"content": part if isinstance(part, str) else [part.part]})
    return out


def json_object(text: str, key: str) -> Mapping[str, Any]:
    """The JSON object that a text is; any other text as the only value of one."""
    read = _decoded(text)
    return read if isinstance(read, dict) else {key: text}


def is_json_object(text: str) -> bool:
    """Whether a text is a JSON object."""
    return isinstance(_decoded(text), dict)


def _decoded(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _turn(message: Message, rest: list[Message]) -> Turn | None:
    role, calls = message.get("role"), message.get("tool_calls")
    if role not in _ROLES or (role == "tool" and not isinstance(message.get("tool_call_id"), str)):
        rest.append(message)
        return None
    unknown = {key: value for key, value in message.items() if key not in _MESSAGE_KEYS and value}
    if unknown:
        rest.append(unknown)
    answers = message["tool_call_id"] if role == "tool" else ""
    return Turn(role, _parts(message.get("content"), rest), _calls(calls, rest), answers)


def _parts(content: object, rest: list[Message]) -> list[str | Media]:
    if content is None or isinstance(content, str):
        return [content] if content else []
    out: list[str | Media] = []
    for part in content if isinstance(content, list) else [content]:
        read = _part(part) if isinstance(part, Mapping) else None
        if read is None:
            rest.append({"content": [part]})
        elif read:
            out.append(read)
    return out


def _part(part: Part) -> str | Media | None:
    """The text or the medium of a part; None when it is neither."""
    kind = part.get("type")
    if kind == "text":
        text = part.get("text")
        return text if isinstance(text, str) and _PART_KEYS.issuperset(part) else None
    if not isinstance(kind, str) or kind not in ("image_url", "input_audio", "file"):
        return None
    inner = part.get(kind)
    holder = {"url": inner} if kind == "image_url" and isinstance(inner, str) else inner
    if not isinstance(holder, Mapping):
        return None
    data = holder.get("data")
    if kind == "input_audio":
        return Media(kind, part, f"audio/{holder.get('format')}", data) if isinstance(data, str) else None
    url = holder.get("url") if kind == "image_url" else holder.get("file_data", "")
    if not isinstance(url, str):
        return None
    media_type, base64 = split_data_url(url)
    return Media(kind, part, media_type, base64 if media_type else "", url)


def _calls(calls: object, rest: list[Message]) -> list[Call]:
    out: list[Call] = []
    for call in _listed(calls):
        function = call.get("function") if isinstance(call, Mapping) else None
        made = (call.get("id"), function.get("name"), function.get("arguments")) if isinstance(function, Mapping) else ()
        if len(made) == 3 and _all_texts(made):
            out.append(Call(*made))
        else:
            rest.append({"tool_calls": [call]})
    return out


def _functions(request: Request, rest: list[Message]) -> list[Function]:
    out: list[Function] = []
    tools = _listed(request.get("tools")) + [{"type": "function", "function": each} for each in _listed(request.get("functions"))]
    for tool in tools:
        function = tool.get("function") if isinstance(tool, Mapping) else None
        made = _function(function) if isinstance(function, Mapping) else None
        if made is None:
            rest.append({"tools": tool})
        else:
            out.append(made)
    return out


def _function(function: Part) -> Function | None:
    name, description, parameters = (function.get(key) for key in ("name", "description", "parameters"))
    if not isinstance(name, str) or not isinstance(description, str | None) or not isinstance(parameters, Mapping | None):
        return None
    return Function(name, description, parameters, function.get("strict") is True)


def _choice(request: Request, rest: list[Message]) -> str | tuple[str] | None:
    choice = request.get("tool_choice") or request.get("function_call")
    if choice is None or (isinstance(choice, str) and choice in _CHOICES):
        return choice
    function: Any = choice.get("function", choice) if isinstance(choice, Mapping) else None
    name = function.get("name") if isinstance(function, Mapping) else None
    if isinstance(name, str):
        return (name,)
    rest.append({"tool_choice": choice})
    return None


def _schema(request: Request, rest: list[Message]) -> Mapping[str, Any] | None:
    wanted: Any = request.get("response_format")
    kind, schema = (wanted.get("type"), wanted.get("json_schema")) if isinstance(wanted, Mapping) else (None, None)
    if not wanted or kind == "text":
        return None
    if kind == "json_object":
        return {}
    if kind == "json_schema" and isinstance(schema, Mapping):
        return schema
    rest.append({"response_format": wanted})
    return None


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else [value] if value else []


def _all_texts(values: Sequence[object]) -> TypeGuard[Sequence[str]]:
    return all(isinstance(value, str) for value in values)
