"""The `gpt-oss` profile: chats in OpenAI's published harmony format. Knows no file and no gateway.

The format (cookbook.openai.com/articles/openai-harmony) opens each chat with a system message that the server writes, dated
today: a date has the same number of tokens every day. Chats of plain texts are exact. Servers differ in how they show tools,
calls and their results, and in what they make of text that looks like a special token: all that is marked approximate.

openai-harmony is not used to count: it renders whole chats only, and downloads its vocabulary when that is not laid out for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tokenizer_profiles.base import AdditiveProfile, Message, PromptCount, Request, TokenCount
from tokenizer_profiles.images import TileRule
from tokenizer_profiles.json_text import compact_json
from tokenizer_profiles.kinds import ProfileKind, ProfileRequest
from tokenizer_profiles.message_counter import ChatRules, MessageCounter
from tokenizer_profiles.openai_chat import TextTokenizer
from tokenizer_profiles.tool_text import declarations

_FRAME = 4  # <|start|>, the role, <|message|>, <|end|>
_CHANNEL = 2  # <|channel|>final
_PRIMER = 2  # <|start|>assistant
_SPECIAL = "<|"  # as every special token begins
_EFFORTS = ("low", "medium", "high")
_SYSTEM = (
    "You are ChatGPT, a large language model trained by OpenAI.\nKnowledge cutoff: 2024-06\nCurrent date: {date}\n\n"
    "Reasoning: {effort}\n\n# Valid channels: analysis, commentary, final. Channel must be included for every message."
)
_SOME_DAY = "2025-08-05"
_INSTRUCTIONS = "# Instructions\n\n"
_TOOLS_AT = "\nCalls to these tools must go to the commentary channel: 'functions'."
_TOOLS = "# Tools\n\n## functions\n\n"
# For what is not plain, on the high side: `<|channel|>commentary` in each frame (the role is counted beside it), and a message
# of its own for each call: `<|start|>assistant to=functions.…<|channel|>commentary json<|message|>…<|call|>`.
_RULES = ChatRules(per_message=_FRAME - 1 + _CHANNEL, per_call=12)


class HarmonyProfile(AdditiveProfile):
    """Counts chats in the harmony format; `tokenizer` is o200k_base, whose ranks the format's own encoding has."""

    approximate = False

    def __init__(self, name: str, tokenizer: TextTokenizer) -> None:
        self.name = name
        self._tokenizer = tokenizer
        self._others = MessageCounter(tokenizer.count, _RULES, TileRule(85, 170))

    @property
    def loaded(self) -> bool:
        """See `TokenizerProfile`."""
        return self._tokenizer.loaded

    def load(self) -> None:
        """See `TokenizerProfile`. Raises ProfileDataMissing."""
        self._tokenizer.load()

    def count_message(self, message: Message) -> TokenCount:
        """See `AdditiveProfile`. Instructions stand in a developer message whatever their role."""
        content, role = message.get("content"), message.get("role")
        if not isinstance(content, str) or message.keys() != {"role", "content"}:
            return TokenCount(self._others.count(message).tokens, approximate=True)
        sure = _SPECIAL not in content
        if role == "user":
            return TokenCount(_FRAME + self.count_text(content), not sure)
        if role == "assistant":
            return TokenCount(_FRAME + _CHANNEL + self.count_text(content), not sure)
        if role in ("system", "developer"):
            return TokenCount(_FRAME + self.count_text(_INSTRUCTIONS + content), not sure)
        return TokenCount(self._others.count(message).tokens, approximate=True)

    def count_request(self, request: Request) -> PromptCount:
        """See `AdditiveProfile`. The system message belongs to the template."""
        effort = request.get("reasoning_effort") or "medium"
        known = effort in _EFFORTS
        opening = _SYSTEM.format(date=_SOME_DAY, effort=effort if known else compact_json(effort))
        template = TokenCount(_FRAME + self.count_text(opening) + _PRIMER, not known)
        return PromptCount((), self._tools(request), self._response_format(request), template)

    def count_text(self, text: str) -> int:
        """See `AdditiveProfile`."""
        return self._tokenizer.count(text)

    def _tools(self, request: Request) -> TokenCount:
        """A developer message with the declarations of the functions; anything else among the tools as JSON."""
        tools = [tool for key in ("tools", "functions") for tool in _listed(request.get(key))]
        if not tools:
            return TokenCount(0)
        functions = [_function(tool) for tool in tools]
        named = [function for function in functions if function is not None]
        others = [tool for tool, function in zip(tools, functions, strict=True) if function is None]
        text = _TOOLS_AT + _TOOLS + declarations(named) + (compact_json(others) if others else "")
        return TokenCount(_FRAME + self.count_text(text), approximate=True)

    def _response_format(self, request: Request) -> TokenCount:
        wanted = request.get("response_format")
        if wanted is None or wanted == {"type": "text"}:
            return TokenCount(0)
        return TokenCount(self.count_text(compact_json(wanted)), approximate=True)


class HarmonyKind(ProfileKind):
    """Makes the one profile of a name."""

    def __init__(self, name: str, tokenizer: TextTokenizer) -> None:
        self.install = tokenizer.install
        self._tokenizer = tokenizer
        self._profile = HarmonyProfile(name, tokenizer)

    @property
    def data_present(self) -> bool:
        """See `ProfileKind`."""
        return self._tokenizer.data_present

    def make(self, request: ProfileRequest) -> HarmonyProfile:
        """See `ProfileKind`."""
        return self._profile


def _listed(tools: object) -> list[object]:
    return tools if isinstance(tools, list) else [tools] if tools else []


def _function(tool: object) -> Mapping[str, Any] | None:
    """The definition of a function, with or without the holder that newer requests put around it; None for other tools."""
    function = tool.get("function", tool) if isinstance(tool, Mapping) else None
    return function if isinstance(function, Mapping) and "name" in function else None
