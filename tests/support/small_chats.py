"""Chats for tests: requests, models and profiles small enough to count in one's head."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.chat import ChatMessage, ChatRequest, Marks
from gateway.model_catalog import ModelConfig
from gateway.prepared import PreparedPrompt
from gateway.shifting import ContextBudget
from gateway.shifting.blocks import text_of
from gateway.shifting.links import tool_links
from tokenizer_profiles.base import AdditiveProfile, PromptCount, TokenCount, TokenizerProfile
from tokenizer_profiles.kinds import ProfileKind, ProfileRequest
from tokenizer_profiles.registry import ProfileRegistry

PRIMER = 3
OVERHEAD = 2
NONE = TokenCount(0)


def words(message: Mapping[str, Any]) -> int:
    """The tokens of a message: its words, two for itself, three for each call."""
    return OVERHEAD + len(text_of(message).split()) + 3 * len(message.get("tool_calls") or [])


class WordProfile(AdditiveProfile):
    """A token a word; a tool definition is ten, a response format five, the primer three."""

    name = "words"
    approximate = False

    def count_message(self, message: Mapping[str, Any]) -> TokenCount:
        return TokenCount(words(message), approximate="image" in message)

    def count_request(self, request: Mapping[str, Any]) -> PromptCount:
        tools = 10 * len(request.get("tools") or [])
        shape = 5 if request.get("response_format") else 0
        return PromptCount((), TokenCount(tools), TokenCount(shape), TokenCount(PRIMER))

    def count_text(self, text: str) -> int:
        return len(text.split())


class NeighbourProfile(TokenizerProfile):
    """A profile whose parts don't add up: a message costs more behind one of its own role, and the primer grows."""

    name = "neighbours"
    approximate = False

    async def count_prompt(self, messages: Sequence[Mapping[str, Any]], request: Mapping[str, Any]) -> PromptCount:
        roles = [None, *(message.get("role") for message in messages)]
        bonus = [4 if message.get("role") == before else 0 for message, before in zip(messages, roles, strict=False)]
        counts = tuple(TokenCount(words(message) + more) for message, more in zip(messages, bonus, strict=True))
        return PromptCount(counts, NONE, NONE, TokenCount(PRIMER + len(messages) % 3))


class OneKind(ProfileKind):
    """A kind that always makes the same profile."""

    def __init__(self, profile: TokenizerProfile) -> None:
        self.profile = profile
        self.asked: list[ProfileRequest] = []

    def make(self, request: ProfileRequest) -> TokenizerProfile:
        self.asked.append(request)
        return self.profile


def profiles(**named: TokenizerProfile) -> ProfileRegistry:
    """A registry of these profiles."""
    return ProfileRegistry({name: OneKind(profile) for name, profile in named.items()})


def model_config(model: str | None = "m", **changes: Any) -> ModelConfig:
    """A model that counts words and has room for a hundred of them."""
    values: dict[str, Any] = {
        "model": model,
        "file": f"models/{model or '_default'}.toml",
        "aliases": (),
        "provider": "up",
        "upstream_model": None,
        "context_limit": 100,
        "max_output": None,
        "reply_reserve": 10,
        "tokenizer": "words",
        "context_strategy": "truncate",
        "cut_step": 0.0,
        "safety_margin": 0.05,
        "message_shape": "as-is",
        "fallbacks": (),
        "prompt": None,
        "sources": {"reply_reserve": "default", "context_limit": "file here"},
    }
    return ModelConfig(**(values | changes))


def encoded(value: Any) -> bytes:
    """JSON without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


def chat_message(wire: Mapping[str, Any], marks: Marks | None = None, message_id: str | None = None) -> ChatMessage:
    """A message as a reader would make it, without fields of the gateway's own."""
    raw = encoded(wire)
    return ChatMessage(raw, raw, wire, str(wire.get("role")), text_of(wire), tool_links(wire), message_id, marks or Marks())


def chat_request(messages: Sequence[Mapping[str, Any] | ChatMessage], **changes: Any) -> ChatRequest:
    """A request with these messages for the model `m`; `body` holds further top-level fields."""
    made = [message if isinstance(message, ChatMessage) else chat_message(message) for message in messages]
    model = changes.pop("model", "m")
    more = changes.pop("body", {})
    raw = {"model": encoded(model), "messages": b"[" + b",".join(message.raw for message in made) + b"]"}
    fields = {**raw, **{key: encoded(value) for key, value in more.items()}}
    body = b"{" + b", ".join(encoded(key) + b": " + value for key, value in fields.items()) + b"}"
    return ChatRequest(**({"model": model, "messages": made, "fields": fields, "body": body, "untouched": True} | changes))


def turns(count: int, words_each: int = 8) -> list[dict[str, Any]]:
    """A conversation of so many messages, user and assistant by turns, the last one from the user."""
    text = " ".join(["word"] * words_each)
    roles = ("user", "assistant") if count % 2 else ("assistant", "user")
    return [{"role": roles[index % 2], "content": text} for index in range(count)]


def prepared_prompt(request: ChatRequest | None = None, **changes: Any) -> PreparedPrompt:
    """A prompt of two short messages that just fits, unless changed."""
    request = request or chat_request([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}])
    values: dict[str, Any] = {
        "request": request,
        "provider": "up",
        "model": request.model,
        "configured": request.model,
        "upstream_model": request.model,
        "strategy": "truncate",
        "tokenizer": "words",
        "approximate": False,
        "budget": ContextBudget(100, 10, 5),
        "prompt_tokens": 90,
        "prompt_tokens_before": 120,
        "blocks": [],
        "messages": request.messages,
        "kept": range(len(request.messages)),
        "report": "off",
    }
    values |= changes
    values.setdefault("excluded", [block for block in values["blocks"] if not block.included])
    return PreparedPrompt(**values)
