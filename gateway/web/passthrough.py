"""Every other path below /v1: passed on to a provider as it came but for the model's name, neither counted nor fitted.

Its answer goes to the client chunk by chunk. Nothing is remembered of it, and of no endpoint is known what it does.
"""

from __future__ import annotations

import asyncio

import msgspec

from gateway.errors import GatewayError, MethodNotAllowed, ProviderError, ShuttingDown
from gateway.providers.base import Forwarded
from gateway.providers.forwarding import is_event_stream
from gateway.web.asgi import Receive, Scope, Send
from gateway.web.client_watch import ClientWatch
from gateway.web.error_responses import error_object
from gateway.web.passthrough_request import read_request
from gateway.web.rooms import Rooms

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"})
_UNBUFFERED = ((b"x-accel-buffering", b"no"),)
_EVENT_ENDS = (b"\n\n", b"\r\r", b"\r\n\r\n")


class Passthrough:
    """The endpoint."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answers one request."""
        if scope["method"] not in _METHODS:
            raise MethodNotAllowed("This path does not take that method.", metadata={"allowed": ", ".join(sorted(_METHODS))})
        if self._rooms.draining:
            raise ShuttingDown("The gateway is shutting down and takes no new work. Try again.")
        asked = await read_request(self._rooms.engine, scope, receive)
        with ClientWatch(asked.receive) as watch:
            try:
                answer = await asked.provider.forward(asked.request)
                try:
                    await _Answer(answer, watch, scope).send(send)
                finally:
                    await answer.aclose()
            except asyncio.CancelledError:
                task = asyncio.current_task()
                if task is not None:
                    task.uncancel()
                raise watch.why_cancelled() from None
            except ProviderError as error:
                failure = asked.upload.failure if asked.upload else None
                raise failure or error from error


class _Answer:
    """One answer on its way to the client."""

    def __init__(self, answer: Forwarded, watch: ClientWatch, scope: Scope) -> None:
        self._answer = answer
        self._watch = watch
        self._scope = scope
        self._events = is_event_stream(answer.headers)
        self._between_events = True

    async def send(self, send: Send) -> None:
        """Sends it to its end. A stream of events that breaks ends with an error object; anything else is raised."""
        unbuffered = [(b"x-accel-buffering", b"no")] if self._events else []
        await send(
            {"type": "http.response.start", "status": self._answer.status, "headers": [*self._answer.headers, *unbuffered]}
        )
        last = b""
        try:
            while data := await self._answer.read():
                self._between_events = data.endswith(_EVENT_ENDS)
                await send({"type": "http.response.body", "body": data, "more_body": True})
        except ProviderError as error:
            if not self._events:
                raise  # the server then breaks the connection off: nobody takes half a file for a whole one
            last = self._broken(error)
        except asyncio.CancelledError:
            if self._watch.departed or not self._events:
                raise
            last = self._broken(self._watch.why_cancelled())
        self._watch.over()
        await send({"type": "http.response.body", "body": last})

    def _broken(self, error: GatewayError) -> bytes:
        self._scope["state"]["code"] = error.code
        begun = b"" if self._between_events else b"\n\n"
        return begun + b"data: " + msgspec.json.encode(error_object(error)) + b"\n\ndata: [DONE]\n\n"
