"""What is true of the store in memory alone; the contract is in tests/families."""

from __future__ import annotations

import asyncio

from gateway.stores.base import AuditHead, AuditKey
from gateway.stores.memory import MemoryStore


def test_nothing_outlives_the_closing() -> None:
    async def story() -> None:
        store = MemoryStore()
        await store.open()
        await store.replace(AuditHead(AuditKey("", "chat", "g1"), "gpt-4o", 1.0, b"{}"), b"[]")
        await store.aclose()
        await store.open()
        assert await store.latest("", "chat") is None

    asyncio.run(story())


def test_opening_again_forgets_nothing() -> None:
    async def story() -> None:
        store = MemoryStore()
        await store.open()
        await store.replace(AuditHead(AuditKey("", "chat", "g1"), "gpt-4o", 1.0, b"{}"), b"[]")
        await store.open()
        assert await store.latest("", "chat") is not None

    asyncio.run(story())
