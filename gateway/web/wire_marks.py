"""The gateway's own fields on messages: how they are spelled, which types they have, and how they are taken off again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gateway.chat import Marks
from gateway.errors import InvalidRequest
from gateway.shifting import BlockKind

OWN_MESSAGE_KEYS = frozenset({"id", "meta", "pinned", "manualExcluded", "manual_excluded"})
OWN_PART_KEYS = frozenset({"meta", "pinned", "manualExcluded", "manual_excluded"})
_META_KEYS = frozenset(
    {"pinned", "manualExcluded", "manual_excluded", "required", "kind", "relevance", "entryId", "entry_id", "label", "id"}
)
_KINDS = {kind.value: kind for kind in BlockKind}


def text_value(value: Any, param: str) -> str | None:
    """A string, or None for null."""
    if value is None or isinstance(value, str):
        return value
    raise InvalidRequest(f"{param} must be a string.", param=param)


def flag_value(value: Any, param: str) -> bool | None:
    """A boolean, or None for null."""
    if value is None or isinstance(value, bool):
        return value
    raise InvalidRequest(f"{param} must be true or false.", param=param)


def object_value(value: Any, param: str) -> Mapping[str, Any]:
    """An object; null is an empty one."""
    if value is None:
        return {}
    if isinstance(value, dict):
        return value
    raise InvalidRequest(f"{param} must be an object.", param=param)


def pick(source: Mapping[str, Any], camel: str, snake: str) -> Any:
    """A value by its camelCase name, else by its snake_case one; null counts as absent."""
    found = source.get(camel)
    return source.get(snake) if found is None else found


def marks_of(source: Mapping[str, Any], param: str) -> Marks:
    """The marks in a `meta` object or a rule. Raises InvalidRequest for a value of another type."""
    kind = text_value(source.get("kind"), f"{param}.kind")
    if kind is not None and kind not in _KINDS:
        raise InvalidRequest(f"{param}.kind must be one of {', '.join(_KINDS)}.", param=f"{param}.kind")
    return Marks(
        pinned=flag_value(source.get("pinned"), f"{param}.pinned"),
        manual_excluded=flag_value(pick(source, "manualExcluded", "manual_excluded"), f"{param}.manualExcluded"),
        required=flag_value(source.get("required"), f"{param}.required"),
        kind=None if kind is None else _KINDS[kind],
        relevance=_relevance(source.get("relevance"), f"{param}.relevance"),
        entry_id=text_value(pick(source, "entryId", "entry_id"), f"{param}.entryId"),
        label=text_value(source.get("label"), f"{param}.label"),
    )


def message_marks(message: Mapping[str, Any], param: str) -> Marks:
    """The marks of a message with a role: `meta` first, then what stands directly on it, then on its content parts."""
    marks = marks_of(object_value(message.get("meta"), f"{param}.meta"), f"{param}.meta")
    marks = marks.over(_direct_marks(message, param))
    content = message.get("content")
    if isinstance(content, list):
        for number, part in enumerate(content):
            if isinstance(part, dict) and not OWN_PART_KEYS.isdisjoint(part):
                path = f"{param}.content[{number}]"
                own = marks_of(object_value(part.get("meta"), f"{path}.meta"), f"{path}.meta")
                marks = marks.over(own.over(_direct_marks(part, path)))
    return marks


def unknown_meta_keys(message: Mapping[str, Any]) -> tuple[str, ...]:
    """Keys of `meta` that mean nothing here."""
    meta = message.get("meta")
    return tuple(sorted(key for key in meta if key not in _META_KEYS)) if isinstance(meta, dict) else ()


def _direct_marks(source: Mapping[str, Any], param: str) -> Marks:
    return Marks(
        pinned=flag_value(source.get("pinned"), f"{param}.pinned"),
        manual_excluded=flag_value(pick(source, "manualExcluded", "manual_excluded"), f"{param}.manualExcluded"),
    )


def _relevance(value: Any, param: str) -> float | None:
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise InvalidRequest(f"{param} must be a number from 0 to 1.", param=param)
    return float(min(1, max(0, value)))
