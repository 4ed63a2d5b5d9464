"""The kinds that come with the product."""

from __future__ import annotations

import asyncio

import pytest

from gateway.providers.base import Provider, ProviderConfig
from gateway.providers.builtin import BUILTIN


@pytest.mark.parametrize("kind", BUILTIN)
def test_each_kind_makes_a_provider_of_its_config(kind: str) -> None:
    async def main() -> None:
        provider = BUILTIN[kind](ProviderConfig("p", "http://model.test/v1"))
        assert isinstance(provider, Provider)
        assert provider.name == "p"
        await provider.aclose()

    asyncio.run(main())


def test_the_kinds_are_those_of_the_configuration() -> None:
    assert list(BUILTIN) == ["openai", "litellm"]
