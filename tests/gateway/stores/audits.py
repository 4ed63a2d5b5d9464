"""A small audit, and a store that is open for as long as a test needs it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from gateway.stores.base import AuditHead, AuditKey, AuditOutcome, AuditStatus
from gateway.stores.sqlite import SqliteStore

COMPLETED = AuditOutcome(AuditStatus.COMPLETED, 2.0)


def head(chat: str, generation: str = "g1", model: str = "gpt-4o") -> AuditHead:
    """The head of a generation."""
    return AuditHead(AuditKey("", chat, generation), model, 1.0, b"{}")


@asynccontextmanager
async def opened(path: Path) -> AsyncIterator[SqliteStore]:
    """A store, closed at the end."""
    store = SqliteStore(path)
    await store.open()
    try:
        yield store
    finally:
        await store.aclose()
