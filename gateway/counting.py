"""Counts prompts for the preparation: finds a model's tokenizer profile and remembers the tokens of every message it has seen.

So one more turn of a long chat costs its new text alone. Messages are counted in the shape in which they are sent. Knows nothing
of budgets.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from gateway.chat import ChatMessage, ChatRequest, Diagnostic, made_message
from gateway.fitting import Counted, Sent
from gateway.json_reading import read_json
from gateway.model_catalog import ModelConfig
from gateway.recent import Recent
from gateway.shaping import Shaped, is_changed, remarks, shaped
from tokenizer_profiles.base import AdditiveProfile, PromptCount, TokenCount, TokenizerProfile
from tokenizer_profiles.builtin import APPROXIMATE
from tokenizer_profiles.errors import ProfileDataMissing
from tokenizer_profiles.kinds import Ask
from tokenizer_profiles.registry import ProfileRegistry

METERED = ("tools", "tool_choice", "functions", "function_call", "parallel_tool_calls", "response_format")
OFF_LOOP_BYTES = 64 * 1024  # more new text than this is counted in a thread
_MEMORY_BYTES = 2 * 1024 * 1024
_JOINED_BYTES = 8 * 1024 * 1024  # of messages that a shape made
_OVERHEAD = 1200  # bytes that a remembered message takes besides its text
_log = logging.getLogger(__name__)


class PromptCounting:
    """The counting port of the preparation."""

    def __init__(self, registry: ProfileRegistry, asks: Mapping[str, Ask]) -> None:
        """`asks` are the ways to the servers of the configured providers, for profiles that count there."""
        self._registry = registry
        self._asks = asks
        self._profiles: dict[tuple[str, str, str], TokenizerProfile] = {}
        self._requests: Recent[tuple[bytes | str, ...], PromptCount] = Recent(_MEMORY_BYTES)
        self._made: Recent[tuple[bytes, ...], ChatMessage] = Recent(_JOINED_BYTES)

    async def count(
        self, config: ModelConfig, upstream_model: str, request: ChatRequest, messages: Sequence[ChatMessage]
    ) -> Counted:
        """See CountingPort.count."""
        if config.message_shape == "as-is":
            return await self._count(config, upstream_model, request, messages)
        found = shaped([message.message for message in messages], config.message_shape)
        if not is_changed(found):
            counted = await self._count(config, upstream_model, request, messages)
            return replace(counted, additive=False, alone=counted.prompt.messages if counted.additive else None)
        made = [self._made_of(one, messages) for one in found]
        counted = await self._count(config, upstream_model, request, made)
        told = [Diagnostic("shape", level, code, text) for level, code, text in remarks(found, config.message_shape)]
        sent = Sent(made, [one.sources for one in found], tuple(told))
        weights = await self._weights(config, upstream_model, messages, sent)
        prompt = spread(counted.prompt, sent.sources, weights)
        return replace(counted, additive=False, prompt=prompt, alone=weights if counted.additive else None, sent=sent)

    async def _count(
        self, config: ModelConfig, upstream_model: str, request: ChatRequest, messages: Sequence[ChatMessage]
    ) -> Counted:
        profile = await self.ready_profile(config, upstream_model)
        if isinstance(profile, AdditiveProfile):
            prompt = await self._add_up(profile, f"{profile.name} {upstream_model}", request, messages)
            return Counted(_shown(profile, config), profile.approximate, additive=True, prompt=prompt)
        others = {key: read_json(raw) for key, raw in request.fields.items() if key != "messages"}
        prompt = await profile.count_prompt([message.message for message in messages], others)
        estimated = profile.approximate or prompt.template.approximate
        return Counted(_shown(profile, config), estimated, additive=False, prompt=prompt)

    def alone(self, config: ModelConfig, upstream_model: str, message: Mapping[str, Any]) -> int:
        """See CountingPort.alone."""
        profile = self._profile(config, upstream_model)
        if not isinstance(profile, AdditiveProfile):
            profile = self._registry.resolve(APPROXIMATE, upstream_model)
        return profile.count_message(message).tokens if isinstance(profile, AdditiveProfile) else 0

    async def ready_profile(self, config: ModelConfig, upstream_model: str) -> TokenizerProfile:
        """The profile of a model, loaded; the approximate one, which says so in every answer, where its data is missing."""
        profile = self._profile(config, upstream_model)
        if not profile.loaded:
            try:
                await asyncio.to_thread(profile.load)
            except ProfileDataMissing as error:
                _log.warning("%s is counted approximately: %s", config.file, error)
                profile = self._registry.resolve(APPROXIMATE, upstream_model)
                self._profiles[config.tokenizer, upstream_model, config.provider] = profile
        return profile

    def _profile(self, config: ModelConfig, upstream_model: str) -> TokenizerProfile:
        """One for each model, since prices of images differ and servers too."""
        key = (config.tokenizer, upstream_model, config.provider)
        profile = self._profiles.get(key)
        if profile is None:
            profile = self._registry.resolve(_located(config), upstream_model, self._asks.get(config.provider))
            self._profiles[key] = profile
        return profile

    def _made_of(self, one: Shaped, messages: Sequence[ChatMessage]) -> ChatMessage:
        """A message of a shape: the one it is, or one that is remembered by those it is made of."""
        if len(one.sources) == 1:
            return messages[one.sources[0]]
        key = tuple([messages[at].outgoing for at in one.sources])
        found = self._made.get(key)
        if found is None:
            found = made_message(one.message, "shape")
            self._made.put(key, found, 3 * len(found.raw) + _OVERHEAD)
        return found

    async def _weights(
        self, config: ModelConfig, upstream_model: str, messages: Sequence[ChatMessage], sent: Sent
    ) -> Sequence[TokenCount]:
        """What each message costs by itself: estimated, and only where it is joined, for a model that counts whole prompts."""
        profile = await self.ready_profile(config, upstream_model)
        if isinstance(profile, AdditiveProfile):
            return await _each(profile, f"{profile.name} {upstream_model}", messages)
        joined = [at for places in sent.sources if len(places) > 1 for at in places]
        rough = self._registry.resolve(APPROXIMATE, upstream_model)
        some = [messages[at] for at in joined]
        found = await _each(rough, f"{rough.name} {upstream_model}", some) if isinstance(rough, AdditiveProfile) else ()
        known = dict(zip(joined, found, strict=False))
        return [known.get(at, TokenCount(0)) for at in range(len(messages))]

    async def _add_up(
        self, profile: AdditiveProfile, name: str, request: ChatRequest, messages: Sequence[ChatMessage]
    ) -> PromptCount:
        fixed = await self._fixed(profile, name, request)
        counts = await _each(profile, name, messages)
        return PromptCount(tuple(counts), fixed.tools, fixed.response_format, fixed.template)

    async def _fixed(self, profile: AdditiveProfile, name: str, request: ChatRequest) -> PromptCount:
        """What is not in messages: tools, formats, the reply's primer."""
        metered = {key: request.fields[key] for key in METERED if key in request.fields}
        memory_key: tuple[bytes | str, ...] = (name, *metered, *metered.values())
        found = self._requests.get(memory_key)
        if found is None:
            parsed = {key: read_json(raw) for key, raw in metered.items()}
            size = sum(map(len, metered.values()))
            large = size > OFF_LOOP_BYTES
            found = await asyncio.to_thread(profile.count_request, parsed) if large else profile.count_request(parsed)
            self._requests.put(memory_key, found, size + 300)
        return found


