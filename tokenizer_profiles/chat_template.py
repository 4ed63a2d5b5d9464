"""A model's chat template as a server renders it, through transformers' own rendering. Knows no tokens and counts nothing.

Servers do not hand a request to the template as it came: they turn the arguments of calls into objects and join the parts of a
content. Which of that a template needs is tried when it is made. A template is foreign code in a sandbox and may refuse a chat:
that is a `TemplateRefused`.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

from tokenizer_profiles.base import Message, Request
from tokenizer_profiles.errors import ProfileDataMissing
from tokenizer_profiles.json_text import compact_json
from tokenizer_profiles.message_counter import MEDIA_PARTS

Chat = list[dict[str, Any]]
NullWay = Literal["out", "kept", "empty"]

_RESERVED = frozenset(("messages", "tools", "conversations", "chat_template", "return_assistant_tokens_mask"))
_TEXT_PARTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
_PROBE = "probe"
_PROBE_TEXT: Chat = [{"role": "user", "content": _PROBE}]
_PROBE_PARTS: Chat = [{"role": "user", "content": [{"type": "text", "text": _PROBE}]}]
_PROBE_CALL = {"id": "c00000000", "type": "function", "function": {"name": "f", "arguments": '{"a": "probe"}'}}
_PROBE_CALLS: Chat = [
    {"role": "user", "content": _PROBE},
    {"role": "assistant", "content": None, "tool_calls": [_PROBE_CALL]},
    {"role": "tool", "tool_call_id": "c00000000", "name": "f", "content": _PROBE},
    {"role": "user", "content": _PROBE},
]


class TemplateRefused(Exception):
    """The template does not render this chat; the message holds the template's own."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How messages are handed over: arguments of calls as objects or as they came; null values left out, kept or, of a content,
    empty; contents of several parts as they are or joined into one text; texts as one part."""

    object_arguments: bool = True
    null: NullWay = "out"
    parts: bool = False
    only_parts: bool = False


class ChatTemplate:
    """Renders chats as vLLM and transformers' own server do; `variables` are what the template sees beside them. Thread-safe."""

    null_ways: tuple[NullWay, ...] = ("out", "kept", "empty")

    def __init__(self, source: str, variables: Mapping[str, str]) -> None:
        """Raises ProfileDataMissing when transformers or jinja2 are not installed."""
        self._transformers = _transformers_render()
        self._source = source
        self._variables = dict(variables)
        self._shape = Shape(null=self.null_ways[0])
        self._shape = self._learned_parts()
        self._shape = self._learned_calls()

    def render(self, messages: Sequence[Message], request: Request, *, tools: bool = True, asks_reply: bool = True) -> str:
        """The prompt of a chat, with or without the request's tools and the text that asks for the reply.

        Raises TemplateRefused.
        """
        with refusals():
            return self._prompt(messages, request, request.get("tools") if tools else None, asks_reply=asks_reply)

    def tried(self, messages: Sequence[Message], *, asks_reply: bool = True) -> str:
        """The prompt of a chat without tools; empty when the template refuses it."""
        try:
            return self.render(messages, {}, asks_reply=asks_reply)
        except TemplateRefused:
            return ""

    def guesses(self, messages: Sequence[Message]) -> bool:
        """Whether it is not certain that the server renders this chat in the same way."""
        return not all(map(_understood, messages))

    def _prompt(self, messages: Sequence[Message], request: Request, tools: object, *, asks_reply: bool) -> str:
        chat = [self._handed_over(message, self._shape) for message in messages]
        asks_reply = asks_reply and request.get("add_generation_prompt") is not False
        return self._rendered(chat, tools, {**self._options(request), "add_generation_prompt": asks_reply})

    def _options(self, request: Request) -> dict[str, Any]:
        given = request.get("chat_template_kwargs")
        options = {**self._variables, **(given if isinstance(given, Mapping) else {})}
        return {str(key): value for key, value in options.items() if key not in _RESERVED}

    def _rendered(self, chat: Chat, tools: object, options: Mapping[str, Any]) -> str:
        if not self._source:
            raise TemplateRefused("the model has no chat template")
        given = list(tools) if isinstance(tools, list) and tools else None
        prompts, _ = self._transformers([chat], tools=given, chat_template=self._source, **options)
        return str(prompts[0])

    def _learned_parts(self) -> Shape:
        """With parts for a template that renders them as it does texts, or that shows nothing of a text but the part's."""
        texts = self._shape
        shown = self.tried(_PROBE_TEXT)
        self._shape = replace(texts, parts=True, only_parts=_PROBE not in shown)
        return self._shape if self._shows(shown) else texts

    def _shows(self, text: str) -> bool:
        """Whether a part is rendered: as the text was, if that was; else its text and not its keys."""
        part = self.tried(_PROBE_PARTS)
        return part == text if _PROBE in text else _PROBE in part and "'type'" not in part

    def _learned_calls(self) -> Shape:
        """The way to hand over calls and nulls by which this template shows most of a chat with a call, or the first of them."""
        ways = [replace(self._shape, object_arguments=objects, null=null) for objects in (True, False) for null in self.null_ways]
        return max(ways, key=self._shown_calls)

    def _shown_calls(self, way: Shape) -> int:
        self._shape = way
        return self.tried(_PROBE_CALLS).count(_PROBE)

    def _handed_over(self, message: Message, shape: Shape) -> dict[str, Any]:
        out = {key: value for key, value in message.items() if value is not None or shape.null == "kept"}
        if shape.null == "empty":
            out.setdefault("content", "")
        if out.get("content") is not None:
            out["content"] = content_of(out["content"], shape)
        calls = out.get("tool_calls")
        if isinstance(calls, list) and shape.object_arguments:
            out["tool_calls"] = [_with_object_arguments(call) for call in calls]
        return out


