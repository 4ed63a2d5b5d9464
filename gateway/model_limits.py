"""The limits of models, asked from their upstream where no file names them and kept for a while; and what overflows taught."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import replace

from gateway.learned import NOTHING
from gateway.learned_limits import LearnedLimits
from gateway.model_catalog import Limits, ModelConfig, effective_limits
from gateway.providers.base import Provider

KNOWN_S = 300.0  # so long an answer of the upstream holds
UNKNOWN_S = 10.0  # so long it isn't asked again when it named none


class ModelLimits:
    """The limits port of the preparation."""

    def __init__(
        self,
        providers: Mapping[str, Provider],
        learned: LearnedLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._providers = providers
        self._learned = learned
        self._clock = clock
        self._asked: dict[tuple[str, str], tuple[int | None, float]] = {}
        self._asking: dict[tuple[str, str], asyncio.Task[int | None]] = {}

    async def limits(self, config: ModelConfig, upstream_model: str, authorization: str | None = None) -> Limits:
        """See LimitsPort.limits."""
        limits = await self._named(config, upstream_model)
        if self._learned is None or not self._learned.any:
            return limits
        account = self._providers[config.provider].account(authorization)
        learned = self._learned.of(config.provider, upstream_model, account)
        return limits if learned == NOTHING else replace(limits, learned=learned)

    async def _named(self, config: ModelConfig, upstream_model: str) -> Limits:
        if config.context_limit is not None:
            return effective_limits(config, None, upstream_model)
        asked = await self._ask(config.provider, upstream_model)
        if asked is not None:
            return effective_limits(config, asked, upstream_model)
        return await asyncio.to_thread(effective_limits, config, None, upstream_model)  # may read the catalogue's file

    async def _ask(self, provider: str, model: str) -> int | None:
        key = (provider, model)
        known, until = self._asked.get(key, (None, 0.0))
        if self._clock() < until:
            return known
        task = self._asking.get(key)
        if task is None:
            task = asyncio.get_running_loop().create_task(self._providers[provider].context_limit(model))
            self._asking[key] = task
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        found = await asyncio.shield(task)
        self._asked[key] = (found, self._clock() + (UNKNOWN_S if found is None else KNOWN_S))
        return found
