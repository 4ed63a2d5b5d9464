"""Counts chats with mistral-common's own pieces: its conversion, validator, normaliser and encoders. Knows no files.

mistral-common encodes every message by itself, but for what it puts before one user message: the tools and, in older formats,
the system texts. So the tokens of each run of messages of one role are remembered, and only that one user message is encoded
anew. A chat that mistral-common refuses (roles out of order, ids of another shape …) is counted as near to the format as can be
and marked approximate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Any

from tokenizer_profiles.attribution import shared
from tokenizer_profiles.base import Message, PromptCount, Request, TokenCount
from tokenizer_profiles.images import ImageRule
from tokenizer_profiles.json_text import compact_json, text_weight
from tokenizer_profiles.message_counter import MEDIA_PARTS, ChatRules, MessageCounter
from tokenizer_profiles.mistral_text import CountedText, Cut
from tokenizer_profiles.text_memo import memo_key

_ROLES = {"system": "system", "developer": "system", "assistant": "assistant", "tool": "tool"}  # others are the user's
_TEXT_ROLES = ("system", "user", "assistant")
_REMEMBERED_RUNS = 4096  # twice as many at most
_TOOL_LISTS = 64  # remembered
_DEFAULT_CHOICES = (None, "auto", "none", "any", "required")
_MOST_WEIGHT = 1 << 30
# What the package raises, beside its own errors, on shapes that it does not know.
_ODD_SHAPE = (ValueError, TypeError, AttributeError, LookupError, AssertionError, NotImplementedError, RecursionError)


@dataclass(frozen=True, slots=True)
class _Run:
    """Neighbours of one role. `outlines` are they as mistral-common holds them, with a letter for each text; `counts` the
    tokens of each message that it makes of them, `earlier` those before the last user message."""

    role: str
    outlines: tuple[Any, ...]
    counts: tuple[TokenCount, ...]
    earlier: tuple[TokenCount, ...]
    exact: bool


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
        self._young: dict[tuple[str | bytes, ...], _Run] = {}
        self._old: dict[tuple[str | bytes, ...], _Run] = {}

    def count(self, messages: Sequence[Message], request: Request) -> PromptCount:
        """The tokens of a request."""
        media = {at: cost for at, message in enumerate(messages) if (cost := self._media_tokens(message)) is not None}
        texts = [_without_media(message) if at in media else message for at, message in enumerate(messages)]
        tools = self._wanted_tools(request)
        groups = [list(group) for _, group in groupby(texts, key=_role)]
        runs = [self._run(group) for group in groups]
        extras = self._extras(groups, runs, tools.known)
        counts = self._attributed(groups, runs, extras.system)
        accepted = self._accepted(runs)
        if not accepted:
            counts = [TokenCount(count.tokens, True) for count in counts]
        for at, cost in media.items():
            counts[at] = TokenCount(counts[at].tokens + cost, True)
        response_format = TokenCount(0, request.get("response_format") not in (None, {"type": "text"}))
        template = TokenCount(1 + extras.inserted, not accepted)  # BOS
        return PromptCount(tuple(counts), TokenCount(extras.tools + tools.refused, tools.approximate), response_format, template)

    def _media_tokens(self, message: Message) -> int | None:
        return None if isinstance(message.get("content"), str) else self._media(message)

    def _run(self, group: Sequence[Message]) -> _Run:
        """Remembered in two generations, as in `TextMemo`."""
        key = tuple([memo_key(_told(message)) for message in group])
        run = self._young.get(key) or self._old.get(key)
        if run is None:
            run = self._read_run(group)
        self._young[key] = run
        if len(self._young) > _REMEMBERED_RUNS:
            self._old, self._young = self._young, {}
        return run

    def _read_run(self, group: Sequence[Message]) -> _Run:
        try:
            return self._encoded_run(group, exact=True)
        except _refusal():
            return self._encoded_run([_plain(message) for message in group], exact=False)

    def _encoded_run(self, group: Sequence[Message], *, exact: bool) -> _Run:
        role, outlines, made = self._made(group)
        counts = tuple(TokenCount(len(self._encode(message, False))) for message in made)
        drops = self._version == 2  # of the calls and results before the last user message
        earlier = tuple(TokenCount(len(self._encode(message, True))) for message in made) if drops else counts
        return _Run(role, tuple(outlines), counts, earlier, exact)

    def _made(self, group: Sequence[Message]) -> tuple[str, list[Any], list[Any]]:
        """The role of a run, its outlines, and the messages that mistral-common makes of it."""
        if len(group) == 1 and _is_text(group[0]):  # which it leaves alone: most messages are such, and this is much quicker
            role, content = group[0]["role"], group[0]["content"]
            content.encode()
            kept = self._keeps_system or role != "system"
            return role, [_text_message(role, "x")], [_text_message(role, content)] if kept else []
        converted = [_converted(message) for message in group]
        role = converted[0].role
        made = [message for message in self._normalized(converted).messages if message.role == role]
        return role, list(map(_outline, converted)), made

    def _normalized(self, converted: Sequence[Any]) -> Any:
        from mistral_common.protocol.instruct.request import ChatCompletionRequest

        request: Any = ChatCompletionRequest(messages=list(converted))
        return self._normalizer.from_chat_completion_request(request)

    def _encode(self, message: Any, before_last: bool) -> list[int]:
        """A message's tokens, without what may be put in front of it."""
        if message.role == "user":
            return self._encode_user(message, None, None)
        if message.role == "assistant":
            return list(self._instruct.encode_assistant_message(message, before_last))
        if message.role == "tool":
            return list(self._instruct.encode_tool_message(message, before_last)[0])
        return list(self._instruct.encode_system_message(message)[0])

    def _encode_user(self, message: Any, tools: Any, system: str | None) -> list[int]:
        encode = self._instruct.encode_user_message
        return list(encode(message, tools, is_last=True, is_first=True, system_prompt=system)[0])

    def _extras(self, groups: Sequence[Sequence[Message]], runs: Sequence[_Run], tools: Any) -> _Extras:
        """The tokens that tools and system texts add to the user message before which they stand."""
        from mistral_common.protocol.instruct.messages import UserMessage

        spoken = [run.role for run in runs if self._keeps_system or run.role != "system"]
        empty = UserMessage(content="")
        inserts = not spoken or (not self._keeps_system and spoken[0] != "user")
        users: list[int | None] = [at for at, run in enumerate(runs) if run.role == "user"]
        if inserts:
            users.insert(0, None)
        if not users:
            return _Extras(0, 0, 0)
        at = users[0 if self._version == 1 else -1]
        bearer = empty if at is None else self._normalized(_as_taken(groups[at], runs[at])).messages[0]
        alone = len(self._encode_user(bearer, None, None))
        equipped = len(self._encode_user(bearer, tools, None))
        whole = len(self._encode_user(bearer, tools, self._system_text(groups, runs)))
        inserted = len(self._encode_user(empty, None, None)) if inserts else 0
        return _Extras(whole - equipped, equipped - alone, inserted)

    def _system_text(self, groups: Sequence[Sequence[Message]], runs: Sequence[_Run]) -> str | None:
        """The system texts as one, where they are no messages of their own."""
        if self._keeps_system:
            return None
        systems = [pair for pair in zip(groups, runs, strict=True) if pair[1].role == "system"]
        told = [message for group, run in systems for message in _as_taken(group, run)]
        text: str | None = self._normalized(told).system_prompt
        return text

    def _accepted(self, runs: Sequence[_Run]) -> bool:
        """Whether mistral-common takes the chat as it is."""
        if any(not run.exact for run in runs):
            return False
        outlines = [outline for run in runs for outline in run.outlines]
        try:
            self._validator.validate_messages(outlines)
            if self._version == 2:  # which takes only one result of a turn's calls, and finds more when it encodes
                self._instruct.encode_instruct(self._normalized(outlines))
        except _refusal():
            return False
        return True

    def _attributed(self, groups: Sequence[Sequence[Message]], runs: Sequence[_Run], system: int) -> list[TokenCount]:
        """The tokens of each message. Those that share a message or stand before another one share its tokens by length."""
        last = max((at for at, run in enumerate(runs) if run.role == "user"), default=0)
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
            roles = [run.role for group, run in zip(groups, runs, strict=True) for _ in group]
            told = [at for at, role in enumerate(roles) if role == "system"]
            messages = [message for group in groups for message in group]
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

        refusal = _refusal()
        try:
            tools = convert_openai_tools(json.loads(text))
        except refusal:
            return _Tools(None, self.texts.count(text), True)
        try:
            self._validator.validate_request(ChatCompletionRequest(messages=[UserMessage(content="x")], tools=tools))
        except refusal:
            return _Tools(tools, 0, True)
        return _Tools(tools, 0, False)


