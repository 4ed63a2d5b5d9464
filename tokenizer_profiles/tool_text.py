"""Tool definitions as the TypeScript declarations that OpenAI's models see. Knows no tokens and no requests.

OpenAI does not document this text; it is as reconstructed and published by the project openai-chat-tokens. A schema that it has
no form for ($ref, anyOf …) stands in it as JSON, and so does what lies too deep. Nothing here raises.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from tokenizer_profiles.json_text import compact_json

_DEEPEST = 32  # objects inside objects; below, their JSON stands
_PLAIN = {"string": "string", "number": "number", "integer": "number", "boolean": "boolean", "null": "null"}
_DESCRIBED_INDENT = 2  # descriptions of deeper properties are left out


def declarations(functions: Iterable[Mapping[str, Any]]) -> str:
    """The declarations of functions (`name`, `description`, `parameters`)."""
    lines = ["namespace functions {", ""]
    for function in functions:
        lines += [*_comment(function.get("description")), *_function(function), ""]
    return "\n".join([*lines, "} // namespace functions"])


def properties_of(schema: object) -> Mapping[str, Any]:
    """The properties of an object's schema; none for anything else."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    return properties if isinstance(properties, Mapping) else {}


def _function(function: Mapping[str, Any]) -> list[str]:
    name, parameters = function.get("name", ""), function.get("parameters")
    if properties_of(parameters):
        return [f"type {name} = (_: {{", *_properties(parameters, 0), "}) => any;"]
    others = _unknown(parameters)
    return [f"type {name} = (_: {others}) => any;" if others else f"type {name} = () => any;"]


def _unknown(parameters: object) -> str:
    """The JSON of parameters that are no plain object; nothing for an empty one."""
    if not parameters or (isinstance(parameters, Mapping) and parameters.keys() <= {"type", "properties", "required"}):
        return ""
    return compact_json(parameters)


def _properties(schema: Any, indent: int) -> Iterator[str]:
    required = schema.get("required")
    needed = {name for name in required if isinstance(name, str)} if isinstance(required, list) else set()
    space = " " * indent
    for name, inner in properties_of(schema).items():
        described = inner.get("description") if isinstance(inner, Mapping) and indent <= _DESCRIBED_INDENT else None
        yield from (space + line for line in _comment(described))
        yield f"{space}{name}{'' if name in needed else '?'}: {_type(inner, indent)},"


def _type(schema: object, indent: int) -> str:
    kind = schema.get("type") if isinstance(schema, Mapping) else None
    if not isinstance(schema, Mapping) or indent > 2 * _DEEPEST:
        return compact_json(schema)
    if isinstance(schema.get("enum"), list):
        return " | ".join(map(compact_json, schema["enum"]))
    if kind == "array":
        return f"{_type(schema['items'], indent + 2)}[]" if "items" in schema else "any[]"
    if kind == "object" and properties_of(schema):
        return "\n".join(["{", *_properties(schema, indent + 2), f"{' ' * indent}}}"])
    if isinstance(kind, str) and kind in _PLAIN:
        return _PLAIN[kind]
    return compact_json(schema)


def _comment(description: object) -> list[str]:
    return [f"// {description}"] if isinstance(description, str) and description else []
