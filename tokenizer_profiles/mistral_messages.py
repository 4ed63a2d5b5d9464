"""Chat messages as mistral-common holds them, and what is left of them when it refuses. Knows no tokens and no chats.

mistral-common is imported at first use.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

from tokenizer_profiles.base import Message
from tokenizer_profiles.json_text import compact_json
from tokenizer_profiles.message_counter import MEDIA_PARTS
from tokenizer_profiles.text_memo import memo_key

_ROLES = {"system": "system", "developer": "system", "assistant": "assistant", "tool": "tool"}  # others are the user's
_TEXT_ROLES = ("system", "user", "assistant")
_TEXT = "x"  # stands for every text in a shape
# What the package raises, beside its own errors, on shapes that it does not know.
_ODD_SHAPE = (ValueError, TypeError, AttributeError, LookupError, AssertionError, NotImplementedError, RecursionError)

MessageKey = tuple[str, str | bytes]


@dataclass(frozen=True, slots=True, eq=False)
class Shape:
    """Neighbours of one role as mistral-common holds them, with a letter for each text: all that decides whether it takes them.

    A shape is equal to itself alone; the plain texts of one role share theirs. Those that are not `exact` were refused, and stand
    here as plain texts.
    """

    role: str
    messages: tuple[Any, ...]
    exact: bool

    @classmethod
    def of(cls, converted: Sequence[Any], *, exact: bool) -> Shape:
        """The shape of messages of mistral-common's own."""
        return cls(converted[0].role, tuple(map(_without_text, converted)), exact)

    @property
    def answers(self) -> bool:
        """Whether these are an assistant's messages of which the last asks for no tool."""
        return self.role == "assistant" and not self.messages[-1].tool_calls


def refusal() -> tuple[type[Exception], ...]:
    """What mistral-common raises on a message or a chat that it does not take."""
    from mistral_common.exceptions import MistralCommonException

    return (MistralCommonException, *_ODD_SHAPE)


def role_of(message: Message) -> str:
    """The role under which mistral-common groups a message."""
    role = message.get("role")
    return _ROLES.get(role, "user") if isinstance(role, str) else "user"


def key_of(message: Message) -> MessageKey:
    """What no other message has."""
    return (message["role"], memo_key(message["content"])) if is_text(message) else ("", memo_key(compact_json(message)))


def is_text(message: Message) -> bool:
    """Whether it is a role and a text and no more, which mistral-common leaves alone, as most messages are."""
    content = message.get("content")
    return len(message) == 2 and isinstance(content, str) and content != "" and message.get("role") in _TEXT_ROLES


def converted_text(message: Message) -> tuple[Any, Shape]:
    """`converted` for a message that `is_text`, much quicker; and its shape."""
    message["content"].encode()
    kind, shape = _text_kinds()[message["role"]]
    return kind(content=message["content"]), shape


@cache
def _text_kinds() -> dict[str, tuple[Any, Shape]]:
    from mistral_common.protocol.instruct.messages import AssistantMessage, SystemMessage, UserMessage

    kinds: dict[str, Any] = {"system": SystemMessage, "user": UserMessage, "assistant": AssistantMessage}
    return {role: (kind, Shape(role, (kind(content=_TEXT),), True)) for role, kind in kinds.items()}


def converted(message: Message) -> Any:
    """The message as mistral-common holds it; raises on what it does not know, and on lone surrogates, which it would take."""
    from mistral_common.protocol.instruct.converters import convert_openai_messages

    compact_json(message).encode()
    return convert_openai_messages([dict(message)])[0]


def without_media(message: Message) -> Message:
    """The message without the parts that are no text."""
    rest = [part for part in message["content"] if not (isinstance(part, Mapping) and _is_media(part))]
    return {**message, "content": rest or ""}


def as_plain(message: Message) -> Message:
    """The message with all that it holds as one text, under the nearest role that every format knows."""
    role = role_of(message)
    rest = {key: value for key, value in message.items() if key not in ("role", "content") and value is not None}
    texts = [_as_text(message.get("content")), compact_json(rest) if rest else ""]
    text = "\n".join(filter(None, texts)) or " "
    return {"role": "user" if role == "tool" else role, "content": text.encode("utf-8", "replace").decode("utf-8")}


def _without_text(message: Any) -> Any:
    if not message.content or not (isinstance(message.content, str) or all(part.type == "text" for part in message.content)):
        return message
    return message.model_copy(update={"content": _TEXT})


def _is_media(part: Mapping[str, Any]) -> bool:
    return isinstance(part.get("type"), str) and part["type"] in MEDIA_PARTS


def _as_text(content: object) -> str:
    if isinstance(content, list):
        return "\n\n".join(map(_as_text, content))
    if isinstance(content, Mapping) and isinstance(content.get("text"), str):
        return str(content["text"])
    return content if isinstance(content, str) else "" if content is None else compact_json(content)