def _refusal() -> tuple[type[Exception], ...]:
    from mistral_common.exceptions import MistralCommonException

    return (MistralCommonException, *_ODD_SHAPE)


def _role(message: Message) -> str:
    """The role under which mistral-common groups a message."""
    role = message.get("role")
    return _ROLES.get(role, "user") if isinstance(role, str) else "user"


def _told(message: Message) -> str:
    """A text that no other message has."""
    return f"{message['role']}\n{message['content']}" if _is_text(message) else compact_json(message)


def _is_text(message: Message) -> bool:
    """Whether it is a role and a text and no more."""
    content = message.get("content")
    return len(message) == 2 and isinstance(content, str) and content != "" and message.get("role") in _TEXT_ROLES


def _text_message(role: str, content: str) -> Any:
    from mistral_common.protocol.instruct.messages import AssistantMessage, SystemMessage, UserMessage

    kinds: dict[str, Any] = {"system": SystemMessage, "user": UserMessage, "assistant": AssistantMessage}
    return kinds[role].model_construct(content=content)  # unchecked: the content is a text


def _converted(message: Message) -> Any:
    """The message as mistral-common holds it; raises on what it does not know, and on lone surrogates, which it would take."""
    from mistral_common.protocol.instruct.converters import convert_openai_messages

    _told(message).encode()
    return convert_openai_messages([dict(message)])[0]


