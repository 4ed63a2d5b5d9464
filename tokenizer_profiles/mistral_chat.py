"""Counts chats with mistral-common's own pieces: its conversion, validator, normaliser and encoders. Knows no files.

mistral-common encodes every message by itself, but for what it puts before one user message: the tools and, in older formats,
the system texts. So the tokens of each run of messages of one role are remembered, and only that one user message is encoded
anew. A chat that mistral-common refuses (roles out of order, ids of another shape …) is counted as near to the format as can be
and marked approximate.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

from tokenizer_profiles.attribution import shared
from tokenizer_profiles.base import Message, PromptCount, Request, TokenCount
from tokenizer_profiles.images import ImageRule
from tokenizer_profiles.json_text import compact_json, text_weight
from tokenizer_profiles.message_counter import ChatRules, MessageCounter
from tokenizer_profiles.mistral_messages import (
    MessageKey,
    Shape,
    as_plain,
    converted,
    converted_text,
    is_text,
    key_of,
    refusal,
    role_of,
    without_media,
)
from tokenizer_profiles.mistral_text import CountedText, Cut
from tokenizer_profiles.mistral_turns import TurnValidator, last_user

_REMEMBERED_RUNS = 4096  # twice as many at most
_TOOL_LISTS = 64  # remembered
_DEFAULT_CHOICES = (None, "auto", "none", "any", "required")
_MOST_WEIGHT = 1 << 30


@dataclass(frozen=True, slots=True)
class _Run:
    """`counts` are the tokens of each message that mistral-common makes of these neighbours, `earlier` those before the last
    user message."""

    shape: Shape
    counts: tuple[TokenCount, ...]
    earlier: tuple[TokenCount, ...]


@dataclass(frozen=True, slots=True)
class _Tools:
    """The tools as mistral-common holds them; None and the tokens of their JSON text when it refuses them."""

    known: Any
    refused: int
    approximate: bool


@dataclass(frozen=True, slots=True)
class _Extras:
    """The tokens of what stands before one user message, and of an empty user message that was put in front of the chat."""

    system: int
    tools: int
    inserted: int


class MistralChat:
    """One loaded format. `tokenizer` is a MistralTokenizer."""

    def __init__(self, tokenizer: Any, cut: Cut, image_rule: ImageRule) -> None:
        instruct = tokenizer.instruct_tokenizer
        self.texts = CountedText(instruct.tokenizer, cut)
        self._instruct = type(instruct)(self.texts)
        self._validator = tokenizer._chat_completion_request_validator
        self._normalizer = tokenizer._instruct_request_normalizer
        self._version = int(instruct.tokenizer.version.value.removeprefix("v"))
        self._keeps_system = self._version >= 7  # before that, system texts stand in a user message
        self._media = MessageCounter(self.texts.count, ChatRules(), image_rule).media
        self._tools = lru_cache(_TOOL_LISTS)(self._read_tools)
        self._turns = TurnValidator(self._validator, self._instruct, self._normalized, single_results=self._version == 2)
        self._young: dict[MessageKey | tuple[MessageKey, ...], _Run] = {}
        self._old: dict[MessageKey | tuple[MessageKey, ...], _Run] = {}

    def count(self, messages: Sequence[Message], request: Request) -> PromptCount:
        """The tokens of a request."""
        media = {at: cost for at, message in enumerate(messages) if (cost := self._media_tokens(message)) is not None}
        texts = [without_media(message) if at in media else message for at, message in enumerate(messages)]
        tools = self._wanted_tools(request)
        groups = [list(group) for _, group in groupby(texts, key=role_of)]
        runs = [self._run(group) for group in groups]
        shapes = [run.shape for run in runs]
        extras = self._extras(groups, shapes, tools.known)
        counts = self._attributed(groups, runs, extras.system)
        taken = self._turns.takes(shapes)
        if not taken:
            counts = [TokenCount(count.tokens, True) for count in counts]
        for at, cost in media.items():
            counts[at] = TokenCount(counts[at].tokens + cost, True)
        response_format = TokenCount(0, request.get("response_format") not in (None, {"type": "text"}))
        template = TokenCount(1 + extras.inserted, not taken)  # BOS
        return PromptCount(tuple(counts), TokenCount(extras.tools + tools.refused, tools.approximate), response_format, template)

    def _media_tokens(self, message: Message) -> int | None:
        return None if isinstance(message.get("content"), str) else self._media(message)

    def _run(self, group: Sequence[Message]) -> _Run:
        """Remembered in two generations, as in `TextMemo`."""
        key = key_of(group[0]) if len(group) == 1 else tuple(map(key_of, group))
        run = self._young.get(key)
        if run is None:
            run = self._young[key] = self._old.get(key) or self._read_run(group)
            if len(self._young) > _REMEMBERED_RUNS:
                self._old, self._young = self._young, {}
        return run

    def _read_run(self, group: Sequence[Message]) -> _Run:
        try:
            return self._text_run(group[0]) if len(group) == 1 and is_text(group[0]) else self._encoded_run(group, exact=True)
        except refusal():
            return self._encoded_run(list(map(as_plain, group)), exact=False)

    def _text_run(self, message: Message) -> _Run:
        text, shape = converted_text(message)
        if shape.role == "system" and not self._keeps_system:
            return _Run(shape, (), ())
        counts = (TokenCount(self._tokens(text, False)),)
        return _Run(shape, counts, counts)

    def _encoded_run(self, group: Sequence[Message], *, exact: bool) -> _Run:
        taken = list(map(converted, group))
        shape = Shape.of(taken, exact=exact)
        made = [message for message in self._normalized(taken).messages if message.role == shape.role]
        counts = tuple([TokenCount(self._tokens(message, False)) for message in made])
        drops = self._version == 2  # of the calls and results before the last user message
        earlier = tuple([TokenCount(self._tokens(message, True)) for message in made]) if drops else counts
        return _Run(shape, counts, earlier)

    def _normalized(self, converted: Sequence[Any]) -> Any:
        from mistral_common.protocol.instruct.request import ChatCompletionRequest

        request: Any = ChatCompletionRequest(messages=list(converted))
        return self._normalizer.from_chat_completion_request(request)

    def _tokens(self, message: Any, before_last: bool) -> int:
        """A message's tokens, without what may be put in front of it."""
        if message.role == "user":
            return self._user_tokens(message, None, None)
        if message.role == "assistant":
            return sum(self._instruct.encode_assistant_message(message, before_last))
        if message.role == "tool":
            return sum(self._instruct.encode_tool_message(message, before_last)[0])
        return sum(self._instruct.encode_system_message(message)[0])

    def _user_tokens(self, message: Any, tools: Any, system: str | None) -> int:
        encode = self._instruct.encode_user_message
        return sum(encode(message, tools, is_last=True, is_first=True, system_prompt=system)[0])

    def _extras(self, groups: Sequence[Sequence[Message]], shapes: Sequence[Shape], tools: Any) -> _Extras:
        """The tokens that tools and system texts add to the user message before which they stand."""
        from mistral_common.protocol.instruct.messages import UserMessage

        roles = [shape.role for shape in shapes]
        spoken = roles if self._keeps_system else [role for role in roles if role != "system"]
        inserts = not spoken or (not self._keeps_system and spoken[0] != "user")
        users: list[int | None] = [at for at, role in enumerate(roles) if role == "user"]
        if inserts:
            users.insert(0, None)
        if not users or not (tools or inserts or len(spoken) < len(roles)):
            return _Extras(0, 0, 0)
        at = users[0 if self._version == 1 else -1]
        empty = UserMessage(content="")
        bearer = empty if at is None else self._normalized(_as_taken(groups[at], shapes[at])).messages[0]
        alone = self._user_tokens(bearer, None, None)
        equipped = self._user_tokens(bearer, tools, None)
        whole = self._user_tokens(bearer, tools, self._system_text(groups, shapes))
        inserted = self._user_tokens(empty, None, None) if inserts else 0
        return _Extras(whole - equipped, equipped - alone, inserted)

    def _system_text(self, groups: Sequence[Sequence[Message]], shapes: Sequence[Shape]) -> str | None:
        """The system texts as one, where they are no messages of their own."""
        if self._keeps_system:
            return None
        systems = [pair for pair in zip(groups, shapes, strict=True) if pair[1].role == "system"]
        told = [message for group, shape in systems for message in _as_taken(group, shape)]
        text: str | None = self._normalized(told).system_prompt
        return text

    def _attributed(self, groups: Sequence[Sequence[Message]], runs: Sequence[_Run], system: int) -> list[TokenCount]:
        """The tokens of each message. Those that share a message or stand before another one share its tokens by length."""
        last = last_user([run.shape for run in runs])
        counts: list[TokenCount] = []
        for at, (group, run) in enumerate(zip(groups, runs, strict=True)):
            made = run.earlier if at < last else run.counts
            if len(made) == len(group):
                counts += made
            elif made:
                counts += [TokenCount(share, True) for share in shared(made[0].tokens, _weights(group))]
            else:
                counts += [TokenCount(0)] * len(group)
        if not self._keeps_system:
            messages = [message for group in groups for message in group]
            told = [at for at, message in enumerate(messages) if role_of(message) == "system"]
            for at, share in zip(told, shared(system, _weights([messages[at] for at in told])), strict=True):
                counts[at] = TokenCount(share, len(told) > 1)
        return counts

    def _wanted_tools(self, request: Request) -> _Tools:
        """`tools`, with the older `functions` behind them; a choice that names a function is not part of the format."""
        tools, functions = request.get("tools"), request.get("functions")
        if isinstance(functions, list) and functions:
            wrapped = [{"type": "function", "function": function} for function in functions]
            tools = [*tools, *wrapped] if isinstance(tools, list) else wrapped
        read = self._tools(compact_json(tools)) if tools else _Tools(None, 0, False)
        choice = request.get("tool_choice")
        sure = not functions and choice in _DEFAULT_CHOICES and not request.get("function_call")
        return read if sure else _Tools(read.known, read.refused, True)

    def _read_tools(self, text: str) -> _Tools:
        from mistral_common.protocol.instruct.converters import convert_openai_tools
        from mistral_common.protocol.instruct.messages import UserMessage
        from mistral_common.protocol.instruct.request import ChatCompletionRequest

        try:
            tools = convert_openai_tools(json.loads(text))
        except refusal():
            return _Tools(None, self.texts.count(text), True)
        try:
            self._validator.validate_request(ChatCompletionRequest(messages=[UserMessage(content="x")], tools=tools))
        except refusal():
            return _Tools(tools, 0, True)
        return _Tools(tools, 0, False)


def _as_taken(group: Sequence[Message], shape: Shape) -> list[Any]:
    """Neighbours of one role as mistral-common holds them."""
    return [converted(message if shape.exact else as_plain(message)) for message in group]


def _weights(messages: Sequence[Message]) -> list[int]:
    return [1 + text_weight(message, _MOST_WEIGHT) for message in messages]
