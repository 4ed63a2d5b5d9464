"""The store that forgets: audits in a dict, for trying out and for tests. Knows one process only and writes nothing anywhere.

It grows with the number of chats and the size of their prompts; `purge` (retention) is its only bound. What it holds is gone
after `aclose`, so no audit of a dead process is ever found in it. Several workers would each see their own chats.
"""

from __future__ import annotations

import time

from gateway.errors import StoreUnavailable
from gateway.learned import Lesson
from gateway.stores.base import (
    AuditHead,
    AuditKey,
    AuditOutcome,
    AuditStatus,
    AuditStore,
    Place,
    StoredAudit,
    StoredChat,
    UnknownStore,
)

Chat = tuple[str, str]


class MemoryStore(AuditStore):
    """The latest audits, as long as the process lives."""

    def __init__(self) -> None:
        self._audits: dict[Chat, StoredAudit] | None = None
        self._began: dict[Chat, float] = {}
        self._lessons: dict[tuple[str, str, str], Lesson] = {}

    @classmethod
    def from_url(cls, url: str) -> MemoryStore:
        """The store for `memory:`; it takes no path."""
        if url != "memory:":
            raise UnknownStore("A store in memory has no path: write memory: alone")
        return cls()

    @property
    def present(self) -> bool:
        """Nothing of another process is ever here."""
        return self._audits is not None

    async def open(self) -> None:
        """Starts empty, unless it is open already."""
        if self._audits is None:
            self._audits = {}

    async def aclose(self) -> None:
        """Forgets everything."""
        self._audits = None
        self._lessons.clear()

    async def replace(self, head: AuditHead, body: bytes) -> None:
        """Makes this the chat's audit."""
        audits, chat = self._opened(), (head.key.tenant, head.key.chat_id)
        if chat not in audits:
            self._began[chat] = head.created_at
        audits[chat] = StoredAudit(head, None, body)

    async def amend(self, head: AuditHead, body: bytes) -> None:
        """Changes a prepared audit of exactly this generation."""
        audits = self._opened()
        audit = audits.get((head.key.tenant, head.key.chat_id))
        if audit is not None and audit.head.key == head.key and audit.outcome is None:
            audits[head.key.tenant, head.key.chat_id] = StoredAudit(head, None, body)

    async def finish(self, key: AuditKey, outcome: AuditOutcome) -> None:
        """Ends a prepared audit of exactly this generation."""
        audits = self._opened()
        audit = audits.get((key.tenant, key.chat_id))
        if audit is not None and audit.head.key == key and audit.outcome is None:
            audits[key.tenant, key.chat_id] = audit.ended(outcome)

    async def latest(self, tenant: str, chat_id: str) -> StoredAudit | None:
        """The chat's audit."""
        return self._opened().get((tenant, chat_id))

    async def chat(self, tenant: str, chat_id: str) -> StoredChat | None:
        """A chat without its audit."""
        audit = self._opened().get((tenant, chat_id))
        return None if audit is None else self._listed(audit)

    async def chats(self, tenant: str, limit: int, before: Place | None = None) -> list[StoredChat]:
        """The chats of a tenant."""
        audits = [audit for (owner, _), audit in self._opened().items() if owner == tenant and not audit.head.auxiliary]
        chats = sorted(map(self._listed, audits), key=lambda chat: chat.place, reverse=True)
        return [chat for chat in chats if before is None or chat.place < before][:limit]

    async def delete_chat(self, tenant: str, chat_id: str) -> bool:
        """Deletes a chat with its audit."""
        self._began.pop((tenant, chat_id), None)
        return self._opened().pop((tenant, chat_id), None) is not None

    async def purge(self, before: float) -> int:
        """Deletes audits created before this time, and lessons that have expired."""
        audits, now = self._opened(), time.time()
        self._lessons = {subject: lesson for subject, lesson in self._lessons.items() if lesson.expires_at > now}
        old = [chat for chat, audit in audits.items() if audit.head.created_at < before]
        for chat in old:
            del audits[chat], self._began[chat]
        return len(old)

    async def learn(self, lesson: Lesson, now: float) -> None:
        """Keeps a lesson."""
        self._opened()
        subject = (lesson.provider, lesson.model, lesson.account)
        self._lessons[subject] = lesson.after(self._lessons.get(subject), now)

    async def lessons(self, now: float) -> list[Lesson]:
        """The lessons that haven't expired."""
        self._opened()
        return [self._lessons[subject] for subject in sorted(self._lessons) if self._lessons[subject].expires_at > now]

    async def check(self) -> None:
        """Fails only when the store isn't open."""
        self._opened()

    def _listed(self, audit: StoredAudit) -> StoredChat:
        head, key = audit.head, audit.head.key
        status = AuditStatus.PREPARED if audit.outcome is None else audit.outcome.status
        began = self._began[key.tenant, key.chat_id]
        return StoredChat(key.chat_id, began, head.created_at, head.model, status, key.generation_id)

    def _opened(self) -> dict[Chat, StoredAudit]:
        if self._audits is None:
            raise StoreUnavailable("The audit store is not open.")
        return self._audits