@contextmanager
def refusals() -> Iterator[None]:
    """Whatever goes wrong inside is told as a TemplateRefused."""
    try:
        yield
    except TemplateRefused:
        raise
    except Exception as error:  # a template is foreign code: whatever it raises, it has not rendered the chat
        raise TemplateRefused(f"the chat template refused: {type(error).__name__}: {error}"[:300]) from error


def content_of(content: object, shape: Shape, join: Callable[[list[str]], str] = "\n".join) -> object:
    """A content as the template takes it: one text or parts. What is not understood is JSON in it."""
    if isinstance(content, str):
        return [{"type": "text", "text": content}] if shape.only_parts else content
    if not isinstance(content, list):
        return compact_json(content)
    if shape.parts:
        return [part if _is_media(part) else {"type": "text", "text": _shown(part)} for part in content]
    return join([_shown(part) for part in content if not _is_media(part)])


def _understood(message: Message) -> bool:
    """Whether the content is one that servers take: a text, none, or parts of known kinds."""
    content = message.get("content")
    if content is None or isinstance(content, str):
        return True
    return isinstance(content, list) and all(_part_text(part) is not None or _is_media(part) for part in content)


def _shown(part: object) -> str:
    text = _part_text(part)
    return compact_json(part) if text is None else text


def _part_text(part: object) -> str | None:
    if isinstance(part, str):
        return part
    text = part.get(_TEXT_PARTS.get(str(part.get("type")), "")) if isinstance(part, Mapping) else None
    return text if isinstance(text, str) else None


def _is_media(part: object) -> bool:
    kind = part.get("type") if isinstance(part, Mapping) else None
    return isinstance(kind, str) and kind in MEDIA_PARTS


def _with_object_arguments(call: object) -> object:
    function = call.get("function") if isinstance(call, Mapping) else None
    if not isinstance(call, Mapping) or not isinstance(function, Mapping) or not isinstance(function.get("arguments"), str):
        return call
    try:
        arguments = json.loads(function["arguments"] or "{}")
    except (ValueError, RecursionError):
        return call
    return {**call, "function": {**function, "arguments": arguments}} if isinstance(arguments, dict) else call


def _transformers_render() -> Callable[..., Any]:
    log = logging.getLogger("transformers")
    log.addFilter(_says_nothing)  # it warns on import that there is no PyTorch, which no template needs
    try:
        import jinja2  # noqa: F401  (transformers looks for it only when it renders)
        from transformers.utils.chat_template_utils import render_jinja_template
    except ImportError as error:
        raise ProfileDataMissing(
            f"chat templates are rendered by transformers: install sluicegate[transformers] ({error})"
        ) from error
    finally:
        log.removeFilter(_says_nothing)
    render: Callable[..., Any] = render_jinja_template
    return render


def _says_nothing(_: logging.LogRecord) -> bool:
    return False
