"""What benchmarks/shifting.py and prefix_reuse.py compare: shift_context, langchain's trim_messages and litellm's.

Each gets the same chats and the same budget. langchain gets messages that are ready, and the options that keep its results valid:
the system message stays, the rest starts with a user message. litellm counts by itself, as it always does.
"""

from __future__ import annotations

import logging
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from typing import Any

from langchain_core.messages import BaseMessage, convert_to_messages, trim_messages

from gateway.shifting import PromptBlock, shift_context
from gateway.shifting.blocks import block_of
from tokenizer_profiles import AdditiveProfile, Message

Chat = list[dict[str, Any]]
Trim = Callable[[Chat], Chat]
PRIMER = 3  # tokens of a prompt that belong to no message, by OpenAI's rule

WORDS = ("token", "window", "keeps", "oldest", "gateway", "reply", "seven", "rivers", "carry", "stone", "budget", "exactly")


def text(chance: random.Random, words: int) -> str:
    """Some words, about a token each."""
    return " ".join(chance.choices(WORDS, k=words))


def chat_of(size: int, seed: int) -> Chat:
    """So many messages of about 80 tokens, none like another, the first of role user."""
    chance = random.Random(seed)
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": f"{text(chance, 75)} {seed} {i}"} for i in range(size)]


def chat_with_tools(chance: random.Random) -> Chat:
    """A system message, turns of which half call one to three tools, and a question at the end."""
    chat: Chat = [{"role": "system", "content": text(chance, 10)}]
    for turn in range(chance.randrange(3, 12)):
        chat.append({"role": "user", "content": text(chance, chance.randrange(1, 40))})
        if chance.random() < 0.5:
            chat += _tool_use(chance, turn)
        chat.append({"role": "assistant", "content": text(chance, chance.randrange(1, 60))})
    return [*chat, {"role": "user", "content": text(chance, 15)}]


def _tool_use(chance: random.Random, turn: int) -> Chat:
    names = [f"call_{turn}_{i}" for i in range(chance.randrange(1, 4))]
    calls = [{"id": name, "type": "function", "function": {"name": "look", "arguments": '{"at": "stone"}'}} for name in names]
    results = [{"role": "tool", "tool_call_id": name, "content": text(chance, chance.randrange(1, 50))} for name in names]
    return [{"role": "assistant", "content": None, "tool_calls": calls}, *results]


def ours(profile: AdditiveProfile, budget: int, cut_step: float) -> Trim:
    """shift_context with a profile as its counter, which remembers the texts it has seen."""
    return lambda chat: list(shift_context(chat, profile, budget, cut_step).kept)


def plain_sum(profile: AdditiveProfile, budget: int, cut_step: float) -> Trim:
    """shift_context as docs/reference/library.md advises for long chats: what belongs to no message comes off the budget."""

    def count(messages: Sequence[Message]) -> int:
        return sum([profile.count_message(message).tokens for message in messages])

    return lambda chat: list(shift_context(chat, count, budget - profile([]), cut_step).kept)


def ready_blocks(chat: Chat, profile: AdditiveProfile) -> list[PromptBlock]:
    """The messages as blocks whose tokens are known, as the gateway has them."""
    return [replace(block_of(message, i), tokens=profile.count_message(message).tokens) for i, message in enumerate(chat)]


def ready_count(blocks: Sequence[PromptBlock]) -> int:
    """A sum of known numbers."""
    return PRIMER + sum([block.tokens or 0 for block in blocks])


def gateway(profile: AdditiveProfile, budget: int, cut_step: float) -> Trim:
    """shift_context as the gateway calls it: with blocks whose tokens are known."""

    def trim(chat: Chat) -> Chat:
        kept = shift_context(ready_blocks(chat, profile), ready_count, budget, cut_step).kept
        return [dict(block.message) for block in kept]

    return trim


class Langchain:
    """trim_messages of langchain_core over messages that are its own already, counted in one of three ways."""

    def __init__(self, chat: Chat, profile: AdditiveProfile) -> None:
        self._profile = profile
        self._messages = convert_to_messages(chat)
        for i, message in enumerate(self._messages):
            message.id = str(i)
        self._dicts = {str(i): message for i, message in enumerate(chat)}
        self._known = {name: profile.count_message(message).tokens for name, message in self._dicts.items()}
        self._of_text = cache(profile.count_text)

    def same_counter(self, messages: Sequence[BaseMessage]) -> int:
        """The very counter that shift_context is given, which remembers texts."""
        dicts = self._dicts
        return self._profile([dicts[message.id or ""] for message in messages])

    def by_text(self, messages: Sequence[BaseMessage]) -> int:
        """The count of every text behind functools.cache; tool calls cost nothing."""
        return PRIMER + sum(4 + self._of_text(str(message.content)) for message in messages)

    def known(self, messages: Sequence[BaseMessage]) -> int:
        """A sum of known numbers: the cheapest counter there can be."""
        known = self._known
        return PRIMER + sum([known[message.id or ""] for message in messages])

    def trim(self, budget: int, counter: Callable[[list[BaseMessage]], int]) -> list[BaseMessage]:
        """The messages it keeps."""
        return trim_messages(self._messages, max_tokens=budget, token_counter=counter, include_system=True, start_on="human")

    def kept(self, budget: int) -> Chat:
        """The same as the dicts they were made of."""
        return [self._dicts[message.id or ""] for message in self.trim(budget, self.known)]


def litellm(budget: int) -> Trim:
    """trim_messages of litellm for gpt-4o."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or it asks the network when it is imported
    logging.getLogger("LiteLLM").disabled = True  # a chat it can't cut comes back whole, and its log tells every time
    from litellm.utils import trim_messages as trim

    return lambda chat: list(trim(chat, model="gpt-4o", max_tokens=budget))


def litellm_tokens(chat: Chat) -> int:
    """What litellm itself counts."""
    from litellm import token_counter

    return int(token_counter(model="gpt-4o", messages=chat))


def flaw(chat: Chat, kept: Chat, tokens: int, budget: int) -> str | None:
    """What is wrong with a result of at most so many tokens: the first of four things, None when it is valid."""
    if tokens > budget:
        return "too long"
    if [message for message in chat if message["role"] == "system" and message not in kept]:
        return "system message lost or changed"
    if next(message for message in reversed(chat) if message["role"] == "user") not in kept:
        return "last question lost or changed"
    calls = [call["id"] for message in kept for call in message.get("tool_calls", ())]
    results = [message["tool_call_id"] for message in kept if message["role"] == "tool"]
    return None if calls == results else "call without result or result without call"
