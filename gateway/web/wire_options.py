"""The request extension outside of messages: `contextShift`, the top-level strategy, OpenAI `metadata` and the headers.

Strongest first: contextShift, top-level field, metadata, header. What is weaker than these is not known here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any
from urllib.parse import unquote

from gateway.chat import ContextOptions, Diagnostic, MarkRule, Marks, MemoryEntry
from gateway.errors import InvalidRequest
from gateway.web import strict_json
from gateway.web.wire_marks import marks_of, object_value, pick, text_value

OWN_BODY_KEYS = frozenset({"contextShift", "context_shift", "contextStrategy", "context_strategy"})
_BODY_KEYS = (*sorted(OWN_BODY_KEYS), "metadata", "prompt_cache_key")
OWN_HEADERS = tuple(
    f"x-context-{name}"
    for name in (
        "chat-id",
        "strategy",
        "reply-reserve",
        "pin",
        "exclude",
        "report",
        "purpose",
        "character",
        "persona",
        "lorebooks",
    )
)
_SMALL = 2048  # bytes of options that are worth remembering, and cheap to
REPORTS = ("off", "summary", "full")
PURPOSES = ("reply", "auxiliary")
MAX_CHAT_ID = 256
_MOST_TOKENS = 10**18  # larger than any context
KNOWN = {
    "chatId", "contextStrategy", "replyReserve", "contextLimit", "report", "purpose", "marks",
    "character", "persona", "lorebooks", "memory", "variables",
}  # fmt: skip
KNOWN |= {re.sub(r"([A-Z])", lambda found: "_" + found[1].lower(), key) for key in KNOWN}
UNBUILT = ("character", "persona", "lorebooks", "variables")
SELECTORS = ("index", "id", "range", "name")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_HEADER_RANGE = re.compile(r"(-?\d{1,9})(?:\.\.(-?\d{1,9}))?")

Headers = Mapping[str, str]


def read_options(
    fields: Mapping[str, bytes], headers: Headers, chat_id_headers: Sequence[str]
) -> tuple[ContextOptions, tuple[Diagnostic, ...]]:
    """The options of a request. `headers` have lower-case names. Raises InvalidRequest with the JSON path or header name."""
    said = tuple([fields.get(key) for key in _BODY_KEYS])
    told = tuple([headers.get(name) for name in OWN_HEADERS])
    named = tuple([(name, value) for name in chat_id_headers if (value := headers.get(name.lower()))])
    small = sum([len(raw) for raw in said if raw]) <= _SMALL
    return _remembered(said, told, named) if small else _options(said, told, named)


def _options(
    said: tuple[bytes | None, ...], told: tuple[str | None, ...], named: tuple[tuple[str, str], ...]
) -> tuple[ContextOptions, tuple[Diagnostic, ...]]:
    fields = {key: raw for key, raw in zip(_BODY_KEYS, said, strict=True) if raw is not None}
    headers = {name: value for name, value in zip(OWN_HEADERS, told, strict=True) if value is not None}
    shift = _shift_object(fields)
    metadata = _parsed(fields, "metadata")
    metadata = metadata if isinstance(metadata, dict) else {}
    _refuse_unbuilt(shift, headers)
    options = ContextOptions(
        chat_id=_chat_id(shift, metadata, headers, named, _parsed(fields, "prompt_cache_key")),
        strategy=_strategy(fields, shift, metadata, headers),
        reply_reserve=_count(pick(shift, "replyReserve", "reply_reserve"), "contextShift.replyReserve")
        or _header_count(headers, "x-context-reply-reserve"),
        context_limit=_count(pick(shift, "contextLimit", "context_limit"), "contextShift.contextLimit"),
        report=_choice(shift.get("report"), "contextShift.report", REPORTS)
        or _choice(headers.get("x-context-report"), "X-Context-Report", REPORTS),
        auxiliary=(
            _choice(shift.get("purpose"), "contextShift.purpose", PURPOSES)
            or _choice(headers.get("x-context-purpose"), "X-Context-Purpose", PURPOSES)
        )
        == "auxiliary",
        rules=(*_rules(shift.get("marks")), *_header_rules(headers)),
        memory=_memory(shift.get("memory")),
    )
    return options, _unknown(shift)


_remembered = lru_cache(maxsize=1024)(_options)  # a chat says the same in every turn


def _shift_object(fields: Mapping[str, bytes]) -> dict[str, Any]:
    found = _parsed(fields, "contextShift")
    if found is None:
        found = _parsed(fields, "context_shift")
    return dict(object_value(found, "contextShift"))


def _parsed(fields: Mapping[str, bytes], key: str) -> Any:
    raw = fields.get(key)
    return None if raw is None else strict_json.value(raw, depth=1, param=key)


def _unknown(shift: Mapping[str, Any]) -> tuple[Diagnostic, ...]:
    return tuple(
        Diagnostic("request", "warning", "unknown-option", f"contextShift.{key[:60]!r} is not known and was ignored")
        for key in shift
        if key not in KNOWN
    )


def _refuse_unbuilt(shift: Mapping[str, Any], headers: Headers) -> None:
    """What this version can't do is said, not ignored."""
    for name in UNBUILT:
        if shift.get(name) is not None:
            raise InvalidRequest(f"contextShift.{name} is not supported by this version.", param=f"contextShift.{name}")
    for name in ("character", "persona", "lorebooks"):
        if headers.get(f"x-context-{name}"):
            raise InvalidRequest(f"X-Context-{name.capitalize()} is not supported by this version.")


