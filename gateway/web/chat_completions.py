"""POST /v1/chat/completions: reads the request, tells the story to run, and sends the answer, plain or streamed.

An ASGI class with its own send loop: a streaming response of the framework costs more than everything else here together, and
this way one holder owns the generation and closes it whatever happens.
"""

from __future__ import annotations

import asyncio

from gateway.errors import ClientCancelled, GatewayError, MethodNotAllowed, ShuttingDown
from gateway.generation import Generation, GenerationFailed
from gateway.web.asgi import Receive, Scope, Send, lower_headers, respond
from gateway.web.client_watch import ClientWatch
from gateway.web.context_headers import context_headers, report_field, with_report
from gateway.web.error_responses import send_error
from gateway.web.request_body import read_body, require_json
from gateway.web.rooms import Rooms
from gateway.web.sse import EventStream


class ChatCompletions:
    """The endpoint."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["method"] != "POST":
            raise MethodNotAllowed("This path takes POST only.", metadata={"allowed": "POST"})
        try:
            await self._answer(scope, receive, send)
        except GenerationFailed as failed:
            scope["state"]["code"] = failed.error.code
            if isinstance(failed.error, ClientCancelled):
                raise failed.error from failed
            extra = context_headers(failed.prepared, failed.audit.key)
            await send_error(
                send,
                failed.error,
                extra,
                overflow_code=self._rooms.engine.settings.clients.overflow_code,
                generation_id=failed.audit.key.generation_id,
            )

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        headers = lower_headers(scope)
        require_json(headers.get("content-type", ""))
        if self._rooms.draining:
            raise ShuttingDown("The gateway is shutting down and takes no new work. Try again.")
        engine, client = self._rooms.engine, scope["state"]["client"]
        settings = engine.settings
        body = await read_body(receive, headers, settings.server.max_body_bytes)
        names = settings.clients.chat_id_headers
        request = self._rooms.reader.read(body, headers, names, client.tenant, client.authorization)
        with ClientWatch(receive) as watch:
            try:
                generation = await engine.generations.generate(request, watch.why_cancelled)
                await self._send(generation, watch, send)
                scope["state"]["code"] = generation.audit.code
            except asyncio.CancelledError:
                _uncancel()
                raise watch.why_cancelled() from None
            except GenerationFailed as failed:
                if isinstance(failed.__cause__, asyncio.CancelledError):
                    _uncancel()
                raise

    async def _send(self, generation: Generation, watch: ClientWatch, send: Send) -> None:
        try:
            key = generation.audit.key
            headers = context_headers(generation.prepared, key)
            report = report_field(generation.prepared, key)
            if generation.streamed:
                await EventStream(generation, watch, headers, report).send(send)
                return
            try:
                data = await generation.read()
            except GatewayError as error:
                raise GenerationFailed(error, generation.prepared, generation.audit) from error
            watch.over()
            await respond(send, 200, with_report(data, report), headers)
        except asyncio.CancelledError as cancelled:
            why = watch.why_cancelled()
            await generation.aclose(why)
            if generation.streamed:
                raise
            raise GenerationFailed(why, generation.prepared, generation.audit) from cancelled
        finally:
            await generation.aclose()


def _uncancel() -> None:
    """The cancellation has been dealt with: the task goes on to answer, or to end in order."""
    task = asyncio.current_task()
    if task is not None:
        task.uncancel()
