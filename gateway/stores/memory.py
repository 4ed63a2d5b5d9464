"""The store that forgets: audits in a dict, for trying out and for tests. Knows one process only and writes nothing anywhere.

It grows with the number of chats and the size of their prompts; `purge` (retention) is its only bound. What it holds is gone
after `aclose`, so no audit of a dead process is ever found in it. Several workers would each see their own chats.
"""

from __future__ import annotations

from gateway.errors import StoreUnavailable
from gateway.stores.base import AuditHead, AuditKey, AuditOutcome, AuditStore, StoredAudit, UnknownStore

Chat = tuple[str, str]


class MemoryStore(AuditStore):
    """The latest audits, as long as the process lives."""

    def __init__(self) -> None:
        self._audits: dict[Chat, StoredAudit] | None = None

    @classmethod
    def from_url(cls, url: str) -> MemoryStore:
        """The store for `memory:`; it takes no path."""
        if url != "memory:":
            raise UnknownStore("A store in memory has no path: write memory: alone")
        return cls()

    async def open(self) -> None:
        """Starts empty, unless it is open already."""
        if self._audits is None:
            self._audits = {}

    async def aclose(self) -> None:
        """Forgets everything."""
        self._audits = None

    async def replace(self, head: AuditHead, body: bytes) -> None:
        """Makes this the chat's audit."""
        self._opened()[head.key.tenant, head.key.chat_id] = StoredAudit(head, None, body)

    async def finish(self, key: AuditKey, outcome: AuditOutcome) -> None:
        """Ends a prepared audit of exactly this generation."""
        audits = self._opened()
        audit = audits.get((key.tenant, key.chat_id))
        if audit is not None and audit.head.key == key and audit.outcome is None:
            audits[key.tenant, key.chat_id] = audit.ended(outcome)

    async def latest(self, tenant: str, chat_id: str) -> StoredAudit | None:
        """The chat's audit."""
        return self._opened().get((tenant, chat_id))

    async def delete_chat(self, tenant: str, chat_id: str) -> bool:
        """Deletes a chat with its audit."""
        return self._opened().pop((tenant, chat_id), None) is not None

    async def purge(self, before: float) -> int:
        """Deletes audits created before this time."""
        audits = self._opened()
        old = [chat for chat, audit in audits.items() if audit.head.created_at < before]
        for chat in old:
            del audits[chat]
        return len(old)

    async def check(self) -> None:
        """Fails only when the store isn't open."""
        self._opened()

    def _opened(self) -> dict[Chat, StoredAudit]:
        if self._audits is None:
            raise StoreUnavailable("The audit store is not open.")
        return self._audits
