"""The story of the product: a chat request is fitted, remembered, sent (again, if it was too long), its reply handed over.

Every way out finishes the audit, once. Knows no HTTP, no JSON spelling and no store.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Mapping

from gateway.chat import ChatRequest
from gateway.errors import GatewayError, Internal, ProviderContextOverflow
from gateway.preparation import PromptPreparer
from gateway.prepared import PreparedPrompt
from gateway.providers.base import OutgoingRequest, Provider, Reply
from gateway.recorder import AuditRecorder, OpenAudit, WhyCancelled
from gateway.recovery import OverflowRecovery
from gateway.telemetry import Telemetry

_log = logging.getLogger(__name__)


class Generation:
    """An open reply with its audit. Whoever holds it closes it by `aclose`."""

    def __init__(self, prepared: PreparedPrompt, audit: OpenAudit, reply: Reply, whole: bytes = b"") -> None:
        """`whole`: an answer that has been read already."""
        self.prepared = prepared
        self.audit = audit
        self.streamed = reply.streamed
        self._reply = reply
        self._whole = whole

    async def read(self) -> bytes:
        """The next bytes for the client, b"" after the end. The audit is finished before the last of them is given out."""
        try:
            data, self._whole = self._whole or await self._reply.read(), b""
        except GatewayError as error:
            explained = self.prepared.explained(error)
            await self.audit.fail(explained, usage=self._reply.usage)
            raise explained from error
        except Exception as error:  # a defect must leave neither an open audit nor a stream without an end
            _log.exception("internal error while a reply was read")
            await self.audit.fail(_internal(), usage=self._reply.usage)
            raise _internal() from error
        if self._reply.ended:
            await self.audit.complete(usage=self._reply.usage, finish_reason=self._reply.finish_reason)
        return data

    async def aclose(self, error: GatewayError | None = None) -> None:
        """Ends the upstream request; an audit that is still open ends with the error, without one as a defect."""
        if not self.audit.ended:
            await self.audit.fail(error or _internal(), usage=self._reply.usage)
        await self._reply.aclose()


class GenerationFailed(Exception):
    """A generation that ended before its reply: the error, the prompt it was about and its audit's key."""

    def __init__(self, error: GatewayError, prepared: PreparedPrompt, audit: OpenAudit) -> None:
        super().__init__(error.message)
        self.error = error
        self.prepared = prepared
        self.audit = audit


class GenerationService:
    """Runs generations."""

    def __init__(
        self,
        preparer: PromptPreparer,
        recorder: AuditRecorder,
        providers: Mapping[str, Provider],
        recovery: OverflowRecovery,
        telemetry: Telemetry,
    ) -> None:
        self._preparer = preparer
        self._recorder = recorder
        self._providers = providers
        self._recovery = recovery
        self._telemetry = telemetry

    async def generate(self, request: ChatRequest, why_cancelled: WhyCancelled) -> Generation:
        """From a chat request to an open reply.

        Raises a GatewayError before anything was counted, and GenerationFailed after it.
        """
        started = time.perf_counter()
        prepared = await self._preparer.prepare(request)
        self._telemetry.fitted(prepared, time.perf_counter() - started)
        audit = self._recorder.begin(prepared)
        try:
            async with audit.finished_on_error(why_cancelled):
                await audit.open()  # before the network call
                prepared.require_fit()  # TOKEN_BUDGET_EXCEEDED; nothing is sent
                try:
                    generation = await self._opened(prepared, audit)
                except ProviderContextOverflow as overflow:
                    prepared = await self._shifted_again(prepared, overflow)
                    await audit.amend(prepared)
                    generation = await self._opened_again(prepared, audit)
        except GatewayError as error:
            raise GenerationFailed(prepared.explained(error), prepared, audit) from error
        except asyncio.CancelledError as cancelled:
            raise GenerationFailed(why_cancelled(), prepared, audit) from cancelled
        except Exception as error:  # a defect is answered with the numbers of the prompt, too
            _log.exception("internal error while a request was sent")
            raise GenerationFailed(_internal(), prepared, audit) from error
        if generation.streamed:
            self._telemetry.first_chunk(prepared, time.perf_counter() - started)
        return generation

    async def _shifted_again(self, sent: PreparedPrompt, overflow: ProviderContextOverflow) -> PreparedPrompt:
        try:
            return await self._recovery.shifted_again(sent, overflow)
        except ProviderContextOverflow:
            self._telemetry.overflowed(sent, recovered=False)
            raise

    async def _opened(self, prepared: PreparedPrompt, audit: OpenAudit) -> Generation:
        """Sends the prompt. A plain answer is read before anything of it is given out: it may be an error after all."""
        reply = await self._providers[prepared.provider].send(_outgoing(prepared))
        try:
            return Generation(prepared, audit, reply, b"" if reply.streamed else await reply.read())
        except BaseException:
            await reply.aclose()
            raise

    async def _opened_again(self, prepared: PreparedPrompt, audit: OpenAudit) -> Generation:
        """The second and last try."""
        recovered = False
        try:
            generation = await self._opened(prepared, audit)
            recovered = True
        except ProviderContextOverflow as overflow:
            await self._recovery.learn(prepared, overflow)
            raise
        finally:
            self._telemetry.overflowed(prepared, recovered=recovered)
        return generation


def _internal() -> Internal:
    return Internal("The gateway failed inside. Its log has the details.")


def _outgoing(prepared: PreparedPrompt) -> OutgoingRequest:
    request = prepared.request
    room = prepared.budget.context_limit - prepared.prompt_tokens if request.reply_limit is None else None
    return OutgoingRequest(prepared.outgoing, request.stream, request.authorization, room)
