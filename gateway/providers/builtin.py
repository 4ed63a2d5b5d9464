"""The kinds of provider that come with the product, by the name that stands in the configuration."""

from __future__ import annotations

from collections.abc import Callable

from gateway.providers.base import Provider, ProviderConfig
from gateway.providers.openai_compatible import OpenAICompatibleProvider

ProviderFactory = Callable[[ProviderConfig], Provider]


def _litellm(config: ProviderConfig) -> Provider:
    from gateway.providers.litellm import LitellmProvider

    return LitellmProvider(config)


BUILTIN: dict[str, ProviderFactory] = {
    "openai": OpenAICompatibleProvider,
    "litellm": _litellm,  # its modules are imported where it is configured
}
