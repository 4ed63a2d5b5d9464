"""One answer on the wire: bounded in time and size, decompressed, closed exactly once. Knows no JSON and no events."""

from __future__ import annotations

import zlib
from collections.abc import AsyncGenerator

import httpx

from gateway.errors import ProviderInvalidResponse, ProviderTimeout, ProviderUnreachable
from gateway.providers.base import Timeouts
from gateway.providers.deadline import Patience
from gateway.providers.errors import transport_error

_MAX_EXPANDED = 32 * 1024 * 1024  # what one compressed chunk may become
_DRAIN_S = 0.1
_ANY_ZLIB = zlib.MAX_WBITS | 32  # gzip or zlib by its first bytes


class Upstream:
    """An open answer; whoever holds it closes it."""

    def __init__(self, response: httpx.Response, patience: Patience, connect_s: float) -> None:
        self.status = response.status_code
        self.headers = response.headers
        if not isinstance(response.stream, httpx.AsyncByteStream):
            raise TypeError("the transport's answer is not asynchronous")
        self._stream = response.stream
        self._patience = patience
        self._connect_s = connect_s
        self._chunks = aiter(self._stream)
        self._inflater: _Inflater | None = None
        self._closed = False

    @classmethod
    async def open(
        cls, client: httpx.AsyncClient, request: httpx.Request, timeouts: Timeouts, since: float | None = None
    ) -> Upstream:
        """Sends the request; returns once the head is there. `since`: when the call began, in the loop's time, if not now.

        Raises ProviderTimeout, ProviderUnreachable, ProviderOverloaded.
        """
        patience = Patience(timeouts, since)
        try:
            with patience:
                response = await client._transport_for_url(request.url).handle_async_request(request)
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            patience.close()
            raise transport_error(error, connect_s=timeouts.connect_s) from error
        except BaseException:
            patience.close()
            raise
        return cls(response, patience, timeouts.connect_s)

    def decompress(self) -> None:
        """Undoes the content encoding, if there is one though none was asked for. Raises ProviderInvalidResponse."""
        named = [value for name, value in self.headers.raw if name.lower() == b"content-encoding"]
        if not named:
            return
        encoding = named[-1].decode("latin-1").strip().lower()
        if encoding in ("gzip", "x-gzip", "deflate"):
            self._inflater = _Inflater()
        elif encoding not in ("", "identity"):
            raise ProviderInvalidResponse("The provider compressed its answer in a way that was not asked for.")

    def begin(self) -> None:
        """The answer proper has begun: the first-token deadline is over."""
        self._patience.begin()

    async def read(self) -> bytes:
        """The next bytes as they arrive; b"" at the end. Raises ProviderTimeout, ProviderUnreachable, ProviderInvalidResponse."""
        while True:
            try:
                with self._patience:
                    chunk = await anext(self._chunks)
            except StopAsyncIteration:
                return b""
            except httpx.HTTPError as error:
                raise transport_error(error, connect_s=self._connect_s) from error
            self._patience.heard()
            if self._inflater is not None:
                chunk = self._inflater.feed(chunk)
            if chunk:
                return chunk

    async def read_bounded(self, limit: int, seconds: float) -> bytes:
        """What comes within the bounds; whatever fails meanwhile ends it."""
        self._patience.at_most(seconds)
        body = bytearray()
        try:
            while len(body) < limit and (chunk := await self.read()):
                body += chunk
        except (ProviderTimeout, ProviderUnreachable, ProviderInvalidResponse):
            pass
        return bytes(body[:limit])

    async def drain(self) -> None:
        """Reads the end that is already on its way, so that the connection can be used again."""
        await self.read_bounded(1, _DRAIN_S)

    async def aclose(self) -> None:
        """Ends the request; safe to call twice."""
        if self._closed:
            return
        self._closed = True
        self._patience.close()
        try:
            if isinstance(self._chunks, AsyncGenerator):
                await self._chunks.aclose()
        finally:
            await self._stream.aclose()


class _Inflater:
    """gzip, zlib or bare deflate, chunk by chunk."""

    def __init__(self) -> None:
        self._inflate = zlib.decompressobj(_ANY_ZLIB)
        self._begun = False

    def feed(self, chunk: bytes) -> bytes:
        begun, self._begun = self._begun, True
        try:
            return self._bounded(chunk)
        except zlib.error as error:
            if begun:
                raise ProviderInvalidResponse("The provider's answer is damaged: it cannot be decompressed.") from error
        self._inflate = zlib.decompressobj(-zlib.MAX_WBITS)
        return self.feed(chunk)

    def _bounded(self, chunk: bytes) -> bytes:
        plain = self._inflate.decompress(chunk, _MAX_EXPANDED)
        if self._inflate.unconsumed_tail:
            raise ProviderInvalidResponse(f"A part of the provider's answer grows beyond {_MAX_EXPANDED} bytes.")
        return plain
