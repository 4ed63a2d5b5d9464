"""An httpx transport over one aiohttp session. Knows nothing of chats, and parses no HTTP itself.

Why our own: CPU per small POST over loopback with uvloop, 1 and 32 at a time, best of 15 rounds: aiohttp itself 116 and 67 µs,
this 139 and 91, the package httpx-aiohttp's transport 149 and 99, stock httpx's 337 and 714. Speed alone
would not be worth it. The package also reports a server that hangs up as a connect timeout, keeps cookies, refuses header
lines beyond 8 KiB, loses what had arrived before a break, and gives up when a kept connection had gone stale.
Proxies and HTTP/2 are stock httpx's: `make_client` chooses.
"""

from __future__ import annotations

import asyncio
import functools
import ssl
import urllib.request
import weakref
from collections.abc import AsyncIterator
from contextvars import ContextVar

import aiohttp
import httpx
import yarl
from aiohttp.connector import Connection
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.tracing import Trace

_KEEPALIVE_S = 4.0  # uvicorn and others close idle connections after 5 s
_MAX_HEADER_BYTES = 65_536
_OWN_HEADERS = ("User-Agent", "Accept", "Accept-Encoding", "Content-Type")
_reused: ContextVar[bool] = ContextVar("reused", default=False)
_served: weakref.WeakSet[object] = weakref.WeakSet()
_ERRORS = (aiohttp.ClientError, OSError, asyncio.TimeoutError, RuntimeError)  # RuntimeError: the session was closed meanwhile


class AiohttpTransport(httpx.AsyncBaseTransport):
    """Sends httpx requests through an aiohttp session of its own; raises httpx's transport errors.

    Read from the request's `timeout` extension: `connect` and `read`, in seconds.
    """

    def __init__(self, *, ssl_context: ssl.SSLContext | None = None) -> None:
        self._ssl_context = ssl_context
        self._session: aiohttp.ClientSession | None = None

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Returns once the head is there; both bodies stream. One that does can be sent once only: it is not tried again."""
        whole = isinstance(request.stream, httpx.SyncByteStream)
        body = request.read() if whole else request.stream
        if not whole:
            request.headers.pop("transfer-encoding", None)  # aiohttp writes its own
        _reused.set(False)
        try:
            response = await self._send(request, body)
        except _ERRORS as error:
            if not (whole and _reused.get() and _closed_unanswered(error)):
                raise _translated(error, request) from error
            try:
                response = await self._send(request, body)
            except _ERRORS as second:
                raise _translated(second, request) from second
        return httpx.Response(response.status, headers=response.raw_headers, stream=_Body(response, request), request=request)

    async def _send(self, request: httpx.Request, body: object) -> aiohttp.ClientResponse:
        timeout = request.extensions.get("timeout", {})
        return await self._opened_session().request(
            request.method,
            _yarl_url(str(request.url)),
            headers=[(name.decode("ascii"), value.decode("utf-8", "surrogateescape")) for name, value in request.headers.raw],
            data=body or None,
            allow_redirects=False,
            timeout=_client_timeout(timeout.get("connect"), timeout.get("read")),
        )

    def _opened_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=_Connector(
                    limit=0, keepalive_timeout=_KEEPALIVE_S, ssl=True if self._ssl_context is None else self._ssl_context
                ),
                auto_decompress=False,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=_OWN_HEADERS,
                timeout=aiohttp.ClientTimeout(total=None),
                max_line_size=_MAX_HEADER_BYTES,
                max_field_size=_MAX_HEADER_BYTES,
            )
        return self._session

    async def aclose(self) -> None:
        """Closes every connection."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()


class _Connector(aiohttp.TCPConnector):
    """Notes whether the connection it gives out has served before (aiohttp's tracing tells that too, at 17 µs a request)."""

    async def connect(self, req: aiohttp.ClientRequest, traces: list[Trace], timeout: aiohttp.ClientTimeout) -> Connection:  # noqa: ASYNC109 - the signature is aiohttp's
        connection = await super().connect(req, traces, timeout)
        reused = connection.protocol in _served
        _reused.set(reused)
        if not reused:
            _served.add(connection.protocol)
            closed = None if connection.protocol is None else connection.protocol.closed
            if closed is not None:
                closed.add_done_callback(_retrieved)
        return connection


