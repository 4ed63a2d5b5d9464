"""What one chat message costs: its own overhead and every text in it, whatever its shape. Knows no tokenizer and no gateway.

Plain text is counted as the tokenizer counts it. What no published rule covers (images, sounds, tool calls, unknown keys and
parts, malformed shapes) is counted as much as it can be and marked approximate. Nothing here raises.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tokenizer_profiles.attachments import FILE_MINIMUM, audio_tokens, file_tokens, split_data_url, text_file
from tokenizer_profiles.base import Message, TokenCount
from tokenizer_profiles.images import ImageRule, base64_size, data_url_size
from tokenizer_profiles.json_text import compact_json

CountText = Callable[[str], int]
Part = Mapping[str, Any]
Cost = tuple[int, bool]  # tokens, approximate

_FREE_KEYS = frozenset(("id", "type", "status", "index", "cache_control"))
_ROLES = frozenset(("system", "developer", "user", "assistant", "tool", "function"))  # one token each in o200k and cl100k
_PLAIN_ROLES = ("user", "assistant", "system", "developer")
_TEXT_PARTS = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
_IMAGE_PARTS = frozenset(("image_url", "input_image", "image"))
_AUDIO_PARTS = frozenset(("input_audio", "audio"))
_FILE_PARTS = frozenset(("file", "input_file", "document"))
MEDIA_PARTS = _IMAGE_PARTS | _AUDIO_PARTS | _FILE_PARTS
_DEEPEST_PART = 8  # parts inside the results of parts; below, their JSON is counted


@dataclass(frozen=True, slots=True)
class ChatRules:
    """The fixed costs of OpenAI's chat format, in tokens.

    3 a message, 1 more for a name and 3 for the reply are published in OpenAI's cookbook (the role is counted beside them); what
    a tool call costs beyond its name and arguments is not published. Where none of it is published for the models of an encoding
    (`published` is false), every prompt is an estimate, though its texts are exact.
    """

    per_message: int = 3
    per_name: int = 1
    reply_primer: int = 3
    per_call: int = 8
    function_start: int = 7  # of a tool definition: 7 for o200k models, 10 for older ones
    published: bool = True


class MessageCounter:
    """Counts messages one by one with a tokenizer's `count_text`."""

    def __init__(self, count_text: CountText, rules: ChatRules, image_rule: ImageRule, *, approximate: bool = False) -> None:
        self._count_text = count_text
        self._rules = rules
        self._images = image_rule
        self._approximate = approximate
        self._with_role = rules.per_message + 1

    def tokens(self, message: Message) -> int:
        """The tokens of `count` alone; quick for a message of role and text, which most are."""
        if len(message) == 2:
            content = message.get("content")
            if type(content) is str and message.get("role") in _PLAIN_ROLES:
                return self._with_role + self._count_text(content)
        return self._count_fields(message).tokens

    def count(self, message: Message) -> TokenCount:
        """The tokens of one message with its overhead and its role."""
        if len(message) == 2:
            content = message.get("content")
            if type(content) is str and message.get("role") in _PLAIN_ROLES:
                return TokenCount(self._with_role + self._count_text(content), self._approximate)
        return self._count_fields(message)

    def _count_fields(self, message: Message) -> TokenCount:
        tokens, approximate = self._with_role, self._approximate
        for key, value in message.items():
            if key == "content" and type(value) is str:
                tokens += self._count_text(value)
            elif key == "role" and value.__class__ is str and value in _ROLES:
                continue
            elif value is not None and key not in _FREE_KEYS:
                cost, estimated = self._field(key, value)
                tokens += cost
                approximate = approximate or estimated
        return TokenCount(tokens, approximate)

    def media(self, message: Message) -> int | None:
        """An estimate for the images, sounds and files of a message; None when it has none."""
        content = message.get("content")
        parts = content if isinstance(content, list) else []
        media = [part for part in parts if isinstance(part, Mapping) and _type(part) in MEDIA_PARTS]
        return sum(self._part(part, 0)[0] for part in media) if media else None

    def _field(self, key: str, value: object) -> Cost:
        if key == "content" and isinstance(value, list):
            return self._parts(value, 0)
        if key in ("tool_calls", "toolCalls") and isinstance(value, list):
            return sum(self._call(call) for call in value), bool(value)
        if key == "function_call":
            return self._call({"function": value}), True
        if not isinstance(value, str):
            return self._json(value), True
        if key == "name":
            return self._count_text(value) + self._rules.per_name, False
        return self._count_text(value), key not in ("role", "refusal")

    def _call(self, call: object) -> int:
        function = call.get("function", call.get("custom")) if isinstance(call, Mapping) else None
        if not isinstance(call, Mapping) or not isinstance(function, Mapping):
            return self._json(call)
        tokens = self._rules.per_call + self._others(call, ("function", "custom", "type"))
        return tokens + sum(self._text(value) for value in function.values() if value is not None)

    def _parts(self, parts: list[Any], depth: int) -> Cost:
        costs = [self._part(part, depth) for part in parts]
        return sum(tokens for tokens, _ in costs), any(approximate for _, approximate in costs)

    def _part(self, part: object, depth: int) -> Cost:
        if not isinstance(part, Mapping) or depth > _DEEPEST_PART:
            return self._text(part), True
        kind = _type(part)
        if kind in _TEXT_PARTS and isinstance(part.get(_TEXT_PARTS[kind]), str):
            others = self._others(part, (_TEXT_PARTS[kind], "type", "cache_control"))
            return self._count_text(part[_TEXT_PARTS[kind]]) + others, others > 0
        if kind in _IMAGE_PARTS:
            return self._image(part), True
        if kind in _AUDIO_PARTS:
            return self._audio(part, kind), True
        if kind in _FILE_PARTS:
            return self._file(part, kind), True
        if kind == "tool_result" and isinstance(part.get("content"), list):
            inner, _ = self._parts(part["content"], depth + 1)
            return self._rules.per_call + inner + self._others(part, ("content", "type", "cache_control")), True
        return self._rules.per_call + self._others(part, ("type", "cache_control")), True

    def _image(self, part: Part) -> int:
        holder = part.get("image_url", part.get("source", part.get("image")))
        source = holder if isinstance(holder, Mapping) else {"url": holder}
        low = "low" in (source.get("detail"), part.get("detail"))
        data, url = source.get("data"), source.get("url")
        size = base64_size(data) if isinstance(data, str) else data_url_size(url) if isinstance(url, str) else None
        return self._images.tokens(size, low=low)

    def _audio(self, part: Part, kind: str) -> int:
        sound = part.get(kind)
        if not isinstance(sound, Mapping) or not isinstance(sound.get("data"), str):
            return self._rules.per_call + self._others(part, ("type", "cache_control"))
        return audio_tokens(split_data_url(sound["data"])[1], str(sound.get("format", "")))

    def _file(self, part: Part, kind: str) -> int:
        inner = part.get({"document": "source"}.get(kind, kind), part)
        holder = inner if isinstance(inner, Mapping) else part
        data = holder.get("file_data", holder.get("data"))
        if not isinstance(data, str):
            return FILE_MINIMUM + self._others(part, ("type", "cache_control"))
        if holder.get("type") == "text":  # a plain text document, not base64
            return self._count_text(data)
        media_type, encoded = split_data_url(data)
        text = text_file(encoded, media_type or str(holder.get("media_type", "")))
        named = self._others({**part, **holder}, ("type", "cache_control", "source", "file", "file_data", "data"))
        return named + (file_tokens(encoded) if text is None else self._count_text(text))

    def _others(self, part: Part, known: tuple[str, ...]) -> int:
        return sum(self._text(value) for key, value in part.items() if key not in known and value is not None)

    def _text(self, value: object) -> int:
        return self._count_text(value) if isinstance(value, str) else self._json(value)

    def _json(self, value: object) -> int:
        return self._count_text(compact_json(value)) if value is not None else 0


def _type(part: Part) -> str:
    kind = part.get("type")
    return kind if isinstance(kind, str) else ""
