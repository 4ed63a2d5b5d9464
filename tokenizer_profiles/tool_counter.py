"""What tool definitions and a response format cost. OpenAI publishes no exact rule: everything here is an estimate, high
rather than low. Knows no tokenizer and no gateway.

Of tools the larger of two published figures counts: that of OpenAI's cookbook, "How to count tokens with tiktoken", which sees
only the first level of properties, and that of the project openai-chat-tokens: the text of the declarations and 9 tokens.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizer_profiles.base import Request, TokenCount
from tokenizer_profiles.json_text import compact_json
from tokenizer_profiles.message_counter import ChatRules, CountText
from tokenizer_profiles.tool_text import declarations, properties_of

_PROPERTIES = 3
_PROPERTY = 3
_ENUM = -3
_ENUM_ITEM = 3
_FUNCTIONS_END = 12
_DECLARATIONS = 9
_DECLARED_KEYS = frozenset(("name", "description", "parameters", "strict"))
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
        if not isinstance(tools, list):
            return self._count_text(compact_json(tools))
        functions = [function for tool in tools if (function := _declared(tool))]
        others = [tool for tool in tools if not _declared(tool)]
        as_json = self._count_text(compact_json(others)) if others else 0
        return as_json + (self._functions(functions) if functions else 0)

    def _functions(self, functions: Sequence[Mapping[str, Any]]) -> int:
        declared = _DECLARATIONS + self._count_text(declarations(functions))
        return max(declared, _FUNCTIONS_END + sum(map(self._function, functions)))

    def _function(self, function: Mapping[str, Any]) -> int:
        head = f"{function.get('name', '')}:{_sentence(function.get('description'))}"
        tokens = self._rules.function_start + self._count_text(head)
        properties = properties_of(function.get("parameters"))
        if properties:
            tokens += _PROPERTIES + sum(self._property(name, _mapping(schema)) for name, schema in properties.items())
        return tokens

    def _property(self, name: str, schema: Mapping[str, Any]) -> int:
        tokens = _PROPERTY
        choices = schema.get("enum")
        if isinstance(choices, list):
            tokens += _ENUM + sum(_ENUM_ITEM + self._count_text(compact_json(item).strip('"')) for item in choices)
        return tokens + self._count_text(f"{name}:{schema.get('type', '')}:{_sentence(schema.get('description'))}")


def _declared(tool: object) -> Mapping[str, Any]:
    """The function of a tool or a legacy function itself; nothing for a tool of another kind, which counts as its JSON."""
    holder = _mapping(tool)
    function = _mapping(holder.get("function", holder))
    return function if isinstance(function.get("name"), str) and not function.keys() - _DECLARED_KEYS else {}


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sentence(description: object) -> str:
    return description.removesuffix(".") if isinstance(description, str) else ""