class _Body(httpx.AsyncByteStream):
    """An answer's body, chunk by chunk as it arrives, also what came before a break.

    Closing it before the end closes the connection.
    """

    def __init__(self, response: aiohttp.ClientResponse, request: httpx.Request) -> None:
        self._response = response
        self._request = request
        self._protocol = None if response.connection is None else response.connection.protocol
        closed = None if self._protocol is None else self._protocol.closed
        self._closed = closed
        if closed is not None:
            closed.add_done_callback(self._tell_damage)

    def _tell_damage(self, closed: asyncio.Future[None]) -> None:
        """After a damaged chunk aiohttp closes the connection, and tells nobody who waits for the body."""
        damage = None if self._protocol is None else self._protocol.exception()
        if isinstance(damage, HttpProcessingError) and self._response.content.exception() is None:
            self._response.content.set_exception(aiohttp.ClientPayloadError())

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._response.content.readany()
        except _ERRORS as error:
            self._response.close()
            chunk = self._arrived()
            if not chunk:
                raise _translated(error, self._request) from error
        if not chunk:
            raise StopAsyncIteration
        return chunk

    def _arrived(self) -> bytes:
        buffered = self._response.content._buffer  # aiohttp itself gives none of it out once there is an error
        chunk = b"".join(buffered)
        buffered.clear()
        return chunk

    async def aclose(self) -> None:
        if self._closed is not None:
            self._closed.remove_done_callback(self._tell_damage)
        if self._response.content.at_eof():
            self._response.release()
        else:
            self._response.close()


def _retrieved(closed: asyncio.Future[None]) -> None:
    """How a connection ended is told to whoever reads from it; asyncio would log it once more where nobody does."""
    if not closed.cancelled():
        closed.exception()


def make_client(base_url: str, *, http2: bool = False) -> httpx.AsyncClient:
    """A client for one upstream: stock httpx where a proxy or HTTP/2 is asked for, else over aiohttp.

    Proxies come from the environment (HTTP_PROXY, HTTPS_PROXY, ALL_PROXY; NO_PROXY is honoured).
    """
    if http2:
        return httpx.AsyncClient(http2=True)
    url = httpx.URL(base_url)
    if urllib.request.getproxies().keys() & {"http", "https", "all"}:
        stock = httpx.AsyncClient()
        if stock._transport_for_url(url) is not stock._transport:
            return stock
    context = httpx.create_ssl_context() if url.scheme == "https" else None
    return httpx.AsyncClient(transport=AiohttpTransport(ssl_context=context))


def _closed_unanswered(error: BaseException) -> bool:
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return isinstance(error.message, str)  # else it holds the head that had begun to arrive
    return isinstance(error, (aiohttp.ClientOSError, aiohttp.ClientConnectionResetError)) and not isinstance(
        error, aiohttp.ClientConnectorError
    )


def _translated(error: BaseException, request: httpx.Request) -> httpx.TransportError:
    for ours, theirs in _TRANSLATIONS:
        if isinstance(error, ours):
            return theirs(type(error).__name__, request=request)
    return httpx.ReadError(type(error).__name__, request=request)


_TRANSLATIONS: tuple[tuple[type[BaseException] | tuple[type[BaseException], ...], type[httpx.TransportError]], ...] = (
    (aiohttp.ConnectionTimeoutError, httpx.ConnectTimeout),
    (aiohttp.SocketTimeoutError, httpx.ReadTimeout),
    (aiohttp.ClientConnectorError, httpx.ConnectError),
    ((aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, aiohttp.ClientResponseError), httpx.RemoteProtocolError),
    (aiohttp.InvalidURL, httpx.UnsupportedProtocol),
)


@functools.lru_cache(maxsize=256)
def _yarl_url(url: str) -> yarl.URL:
    return yarl.URL(url, encoded=True)


@functools.lru_cache(maxsize=64)
def _client_timeout(connect: float | None, read: float | None) -> aiohttp.ClientTimeout:
    return aiohttp.ClientTimeout(total=None, connect=connect, sock_read=read, ceil_threshold=3600)