def _located(config: ModelConfig) -> str:
    """The profile's name, with the path of its folder or file as the working directory sees it."""
    kind, colon, path = config.tokenizer.partition(":")
    return f"{kind}:{config.beside(path)}" if colon else config.tokenizer


def _shown(profile: TokenizerProfile, config: ModelConfig) -> str:
    """What clients are told: of a profile with a path what the model file calls it, not where that lies on this machine."""
    kind, colon, _ = config.tokenizer.partition(":")
    return config.tokenizer if colon and profile.name.startswith(f"{kind}:") else profile.name


def spread(prompt: PromptCount, sources: Sequence[tuple[int, ...]], weights: Sequence[TokenCount]) -> PromptCount:
    """The count of shaped messages, told of the messages they are made of: one that is joined has its share, by weight."""
    counts = [TokenCount(0)] * len(weights)
    template = prompt.template
    for count, places in zip(prompt.messages, sources, strict=True):
        if not places:
            template = TokenCount(template.tokens + count.tokens, template.approximate or count.approximate)
        for at, share in zip(places, _shares(count.tokens, [weights[at].tokens for at in places]), strict=True):
            counts[at] = TokenCount(share, count.approximate or len(places) > 1)
    return replace(prompt, messages=tuple(counts), template=template, exact_total=not prompt.approximate)


def _shares(total: int, weights: Sequence[int]) -> list[int]:
    """A number split by weight into whole numbers that add up to it; evenly where nothing weighs anything."""
    given = list(weights) if any(weights) else [1] * len(weights)
    sums = [0, *itertools.accumulate(given)]
    return [total * after // sums[-1] - total * before // sums[-1] for before, after in itertools.pairwise(sums)]


async def _each(profile: AdditiveProfile, name: str, messages: Sequence[ChatMessage]) -> Sequence[TokenCount]:
    """The tokens of each message by itself."""
    try:
        return [message.counts[name] for message in messages]
    except KeyError:
        await _count_new(profile, name, [message for message in messages if name not in message.counts])
        return [message.counts[name] for message in messages]


async def _count_new(profile: AdditiveProfile, name: str, messages: Sequence[ChatMessage]) -> None:
    """Counts messages that nobody has counted yet; much text in a thread."""

    def count_all() -> None:
        for message in messages:
            message.counts[name] = profile.count_message(message.message)

    if sum(len(message.raw) for message in messages) > OFF_LOOP_BYTES:
        await asyncio.to_thread(count_all)
    else:
        count_all()