def _as_taken(group: Sequence[Message], run: _Run) -> list[Any]:
    """The messages of a run as mistral-common holds them."""
    return [_converted(message if run.exact else _plain(message)) for message in group]


def _outline(message: Any) -> Any:
    """The message with a letter for its text: all that the validator looks at but the text."""
    if not message.content or not (isinstance(message.content, str) or all(part.type == "text" for part in message.content)):
        return message
    return message.model_copy(update={"content": "x"})


def _without_media(message: Message) -> Message:
    rest = [part for part in message["content"] if not (isinstance(part, Mapping) and _is_media(part))]
    return {**message, "content": rest or ""}


def _is_media(part: Mapping[str, Any]) -> bool:
    return isinstance(part.get("type"), str) and part["type"] in MEDIA_PARTS


def _plain(message: Message) -> Message:
    """The message with all that it holds as one text, under the nearest role that every format knows."""
    role = _role(message)
    rest = {key: value for key, value in message.items() if key not in ("role", "content") and value is not None}
    texts = [_as_text(message.get("content")), compact_json(rest) if rest else ""]
    text = "\n".join(filter(None, texts)) or " "
    return {"role": "user" if role == "tool" else role, "content": text.encode("utf-8", "replace").decode("utf-8")}


def _as_text(content: object) -> str:
    if isinstance(content, list):
        return "\n\n".join(map(_as_text, content))
    if isinstance(content, Mapping) and isinstance(content.get("text"), str):
        return str(content["text"])
    return content if isinstance(content, str) else "" if content is None else compact_json(content)


def _weights(messages: Sequence[Message]) -> list[int]:
    return [1 + text_weight(message, _MOST_WEIGHT) for message in messages]