def _strategy(fields: Mapping[str, bytes], shift: Mapping[str, Any], metadata: Mapping[str, Any], headers: Headers) -> str | None:
    top = _parsed(fields, "contextStrategy")
    if top is None:
        top = _parsed(fields, "context_strategy")
    in_metadata = pick(metadata, "contextStrategy", "context_strategy")
    return (
        text_value(pick(shift, "contextStrategy", "context_strategy"), "contextShift.contextStrategy")
        or text_value(top, "contextStrategy")
        or (in_metadata if isinstance(in_metadata, str) else None)
        or headers.get("x-context-strategy")
        or None
    )


def _chat_id(
    shift: Mapping[str, Any],
    metadata: Mapping[str, Any],
    headers: Headers,
    named: Sequence[tuple[str, str]],
    cache_key: Any,
) -> str | None:
    found = text_value(pick(shift, "chatId", "chat_id"), "contextShift.chatId")
    if found is not None:
        return checked_chat_id(found, "contextShift.chatId")
    in_metadata = pick(metadata, "chat_id", "chatId")
    if isinstance(in_metadata, str):
        return checked_chat_id(in_metadata, "metadata.chat_id")
    for name, value in (("X-Context-Chat-Id", headers.get("x-context-chat-id")), *named):
        if value:
            return checked_chat_id(unquote(value, errors="replace"), name)
    return checked_chat_id(cache_key, "prompt_cache_key") if isinstance(cache_key, str) and cache_key else None


def checked_chat_id(chat_id: str, where: str) -> str:
    """A chat id of 1 to 256 characters without control characters, else InvalidRequest."""
    if not 1 <= len(chat_id) <= MAX_CHAT_ID or _CONTROL.search(chat_id):
        message = f"A chat id has 1 to {MAX_CHAT_ID} characters and no control characters; the one in {where} has not."
        raise InvalidRequest(message, param=where)
    return chat_id


def _count(value: Any, param: str) -> int | None:
    if value is None:
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidRequest(f"{param} must be a whole number of tokens, at least 1.", param=param)
    return min(value, _MOST_TOKENS)


def _header_count(headers: Headers, name: str) -> int | None:
    text = headers.get(name, "").strip()
    if not text:
        return None
    if not re.fullmatch(r"[0-9]{1,12}", text) or int(text) < 1:
        raise InvalidRequest(f"The header {name} must be a whole number of tokens, at least 1.", param=name)
    return int(text)


def _choice(value: Any, param: str, allowed: Sequence[str]) -> str | None:
    found = text_value(value, param)
    if found is not None and found not in allowed:
        raise InvalidRequest(f"{param} must be one of {', '.join(allowed)}.", param=param)
    return found


def _list(found: Any, param: str) -> list[tuple[Any, str]]:
    """The items of a list with the path of each; null is an empty one."""
    if found is None:
        return []
    if not isinstance(found, list):
        raise InvalidRequest(f"{param} must be a list.", param=param)
    return [(item, f"{param}[{number}]") for number, item in enumerate(found)]


def _memory(found: Any) -> tuple[MemoryEntry, ...]:
    return tuple(_memory_entry(item, path) for item, path in _list(found, "contextShift.memory"))


def _memory_entry(item: Any, param: str) -> MemoryEntry:
    item = object_value(item, param)
    content = text_value(item.get("content"), f"{param}.content")
    if content is None:
        raise InvalidRequest(f"{param} needs a content.", param=f"{param}.content")
    marks = marks_of({key: item.get(key) for key in ("relevance", "required")}, param)
    sendable = content.encode("utf-8", "replace").decode("utf-8")  # without lone surrogates, which no JSON of ours can hold
    return MemoryEntry(sendable, marks.relevance, marks.required is True)


def _rules(found: Any) -> list[MarkRule]:
    return [_rule(item, path) for item, path in _list(found, "contextShift.marks")]


def _rule(item: Any, param: str) -> MarkRule:
    item = object_value(item, param)
    given = [name for name in SELECTORS if item.get(name) is not None]
    if len(given) != 1:
        raise InvalidRequest(f"{param} needs exactly one of {', '.join(SELECTORS)}.", param=param)
    selector, path = item[given[0]], f"{param}.{given[0]}"
    marks = marks_of(item, param)
    if given[0] == "index":
        return MarkRule(marks, index=_position(selector, path))
    if given[0] == "range":
        if not isinstance(selector, list) or len(selector) != 2:
            raise InvalidRequest(f"{path} must be a list of two positions.", param=path)
        return MarkRule(marks, range=(_position(selector[0], path), _position(selector[1], path)))
    text = text_value(selector, path)
    return MarkRule(marks, id=text) if given[0] == "id" else MarkRule(marks, name=text)


def _position(value: Any, param: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int):
        raise InvalidRequest(f"{param} must be a whole number.", param=param)
    return value


def _header_rules(headers: Headers) -> list[MarkRule]:
    out: list[MarkRule] = []
    for name, marks in (("x-context-pin", Marks(pinned=True)), ("x-context-exclude", Marks(manual_excluded=True))):
        for piece in filter(None, (part.strip() for part in headers.get(name, "").split(","))):
            found = _HEADER_RANGE.fullmatch(piece)
            if not found:
                raise InvalidRequest(f"The header {name} must be positions and ranges like 0,3,-2..-1.", param=name)
            first = int(found[1])
            out.append(MarkRule(marks, range=(first, int(found[2]) if found[2] else first)))
    return out
