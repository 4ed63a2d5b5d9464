from __future__ import annotations

import json
from types import MappingProxyType
from typing import Any

from tokenizer_profiles.json_text import compact_json, text_weight


def nested(depth: int) -> dict[str, Any]:
    value: dict[str, Any] = {"leaf": "deep"}
    for _ in range(depth):
        value = {"items": value}
    return value


def test_json_has_no_spaces_and_keeps_letters() -> None:
    assert compact_json({"ä": [1, None, True, "x y"]}) == '{"ä":[1,null,true,"x y"]}'


def test_what_json_does_not_know_becomes_a_text() -> None:
    assert compact_json({"a": {1}, "b": MappingProxyType({"c": 1})}) == '{"a":"{1}","b":{"c":1}}'


def test_a_schema_128_deep_is_written_whole() -> None:
    assert json.loads(compact_json(nested(128))) == nested(128)


def test_nesting_beyond_the_recursion_limit_still_has_its_texts() -> None:
    text = compact_json(nested(50_000))
    assert text.count("items") == 50_000
    assert text.endswith("deep")


def test_weight_is_the_characters_of_all_strings() -> None:
    assert text_weight([{"role": "user", "content": [{"text": "abc"}, 12]}], 1000) == len("roleusercontenttextabc12")


def test_weighing_stops_when_it_is_enough() -> None:
    assert text_weight(["x" * 10] * 1000, 25) == 30
