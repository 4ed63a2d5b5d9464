"""What tool definitions and a response format cost. OpenAI publishes no exact rule: everything here is an estimate, high
rather than low. Knows no tokenizer and no gateway.

Of tools the larger of two figures counts: the rule of OpenAI's cookbook, which sees only the first level of properties, and
the definitions' JSON text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenizer_profiles.base import Request, TokenCount
from tokenizer_profiles.json_text import compact_json
from tokenizer_profiles.message_counter import ChatRules, CountText

_PROPERTIES = 3
_PROPERTY = 3
_ENUM = -3
_ENUM_ITEM = 3
_FUNCTIONS_END = 12
_DEFAULT_CHOICES = ("auto", "none")  # words that say nothing to the model


class ToolCounter:
    """Counts the keys of a request that reach the model beside the messages."""

    def __init__(self, count_text: CountText, rules: ChatRules) -> None:
        self._count_text = count_text
        self._rules = rules

    def tools(self, request: Request) -> TokenCount:
        """The tokens of `tools` or `functions`, and of `tool_choice`, `function_call` and `parallel_tool_calls`."""
        tokens = sum(self._definitions(request[key]) for key in ("tools", "functions") if request.get(key))
        for key in ("tool_choice", "function_call", "parallel_tool_calls"):
            choice = request.get(key)
            if choice is not None and choice not in _DEFAULT_CHOICES:
                tokens += self._count_text(compact_json(choice))
        return TokenCount(tokens, approximate=tokens > 0)

    def response_format(self, request: Request) -> TokenCount:
        """The tokens of `response_format`; the plain text format costs nothing."""
        wanted = request.get("response_format")
        if wanted is None or wanted == {"type": "text"}:
            return TokenCount(0)
        return TokenCount(self._count_text(compact_json(wanted)), approximate=True)

    def _definitions(self, tools: object) -> int:
        as_text = self._count_text(compact_json(tools))
        if not isinstance(tools, list):
            return as_text
        return max(as_text, _FUNCTIONS_END + sum(self._function(tool) for tool in tools))

    def _function(self, tool: object) -> int:
        holder = _mapping(tool)
        function = _mapping(holder.get("function", holder))
        head = f"{function.get('name', '')}:{_sentence(function.get('description'))}"
        tokens = self._rules.function_start + self._count_text(head)
        properties = _mapping(_mapping(function.get("parameters")).get("properties"))
        if properties:
            tokens += _PROPERTIES + sum(self._property(name, _mapping(schema)) for name, schema in properties.items())
        return tokens

    def _property(self, name: str, schema: Mapping[str, Any]) -> int:
        tokens = _PROPERTY
        choices = schema.get("enum")
        if isinstance(choices, list):
            tokens += _ENUM + sum(_ENUM_ITEM + self._count_text(compact_json(item).strip('"')) for item in choices)
        return tokens + self._count_text(f"{name}:{schema.get('type', '')}:{_sentence(schema.get('description'))}")


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sentence(description: object) -> str:
    return description.removesuffix(".") if isinstance(description, str) else ""
