"""Remembers generations: an audit is opened before the network call and finished exactly once, whatever happens.

Once the provider has been called, a failing store never costs the client its answer: it is logged.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace

from gateway.audit import encode_summary
from gateway.errors import ClientCancelled, GatewayError, Internal, StoreUnavailable
from gateway.identifiers import new_id
from gateway.prepared import PreparedPrompt
from gateway.stores.base import AuditHead, AuditKey, AuditOutcome, AuditStatus, AuditStore
from gateway.telemetry import Telemetry

WhyCancelled = Callable[[], GatewayError]  # ClientCancelled or ShuttingDown

Closed = Callable[["OpenAudit", str, bytes | None], None]  # with the error's code, "" without one, and the usage

_log = logging.getLogger(__name__)


class OpenAudit:
    """The audit of a generation under way. Its first end is the one that counts."""

    def __init__(self, head: AuditHead, prepared: PreparedPrompt, store: AuditStore, closed: Closed) -> None:
        self.key = head.key
        self.ended = False
        self.code = ""  # of the error it ended with
        self.prepared = prepared
        self._head = head
        self._store = store
        self._closed = closed

    async def open(self) -> None:
        """Commits the head; the body follows. Raises StoreUnavailable, and then nothing may be sent."""
        await self._store.replace(self._head, self.prepared.body())

    async def amend(self, prepared: PreparedPrompt) -> None:
        """The prompt was shifted once more: commits what is sent now, before it is. Raises StoreUnavailable."""
        self.prepared = prepared
        self._head = replace(self._head, document=encode_summary(prepared.summary()))
        await self._store.amend(self._head, prepared.body())

    async def complete(self, *, usage: bytes | None, finish_reason: str | None) -> None:
        """The reply was whole."""
        await self._finish(AuditStatus.COMPLETED, None, usage, finish_reason)

    async def fail(self, error: GatewayError, *, usage: bytes | None = None) -> None:
        """The generation ended with an error; a client that left makes it cancelled."""
        status = AuditStatus.CANCELLED if isinstance(error, ClientCancelled) else AuditStatus.FAILED
        await self._finish(status, error.code, usage, None)

    @asynccontextmanager
    async def finished_on_error(self, why_cancelled: WhyCancelled) -> AsyncIterator[None]:
        """Every exception that leaves the block finishes the audit; only who cancels knows why, and says so when asked."""
        try:
            yield
        except GatewayError as error:
            await self.fail(error)
            raise
        except (asyncio.CancelledError, GeneratorExit):
            await self.fail(why_cancelled())
            raise
        except Exception:  # the border behind which no audit may stay open: a defect must not leave one prepared
            await self.fail(Internal("internal error"))
            raise

    async def _finish(self, status: AuditStatus, code: str | None, usage: bytes | None, finish_reason: str | None) -> None:
        if self.ended:
            return
        self.ended = True
        self.code = code or ""
        self._closed(self, self.code, usage)
        outcome = AuditOutcome(status, time.time(), code, usage, finish_reason)
        try:
            await self._store.finish(self.key, outcome)  # hands over; a cancellation doesn't take it back
        except StoreUnavailable:
            _log.error("the end of generation %s could not be stored", self.key.generation_id)


class AuditRecorder:
    """Opens audits, and knows which are still open."""

    def __init__(self, store: AuditStore, telemetry: Telemetry) -> None:
        self._store = store
        self._telemetry = telemetry
        self._open: set[OpenAudit] = set()
        self._idle = asyncio.Event()
        self._idle.set()

    def begin(self, prepared: PreparedPrompt) -> OpenAudit:
        """The audit of a generation that begins; it counts as open from now on, `OpenAudit.open` stores it."""
        generation_id = new_id("gen_")
        request = prepared.request
        asked = None if request.options.auxiliary else request.options.chat_id
        chat_id = asked or generation_id
        key = AuditKey(request.tenant or "", chat_id, generation_id)
        head = AuditHead(
            key,
            model=prepared.model,
            created_at=time.time(),
            document=encode_summary(prepared.summary()),
            auxiliary=request.options.auxiliary,
        )
        audit = OpenAudit(head, prepared, self._store, self._closed)
        self._open.add(audit)
        self._idle.clear()
        return audit

    async def wait_idle(self, seconds: float) -> bool:
        """Waits until no audit is open, at most so long; whether that came about."""
        try:
            async with asyncio.timeout(seconds):
                await self._idle.wait()
        except TimeoutError:
            return False
        return True

    def _closed(self, audit: OpenAudit, code: str, usage: bytes | None) -> None:
        self._telemetry.generated(audit.prepared, code, usage)
        self._open.discard(audit)
        if not self._open:
            self._idle.set()
