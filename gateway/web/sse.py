"""A streamed answer: passes the provider's events on, and ends a broken stream with an error object and [DONE].

It only writes; whose generation it is closes it. A finish_reason is never invented.
"""

from __future__ import annotations

import asyncio

import msgspec

from gateway.errors import GatewayError
from gateway.generation import Generation
from gateway.web.asgi import Headers, Send
from gateway.web.client_watch import ClientWatch
from gateway.web.context_headers import with_report
from gateway.web.error_responses import error_object

_STREAM = ((b"content-type", b"text/event-stream"), (b"cache-control", b"no-cache"), (b"x-accel-buffering", b"no"))


class EventStream:
    """One stream under way."""

    def __init__(self, generation: Generation, watch: ClientWatch, headers: Headers, report: bytes) -> None:
        self._generation = generation
        self._watch = watch
        self._headers = headers
        self._report = report

    async def send(self, send: Send) -> None:
        """Sends the stream to its end. Raises CancelledError only when the client has left."""
        last = b""
        try:
            await send({"type": "http.response.start", "status": 200, "headers": [*_STREAM, *self._headers]})
            data = with_report(await self._generation.read(), self._report)
            while data:
                await send({"type": "http.response.body", "body": data, "more_body": True})
                data = await self._generation.read()
        except GatewayError as error:
            last = self._broken(error)
        except asyncio.CancelledError:
            if self._watch.departed:
                raise
            why = self._watch.why_cancelled()
            await self._generation.aclose(why)
            last = self._broken(why)
        self._watch.over()
        await send({"type": "http.response.body", "body": last})

    def _broken(self, error: GatewayError) -> bytes:
        found = error_object(error, generation_id=self._generation.audit.key.generation_id)
        return b"data: " + msgspec.json.encode(found) + b"\n\ndata: [DONE]\n\n"
