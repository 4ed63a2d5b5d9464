"""Each word makes the schema it says."""

from __future__ import annotations

import pytest

from gateway.web.json_schema import Schema, choice, flag, items, options, or_null, part, record, text, whole


@pytest.mark.parametrize(
    ("made", "schema"),
    [
        (text(), {"type": "string"}),
        (text("A name.", minLength=1), {"type": "string", "minLength": 1, "description": "A name."}),
        (choice(("a", "b")), {"type": "string", "enum": ["a", "b"]}),
        (whole(), {"type": "integer", "minimum": 0}),
        (whole(None), {"type": "integer"}),
        (flag(), {"type": "boolean"}),
        (items(flag(), minItems=1), {"type": "array", "items": {"type": "boolean"}, "minItems": 1}),
        (part("Chat"), {"$ref": "#/components/schemas/Chat"}),
        (or_null(text()), {"type": ["string", "null"]}),
        (or_null(choice(("a",))), {"type": ["string", "null"], "enum": ["a", None]}),
        (or_null(part("Chat")), {"anyOf": [{"$ref": "#/components/schemas/Chat"}, {"type": "null"}]}),
    ],
)
def test_a_word_makes_its_schema(made: Schema, schema: Schema) -> None:
    assert made == schema


def test_a_record_needs_all_of_its_fields_but_the_optional_ones() -> None:
    made = record({"a": flag(), "b": flag()}, optional=["b"])
    assert (made["type"], list(made["properties"]), made["required"]) == ("object", ["a", "b"], ["a"])


def test_options_may_each_be_left_out_or_null() -> None:
    made = options({"a": flag()})
    assert (made["properties"], "required" in made) == ({"a": {"type": ["boolean", "null"]}}, False)
