"""Reads chat messages: each distinct one is examined once, then known again by its bytes.

So a growing chat costs only its new messages. Kept messages go out as the very bytes that came in.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.chat import NO_MARKS, ChatMessage
from gateway.errors import InvalidRequest
from gateway.recent import Recent
from gateway.shifting.blocks import text_of
from gateway.shifting.links import CALL_LIST_KEYS, RESULT_KEYS, tool_links
from gateway.web import strict_json
from gateway.web.wire_marks import OWN_MESSAGE_KEYS, OWN_PART_KEYS, message_marks, text_value, unknown_meta_keys

MEMORY_BYTES = 12 * 1024 * 1024
_LONG_LIST = 4096  # bytes; from here on a list is compared with the one it may have grown from
_START = 2048  # bytes by which that one is found
_OVERHEAD = 1200  # bytes that a remembered message takes besides its text, measured
_SPACE = b" \t\r\n"
_DEPTH = 2  # a message stands inside the list inside the body
_RAW_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_RAW_LIST = msgspec.json.Decoder(list[msgspec.Raw])
_FOREIGN_RESULTS = frozenset(RESULT_KEYS[1:])


class MessageReader:
    """Reads messages and remembers them, and which other JSON values it has examined."""

    def __init__(self, memory_bytes: int = MEMORY_BYTES) -> None:
        self._messages: Recent[bytes, ChatMessage] = Recent(memory_bytes)
        self._examined: Recent[bytes, bool] = Recent(memory_bytes // 4)
        self._lists: Recent[bytes, tuple[bytes, list[ChatMessage]]] = Recent(memory_bytes // 2)

    def read(self, raw: bytes) -> list[ChatMessage]:
        """The messages of a raw `messages` list. Raises InvalidRequest with the JSON path of what is wrong."""
        if len(raw) < _LONG_LIST:
            return self._read(raw, 0)
        start, known = self._lists.get(raw[:_START]) or (b"", [])
        rest = _rest(raw, start) if known else None
        if rest == b"[]":
            return known
        messages = self._read(raw, 0) if rest is None else known + self._read(rest, len(known))
        self._lists.put(raw[:_START], (raw[:-1].rstrip(_SPACE), messages), len(raw))
        return messages

    def _read(self, raw: bytes, first: int) -> list[ChatMessage]:
        get = self._messages.get
        return [get(item) or self._examine(item, i) for i, item in enumerate(strict_json.elements(raw, "messages"), first)]

    def examine(self, raw: bytes, param: str) -> None:
        """Makes sure that a top-level value repeats no key and is not nested too deep. Raises InvalidRequest."""
        if strict_json.is_container(raw) and not self._examined.get(raw):
            strict_json.value(raw, depth=1, param=param)
            self._examined.put(raw, True, len(raw) + 100)

    def _examine(self, raw: bytes, index: int) -> ChatMessage:
        param = f"messages[{index}]"
        parsed = strict_json.value(raw, depth=_DEPTH, param=param)
        if not isinstance(parsed, dict):
            raise InvalidRequest(f"{param} must be an object.", param=param)
        made = _read(raw, parsed, param)
        self._messages.put(raw, made, 2 * len(raw) + _OVERHEAD)
        return made


def _rest(raw: bytes, start: bytes) -> bytes | None:
    """What a list has beyond the start of another, as a list of its own; None when it does not begin like it.

    `start` is a whole list up to its last element. Both are known to be JSON, so what follows can only be a comma or the end.
    """
    if not raw.startswith(start):
        return None
    rest = raw[len(start) :].lstrip(_SPACE)
    return b"[" + rest[1:] if rest.startswith(b",") else b"[]"


def _read(raw: bytes, parsed: dict[str, Any], param: str) -> ChatMessage:
    role = text_value(parsed.get("role"), f"{param}.role")
    if role is None:  # an item of another API: passed on as it is, grouped by its links
        kind = str(parsed.get("type", ""))
        role = "tool" if kind.endswith("_output") else "assistant"
        return ChatMessage(raw, raw, parsed, role, text_of(parsed), tool_links(parsed))
    links = tool_links(parsed)
    own_id = text_value(parsed.get("id"), f"{param}.id")
    own = _has_own_fields(parsed)
    marks = message_marks(parsed, param) if own else NO_MARKS
    unknown = unknown_meta_keys(parsed)
    outgoing = raw
    if own or _has_foreign_links(parsed, role):
        outgoing = msgspec.json.encode(_cleaned(_RAW_OBJECT.decode(raw), parsed, role))
        parsed = strict_json.value(outgoing, depth=_DEPTH, param=param)
    return ChatMessage(raw, outgoing, parsed, role, text_of(parsed), links, own_id, marks, unknown)


def _has_own_fields(message: Mapping[str, Any]) -> bool:
    if not OWN_MESSAGE_KEYS.isdisjoint(message):
        return True
    content = message.get("content")
    return isinstance(content, list) and any(isinstance(part, dict) and not OWN_PART_KEYS.isdisjoint(part) for part in content)


def _has_foreign_links(message: Mapping[str, Any], role: str) -> bool:
    """Whether a link of a call or a result is spelled otherwise than OpenAI does."""
    if role in ("tool", "function"):
        return bool(tool_result_key(message) not in (None, "tool_call_id"))
    calls = message.get("tool_calls")
    foreign = isinstance(calls, list) and any(_foreign_key(call) for call in calls)
    return foreign or isinstance(message.get("toolCalls"), list)


def tool_result_key(message: Mapping[str, Any]) -> str | None:
    """The key by which a result names its call: the first of the known ones that holds a name."""
    return next((key for key in RESULT_KEYS if isinstance(message.get(key), str) and message[key]), None)


def _foreign_key(call: Any) -> str | None:
    """The key by which a call without an id is named."""
    if not isinstance(call, dict) or call.get("id"):
        return None
    return next((key for key in RESULT_KEYS[1:] if isinstance(call.get(key), str) and call[key]), None)


def _cleaned(fields: dict[str, msgspec.Raw], parsed: Mapping[str, Any], role: str) -> dict[str, msgspec.Raw]:
    """The message for the provider: without our fields, with links in OpenAI's spelling, every other value as it was spelled."""
    link = tool_result_key(parsed) if role in ("tool", "function") else None
    calls = next((key for key in CALL_LIST_KEYS if isinstance(parsed.get(key), list)), None)
    dropped = OWN_MESSAGE_KEYS | _FOREIGN_RESULTS if link in _FOREIGN_RESULTS else OWN_MESSAGE_KEYS
    out = {key: raw for key, raw in fields.items() if key not in dropped and not (calls and key == "toolCalls")}
    if isinstance(parsed.get("content"), list):
        out["content"] = _cleaned_parts(fields["content"], parsed["content"])
    if link:
        out["tool_call_id"] = fields[link]
    if calls:
        out["tool_calls"] = _cleaned_calls(fields[calls], parsed[calls])
    return out


def _cleaned_parts(raw: msgspec.Raw, parts: list[Any]) -> msgspec.Raw:
    if not any(isinstance(part, dict) and not OWN_PART_KEYS.isdisjoint(part) for part in parts):
        return raw
    out = [
        {key: item for key, item in _RAW_OBJECT.decode(piece).items() if key not in OWN_PART_KEYS}
        if isinstance(part, dict)
        else piece
        for piece, part in zip(_RAW_LIST.decode(raw), parts, strict=True)
    ]
    return msgspec.Raw(msgspec.json.encode(out))


def _cleaned_calls(raw: msgspec.Raw, calls: list[Any]) -> msgspec.Raw:
    if not any(_foreign_key(call) for call in calls):
        return raw
    out: list[Any] = []
    for piece, call in zip(_RAW_LIST.decode(raw), calls, strict=True):
        link = _foreign_key(call)
        if link is None:
            out.append(piece)
            continue
        fields = _RAW_OBJECT.decode(piece)
        out.append({"id": fields[link], **{key: item for key, item in fields.items() if key not in ("id", link)}})
    return msgspec.Raw(msgspec.json.encode(out))
