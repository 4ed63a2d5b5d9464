"""The contract of a store: the latest audit per chat, and what overflows taught. It doesn't look into the documents it keeps.

Keys are (tenant, chat id); the tenant of anonymous requests is "". Order of calls from one process is the order of their
effect: a read sees every write handed over before it. A store raises only `StoreUnavailable`, also before `open` and after
`aclose`. It belongs to the event loop that opened it. A caller that is cancelled while it waits doesn't take its write back.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from enum import StrEnum

from gateway.learned import Lesson


class AuditStatus(StrEnum):
    """Where a generation stands. `prepared` is the only one that still changes."""

    PREPARED = "prepared"
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True)
class AuditKey:
    """Which generation of which chat."""

    tenant: str
    chat_id: str
    generation_id: str


@dataclass(frozen=True, slots=True)
class AuditHead:
    """What is committed before the network call."""

    key: AuditKey
    model: str
    created_at: float  # seconds since the epoch
    document: bytes  # JSON object: everything known by then but the blocks
    auxiliary: bool = False  # kept under its generation id, not listed among the chats


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """How a generation ended."""

    status: AuditStatus
    finished_at: float
    error_code: str | None = None
    usage: bytes | None = None  # the provider's usage object, raw JSON
    finish_reason: str | None = None


@dataclass(frozen=True, slots=True)
class StoredAudit:
    """An audit as it lies in the store; `outcome` is None while it is prepared, `body` until it has been written."""

    head: AuditHead
    outcome: AuditOutcome | None
    body: bytes | None

    def ended(self, outcome: AuditOutcome) -> StoredAudit:
        """The same audit with its end."""
        return replace(self, outcome=outcome)


@dataclass(frozen=True, slots=True)
class StoredChat:
    """A chat as it stands in a list. Times are seconds since the epoch."""

    chat_id: str
    created_at: float  # when its first request began
    updated_at: float  # when its latest request began, which is what lists go by
    model: str
    status: AuditStatus
    generation_id: str

    @property
    def place(self) -> Place:
        """Where it stands in a list: the later, the nearer to the start."""
        return (self.updated_at, self.chat_id)


Place = tuple[float, str]


class UnknownStore(ValueError):
    """No store answers to this URL; the text says which URLs there are and shows nothing of this one but its scheme."""


class AuditStore(ABC):
    """Where the latest audit of every chat lives."""

    @property
    @abstractmethod
    def present(self) -> bool:
        """Whether there is something to read before `open` would make it."""

    @abstractmethod
    async def open(self) -> None:
        """Makes the store ready: migrations; audits that a dead process left `prepared` become failed, GATEWAY_RESTARTED."""

    @abstractmethod
    async def aclose(self) -> None:
        """Writes what is handed over, then closes. Safe without `open`, and twice."""

    @abstractmethod
    async def replace(self, head: AuditHead, body: bytes) -> None:
        """Makes this the chat's audit, whatever it held before. Returns when the head is committed; the body follows at once.

        A body that comes too late, because the chat was deleted or replaced meanwhile, is dropped. The bytes of
        bodies that aren't written yet are bounded: beyond the bound it waits its turn.
        """

    @abstractmethod
    async def amend(self, head: AuditHead, body: bytes) -> None:
        """Puts another document and body into the prepared audit of exactly this generation, which was shifted once more.

        Changes nothing when the chat was deleted, holds another generation or has ended. Returns as `replace` does.
        """

    @abstractmethod
    async def finish(self, key: AuditKey, outcome: AuditOutcome) -> None:
        """Ends a prepared audit. Changes nothing when the chat was deleted, holds another generation or has ended already.

        Returns when the write is handed over, not when it is committed.
        """

    @abstractmethod
    async def latest(self, tenant: str, chat_id: str) -> StoredAudit | None:
        """The chat's audit."""

    @abstractmethod
    async def chat(self, tenant: str, chat_id: str) -> StoredChat | None:
        """A chat without its audit; an auxiliary one is a chat under its generation id, too."""

    @abstractmethod
    async def chats(self, tenant: str, limit: int, before: Place | None = None) -> list[StoredChat]:
        """At most so many chats of a tenant, the last updated first; those that stand after a place. No auxiliary ones."""

    @abstractmethod
    async def delete_chat(self, tenant: str, chat_id: str) -> bool:
        """Deletes a chat with its audit; a generation under way doesn't bring it back. False when there was none."""

    @abstractmethod
    async def purge(self, before: float) -> int:
        """Deletes audits created before this time (seconds since the epoch), gives their number; and expired lessons."""

    @abstractmethod
    async def learn(self, lesson: Lesson, now: float) -> None:
        """Keeps a lesson on top of the one of the same subject (`Lesson.after`). Returns when it is committed."""

    @abstractmethod
    async def lessons(self, now: float) -> list[Lesson]:
        """The lessons that haven't expired, by provider, model and account."""

    @abstractmethod
    async def check(self) -> None:
        """Raises StoreUnavailable when the store can't be written."""
