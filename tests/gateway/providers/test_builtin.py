"""The kinds that come with the product."""

from __future__ import annotations

import asyncio

from gateway.providers.base import Provider, ProviderConfig
from gateway.providers.builtin import BUILTIN


def test_each_kind_makes_a_provider_of_its_config():
    async def main():
        for make in BUILTIN.values():
            provider = make(ProviderConfig("p", "http://model.test/v1"))
            assert isinstance(provider, Provider)
            assert provider.name == "p"
            await provider.aclose()

    asyncio.run(main())
    assert "openai" in BUILTIN
