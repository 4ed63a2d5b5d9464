"""The few words of JSON Schema that describe this API. Knows no field of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Schema = dict[str, Any]


def text(description: str = "", **more: Any) -> Schema:
    """A string."""
    return _described({"type": "string", **more}, description)


def choice(words: Iterable[str], description: str = "") -> Schema:
    """One of these words."""
    return text(description, enum=list(words))


def whole(least: int | None = 0, description: str = "", **more: Any) -> Schema:
    """A whole number, not negative where nothing else is said."""
    bound = {} if least is None else {"minimum": least}
    return _described({"type": "integer", **bound, **more}, description)


def flag(description: str = "") -> Schema:
    """True or false."""
    return _described({"type": "boolean"}, description)


def items(schema: Schema, description: str = "", **more: Any) -> Schema:
    """A list."""
    return _described({"type": "array", "items": schema, **more}, description)


def record(fields: Mapping[str, Schema], description: str = "", *, optional: Iterable[str] = ()) -> Schema:
    """An object that has all of these fields but for the optional ones, and may have others."""
    left = set(optional)
    found: Schema = {"type": "object", "properties": dict(fields), "required": [name for name in fields if name not in left]}
    return _described(found, description)


def options(fields: Mapping[str, Schema], description: str = "") -> Schema:
    """An object that may have some of these fields, each null or of its kind, and others."""
    return _described({"type": "object", "properties": {name: or_null(schema) for name, schema in fields.items()}}, description)


def or_null(schema: Schema) -> Schema:
    """The same or null."""
    kind = schema.get("type")
    if not isinstance(kind, str):
        return {"anyOf": [schema, {"type": "null"}]}
    words = {"enum": [*schema["enum"], None]} if "enum" in schema else {}
    return {**schema, "type": [kind, "null"], **words}


def part(name: str) -> Schema:
    """A reference to a schema of the document."""
    return {"$ref": f"#/components/schemas/{name}"}


def _described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description} if description else schema
