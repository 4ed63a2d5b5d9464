"""What the tests of every store share: where each one lies, audits to put in, and a way to run a story with one."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from gateway.stores.base import AuditHead, AuditKey, AuditOutcome, AuditStatus, AuditStore
from gateway.stores.builtin import open_store
from tests.support.postgresql_server import running

URLS: dict[str, Callable[[Path], str]] = {  # every scheme on the list needs its line; an empty store each time
    "memory": lambda folder: "memory:",
    "postgresql": lambda folder: running().new_url(),
    "sqlite": lambda folder: f"sqlite:///{folder}/audits.db",
}

COMPLETED = AuditOutcome(AuditStatus.COMPLETED, 20.5, None, b'{"total_tokens": 3}', "stop")
FAILED = AuditOutcome(AuditStatus.FAILED, 21.0, "PROVIDER_TIMEOUT")


def head(generation: str, *, chat: str = "chat", tenant: str = "", created: float = 10.0, auxiliary: bool = False) -> AuditHead:
    """What is committed first."""
    return AuditHead(AuditKey(tenant, chat, generation), "gpt-4o", created, b'{"of": "%s"}' % generation.encode(), auxiliary)


def body(generation: str) -> bytes:
    """What follows, with bytes that are no text."""
    return b"body of " + generation.encode() + b"\x00\xff"


async def replace(store: AuditStore, new: AuditHead) -> None:
    """Puts a head with its body."""
    await store.replace(new, body(new.key.generation_id))


async def using(scheme: str, folder: Path, story: Callable[[AuditStore], Awaitable[None]]) -> None:
    """Runs a story with a store that is open, and closes it."""
    store = open_store(URLS[scheme](folder))
    await store.open()
    try:
        await story(store)
    finally:
        await store.aclose()


Tell = Callable[[Callable[[AuditStore], Awaitable[None]]], None]
