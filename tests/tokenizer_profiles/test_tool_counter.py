from __future__ import annotations

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer_profiles import ProfileRegistry
from tokenizer_profiles.message_counter import ChatRules
from tokenizer_profiles.tool_counter import ToolCounter
from tokenizer_profiles.tool_text import declarations

COUNTER = ToolCounter(lambda text: len(text.split()), ChatRules(function_start=7))

# The example of OpenAI's cookbook, "How to count tokens with tiktoken", section 7.
WEATHER = {
    "type": "function",
    "function": {
        "name": "get_current_weather",
        "description": "Get the current weather in a given location",
        "parameters": {
            "type": "object",
            "properties": {
                "location": {"type": "string", "description": "The city and state, e.g. San Francisco, CA"},
                "unit": {"type": "string", "description": "The unit of temperature to return", "enum": ["celsius", "fahrenheit"]},
            },
            "required": ["location"],
        },
    },
}


def test_nothing_costs_nothing_and_is_exact() -> None:
    for request in ({}, {"tools": None, "response_format": None, "tool_choice": None}, {"tools": [], "tool_choice": "auto"}):
        tools, wanted = COUNTER.tools(request), COUNTER.response_format(request)
        assert (tools.tokens, tools.approximate, wanted.tokens, wanted.approximate) == (0, False, 0, False)
    assert COUNTER.response_format({"response_format": {"type": "text"}}).tokens == 0


def test_the_published_rule_is_followed_where_it_is_larger() -> None:
    # 12 at the end, 7 a function, 3 for properties, 3 each, -3 + 3 × 2 for the enum, and the words of the three lines
    lines = [
        "get_current_weather:Get the current weather in a given location",
        "location:string:The city and state, e.g. San Francisco, CA",
        "unit:string:The unit of temperature to return celsius fahrenheit",
    ]
    words = sum(len(line.split()) for line in lines)
    count = COUNTER.tools({"tools": [WEATHER]})
    assert count.tokens == 12 + 7 + 3 + 2 * 3 - 3 + 2 * 3 + words
    assert count.approximate


def test_the_count_is_never_below_the_published_one(registry: ProfileRegistry) -> None:
    # The cookbook's chat with this tool has 101 tokens for gpt-4o and 105 for gpt-4; its two messages and the reply are 33.
    for model, published in (("gpt-4o", 101 - 33), ("gpt-4", 105 - 33)):
        profile = registry.resolve("auto", model)
        counted = profile.count_request({"tools": [WEATHER]}).tools  # type: ignore[attr-defined]
        assert published <= counted.tokens <= 1.1 * published


def test_the_other_published_rule_is_followed_where_it_is_larger() -> None:
    nested = {"type": "object", "properties": {"inner": {"type": "object", "properties": {"deep": {"type": "string"}}}}}
    function = {"name": "f", "parameters": nested}
    count = COUNTER.tools({"tools": [{"type": "function", "function": function}]})
    by_cookbook = 12 + 7 + 1 + 3 + 3 + 1  # the end, the start, "f:", properties, a property, "inner:object:"
    assert count.tokens == max(by_cookbook, 9 + len(declarations([function]).split())) > by_cookbook


def test_a_tool_of_another_kind_is_counted_as_its_json() -> None:
    assert COUNTER.tools({"tools": [{"type": "web_search", "note": "a b c"}]}).tokens == 3
    both = COUNTER.tools({"tools": [{"type": "web_search", "note": "a b c"}, WEATHER]}).tokens
    assert both == 3 + COUNTER.tools({"tools": [WEATHER]}).tokens


def test_what_is_deeper_than_properties_is_counted() -> None:
    deep = {"type": "object", "properties": {"a": {"type": "object", "properties": {"b": {"description": "w " * 500}}}}}
    assert COUNTER.tools({"tools": [{"type": "function", "function": {"name": "f", "parameters": deep}}]}).tokens >= 500


def test_legacy_functions_and_choices_count() -> None:
    assert COUNTER.tools({"functions": [WEATHER["function"]]}).tokens == COUNTER.tools({"tools": [WEATHER]}).tokens
    assert COUNTER.tools({"tool_choice": "required"}).tokens == 1
    assert COUNTER.tools({"tool_choice": {"type": "function", "function": {"name": "f"}}}).approximate
    assert COUNTER.tools({"parallel_tool_calls": False}).tokens == 1


def test_a_response_schema_counts_whole() -> None:
    wanted = {"type": "json_schema", "json_schema": {"schema": {"description": "w " * 300}}}
    count = COUNTER.response_format({"response_format": wanted})
    assert count.tokens >= 300
    assert count.approximate


def test_a_schema_of_any_depth_is_counted() -> None:
    schema: dict[str, Any] = {"type": "string"}
    for _ in range(20_000):
        schema = {"type": "object", "properties": {"deeper": schema}}
    assert COUNTER.tools({"tools": [{"function": {"name": "f", "parameters": schema}}]}).tokens > 20_000


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(deadline=None, max_examples=200)
@given(JSON, JSON, JSON, JSON)
def test_no_shape_raises(tools: object, function: object, properties: object, choice: object) -> None:
    made = {"function": {"name": function, "description": properties, "parameters": {"properties": properties}}}
    for request in ({"tools": tools}, {"tools": [made, function]}, {"functions": tools, "tool_choice": choice}):
        assert COUNTER.tools(request).tokens >= 0
    assert COUNTER.response_format({"response_format": choice}).tokens >= 0
