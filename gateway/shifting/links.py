"""Which tool calls a message makes and which it answers. Reads OpenAI's spellings and those of the layers people put before us.

Knows messages as plain mappings; never changes one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

RESULT_KEYS = ("tool_call_id", "toolCallId", "callId", "call_id")
CALL_KEYS = ("id", "toolCallId", "callId", "call_id")
CALL_LIST_KEYS = ("tool_calls", "toolCalls")
_FUNCTION = "\x00function:"  # function_call and its answer have no id, only a name


@dataclass(frozen=True, slots=True)
class ToolLinks:
    """The tool calls of one message: each call with all ids it goes by, and the ids it answers."""

    calls: tuple[tuple[str, ...], ...] = ()
    results: tuple[str, ...] = ()
    only_results: bool = False  # its content is tool_result blocks and nothing else

    def __bool__(self) -> bool:
        """Whether the message calls or answers anything."""
        return bool(self.calls or self.results)


NO_LINKS = ToolLinks()


def tool_links(message: Mapping[str, Any]) -> ToolLinks:
    """The links of one OpenAI-style message; odd shapes have none."""
    role = message.get("role")
    content = message.get("content")
    if len(message) == 2 and type(content) is str and role is not None:
        return NO_LINKS  # nothing but role and text, as most are
    if role in ("user", "system", "developer") and not isinstance(content, list):
        return NO_LINKS
    calls = _listed_calls(message) + _function_call(message, role)
    results = _result_ids(message, role)
    only_results = False
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, Mapping)]
        calls += [(part["id"],) for part in parts if part.get("type") == "tool_use" and _is_id(part.get("id"))]
        results += [
            part["tool_use_id"] for part in parts if part.get("type") == "tool_result" and _is_id(part.get("tool_use_id"))
        ]
        only_results = bool(content) and len(parts) == len(content) and all(part.get("type") == "tool_result" for part in parts)
    if not calls and not results and not only_results:
        return NO_LINKS
    return ToolLinks(tuple(calls), tuple(results), only_results)


def _is_id(value: object) -> bool:
    return isinstance(value, str) and value != ""


def _ids(item: Mapping[str, Any], keys: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(item[key] for key in keys if _is_id(item.get(key))))


def _listed_calls(message: Mapping[str, Any]) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for key in CALL_LIST_KEYS:
        listed = message.get(key)
        if isinstance(listed, list):
            found += [ids for call in listed if isinstance(call, Mapping) and (ids := _ids(call, CALL_KEYS))]
    return found


def _function_call(message: Mapping[str, Any], role: object) -> list[tuple[str, ...]]:
    if message.get("type") == "function_call":  # an item of the Responses API
        ids = _ids(message, CALL_KEYS)
        return [ids] if ids else []
    legacy = message.get("function_call")
    if role == "assistant" and isinstance(legacy, Mapping) and _is_id(legacy.get("name")):
        return [(_FUNCTION + legacy["name"],)]
    return []


def _result_ids(message: Mapping[str, Any], role: object) -> list[str]:
    if role not in ("tool", "function") and message.get("type") != "function_call_output":
        return []
    ids = _ids(message, RESULT_KEYS)
    if ids:
        return [ids[0]]
    if role == "function" and _is_id(message.get("name")):
        return [_FUNCTION + message["name"]]
    return []
