"""Counts prompts for the preparation: finds a model's tokenizer profile and remembers the tokens of every message it has seen.

So one more turn of a long chat costs its new text alone. Knows nothing of budgets.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from gateway.chat import ChatMessage, ChatRequest
from gateway.json_reading import read_json
from gateway.model_catalog import ModelConfig
from gateway.preparation import Counted
from gateway.recent import Recent
from tokenizer_profiles.base import AdditiveProfile, PromptCount, TokenizerProfile
from tokenizer_profiles.builtin import APPROXIMATE
from tokenizer_profiles.errors import ProfileDataMissing
from tokenizer_profiles.kinds import Ask
from tokenizer_profiles.registry import ProfileRegistry

METERED = ("tools", "tool_choice", "functions", "function_call", "parallel_tool_calls", "response_format")
OFF_LOOP_BYTES = 64 * 1024  # more new text than this is counted in a thread
_MEMORY_BYTES = 2 * 1024 * 1024
_log = logging.getLogger(__name__)


class PromptCounting:
    """The counting port of the preparation."""

    def __init__(self, registry: ProfileRegistry, asks: Mapping[str, Ask]) -> None:
        """`asks` are the ways to the servers of the configured providers, for profiles that count there."""
        self._registry = registry
        self._asks = asks
        self._profiles: dict[tuple[str, str, str], TokenizerProfile] = {}
        self._requests: Recent[tuple[bytes | str, ...], PromptCount] = Recent(_MEMORY_BYTES)

    async def count(
        self, config: ModelConfig, upstream_model: str, request: ChatRequest, messages: Sequence[ChatMessage]
    ) -> Counted:
        """See CountingPort.count."""
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

    async def _add_up(
        self, profile: AdditiveProfile, name: str, request: ChatRequest, messages: Sequence[ChatMessage]
    ) -> PromptCount:
        fixed = await self._fixed(profile, name, request)
        try:
            counts = [message.counts[name] for message in messages]
        except KeyError:
            await _count_new(profile, name, [message for message in messages if name not in message.counts])
            counts = [message.counts[name] for message in messages]
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


async def _count_new(profile: AdditiveProfile, name: str, messages: Sequence[ChatMessage]) -> None:
    """Counts messages that nobody has counted yet; much text in a thread."""

    def count_all() -> None:
        for message in messages:
            message.counts[name] = profile.count_message(message.message)

    if sum(len(message.raw) for message in messages) > OFF_LOOP_BYTES:
        await asyncio.to_thread(count_all)
    else:
        count_all()
