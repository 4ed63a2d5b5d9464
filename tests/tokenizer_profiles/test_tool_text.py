from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer_profiles.tool_text import declarations, properties_of

PARAMETERS = {
    "type": "object",
    "properties": {
        "place": {"type": "string", "description": "A city."},
        "days": {"type": "integer"},
        "units": {"type": "array", "items": {"type": "string", "enum": ["c", "f"]}},
        "where": {"type": "object", "properties": {"lat": {"type": "number"}, "known": {"type": "boolean"}}, "required": ["lat"]},
        "other": {"anyOf": [{"type": "null"}]},
        "any": {"type": "array"},
    },
    "required": ["place"],
}
TEXT = """namespace functions {

// Tells the weather.
type weather = (_: {
// A city.
place: string,
days?: number,
units?: "c" | "f"[],
where?: {
  lat: number,
  known?: boolean,
},
other?: {"anyOf":[{"type":"null"}]},
any?: any[],
}) => any;

type now = () => any;

} // namespace functions"""


def test_functions_are_declared_as_typescript() -> None:
    functions = [{"name": "weather", "description": "Tells the weather.", "parameters": PARAMETERS}, {"name": "now"}]
    assert declarations(functions) == TEXT


def test_parameters_that_are_no_plain_object_stand_as_json() -> None:
    assert 'type f = (_: {"$ref":"#/x"}) => any;' in declarations([{"name": "f", "parameters": {"$ref": "#/x"}}])
    assert "type f = () => any;" in declarations([{"name": "f", "parameters": {"type": "object", "properties": {}}}])


def test_properties_are_those_of_an_object() -> None:
    assert properties_of({"properties": {"a": 1}}) == {"a": 1}
    assert properties_of({"properties": [1]}) == properties_of("x") == properties_of(None) == {}


def test_a_schema_of_any_depth_is_declared() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(20_000):
        schema = {"type": "object", "properties": {"deeper": schema}}
    assert declarations([{"name": "f", "parameters": schema}]).count("deeper") == 20_000
    schema = {"type": "string"}
    for _ in range(20_000):
        schema = {"type": "array", "items": schema}
    assert "items" in declarations([{"name": "f", "parameters": {"properties": {"x": schema}}}])


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "enum", "items", "properties", "x"]), inner)
    ),
    max_leaves=6,
)


@settings(deadline=None, max_examples=200)
@given(JSON, JSON, JSON)
def test_no_shape_raises(name: Any, description: Any, parameters: Any) -> None:
    text = declarations([{"name": name, "description": description, "parameters": parameters}])
    assert text.startswith("namespace functions {")
