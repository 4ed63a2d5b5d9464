"""What litellm does on the network. Every request of the library goes through here; never imports the library.

The library hides what happened: it rewrites errors, repeats requests, follows redirects and ends a cut stream with a
finish_reason of its own. Here the answer is seen before that, on our own connections: its refusal is classified like any
other, its end is told from a break, and closing a call closes the connection, whatever the library holds.
"""

from __future__ import annotations

import asyncio
import functools
import json
import re
from collections.abc import AsyncIterator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace

import httpx

from gateway.errors import ProviderBadRequest, ProviderError
from gateway.providers.base import ProviderConfig
from gateway.providers.deadline import Patience
from gateway.providers.errors import refusal
from gateway.providers.transport import make_client
from gateway.providers.upstream import Upstream

_MAX_REFUSAL_BYTES = 65_536
_REFUSAL_S = 5.0
_KEPT_BYTES = 65_536  # of the end of an answer, where its error stands
_OVERLAP = 256
_LAST_LINES = 6
_OF_THE_CONNECTION = ("content-encoding", "content-length", "transfer-encoding", "connection")
# How providers say that an answer is whole. Inside a text the quotes would be escaped.
_WHOLE = re.compile(
    rb'"(?:finish|stop|done|completion)_?reason"\s*:\s*"[^"]'
    rb'|"(?:done|is_finished|is_end|finished)"\s*:\s*true'
    rb'|"(?:type|event_type|event|status)"\s*:\s*"(?:message_stop|message-end|stream-end|response\.completed|succeeded)"'
    rb"|data: ?\[DONE\]",
    re.IGNORECASE,
)


class Route:
    """The way to one configured upstream: its address, its query, the connections to it."""

    def __init__(self, config: ProviderConfig) -> None:
        base = httpx.URL(config.base_url)
        self.api_base = str(base.copy_with(query=None, fragment=None)) if config.base_url else None
        self._origin = _origin(base) if config.base_url else None
        self._query = httpx.QueryParams(base.query.decode("ascii")).merge(dict(config.query))
        self._headers = dict(config.headers)
        connect_s, total_s = config.timeouts.connect_s, config.timeouts.total_s + 1.0
        self._connect = {"connect": connect_s, "read": None, "write": None, "pool": connect_s}
        # The call's own patience ends it; here nothing but the connection has a bound.
        self._timeouts = replace(config.timeouts, first_token_s=total_s, idle_s=total_s, total_s=total_s)
        self._clients: dict[str, httpx.AsyncClient] = {}

    def leads_to(self, url: httpx.URL, *, writing: bool, known: set[str]) -> bool:
        """Whether a request may go there: to base_url alone; without one to where the library posts, and reads after that."""
        origin = _origin(url)
        return origin == self._origin if self._origin is not None else writing or origin in known

    async def open(self, request: httpx.Request) -> Upstream:
        """Sends a request of the library; returns once the head is there. Raises ProviderError."""
        url = request.url.copy_merge_params(self._query) if self._query else request.url
        headers = httpx.Headers(request.headers)
        headers["accept-encoding"] = "identity"
        headers.update({name: value for name, value in self._headers.items() if name not in headers})  # the library drops some
        body = request.read() if isinstance(request.stream, httpx.SyncByteStream) else await request.aread()
        sent = httpx.Request(
            request.method, url, headers=headers, stream=httpx.ByteStream(body), extensions={"timeout": self._connect}
        )
        upstream = await Upstream.open(self._client(_origin(url)), sent, self._timeouts)
        upstream.decompress()
        return upstream

    def _client(self, origin: str) -> httpx.AsyncClient:
        if origin not in self._clients:
            self._clients[origin] = make_client(origin)
        return self._clients[origin]

    async def aclose(self) -> None:
        """Closes every connection."""
        clients, self._clients = self._clients, {}
        for client in clients.values():
            await client.aclose()


@dataclass(eq=False, slots=True)
class LibraryCall:
    """One call of the library: what it sent and what came back. `streamed`: a stream was asked for.

    `failure`: why an exchange failed, the first time. `whole`: the last answer has said that it is complete. `framed`: it is
    a binary stream.
    """

    route: Route
    patience: Patience
    streamed: bool = False
    own_key: bool = False
    failure: ProviderError | None = None
    whole: bool = False
    framed: bool = False
    requests: int = 0
    _document: bool = False
    _posted: set[str] = field(default_factory=set)
    _open: list[Upstream] = field(default_factory=list)
    _end: bytes = b""

    @property
    def cut(self) -> bool:
        """Whether a stream has come that has not said that it is complete; one JSON document says so by its end."""
        return self.streamed and self.requests > 0 and not self.whole and not (self._document and _parsed(self._end) is not None)

    async def exchange(self, request: httpx.Request) -> httpx.Response:
        """Answers a request of the library. Raises ProviderError; after a failure at once, for the library tries again."""
        if self.failure is not None:
            raise self.failure
        try:
            return await self._exchange(request)
        except ProviderError as error:
            raise self.failed(error) from error

    def failed(self, error: ProviderError) -> ProviderError:
        """Notes a failure; gives the first one."""
        self.failure = self.failure or error
        return self.failure

    def heard(self, chunk: bytes) -> None:
        """A part of an answer has come."""
        self.patience.heard()
        self.whole = self.whole or _WHOLE.search(self._end[-_OVERLAP:] + chunk) is not None
        self._end = (self._end + chunk)[-_KEPT_BYTES:]

    def reported(self) -> bytes | None:
        """The error object at the end of the last answer, raw JSON; None where there is none."""
        lines = [line.removeprefix(b"data:").strip() for line in self._end.splitlines()]
        for text in [self._end, *reversed([line for line in lines if line][-_LAST_LINES:])]:
            value = _parsed(text)
            value = value[-1] if isinstance(value, list) and value else value
            if isinstance(value, dict) and (value.get("error") or value.get("type") == "error"):
                return json.dumps(value).encode()
        return None

    async def aclose(self) -> None:
        """Ends every exchange."""
        opened, self._open, self._end = self._open, [], b""
        for upstream in opened:
            await upstream.aclose()

    def may_ask(self, request: httpx.Request) -> bool:
        """Whether a request goes to this provider."""
        return self.route.leads_to(request.url, writing=request.method == "POST", known=self._posted)

    async def _exchange(self, request: httpx.Request) -> httpx.Response:
        if not self.may_ask(request):
            raise ProviderBadRequest("The library wanted to ask another address than this provider's; nothing was sent there.")
        self.requests += 1
        upstream = await self.route.open(request)
        self._open.append(upstream)
        if not 200 <= upstream.status < 300:
            body = await upstream.read_bounded(_MAX_REFUSAL_BYTES, _REFUSAL_S)
            raise refusal(upstream.status, upstream.headers, body, own_key=self.own_key)
        self._posted.add(_origin(request.url))
        self._begin(upstream.headers.get("content-type", ""))
        headers = [(name, value) for name, value in upstream.headers.items() if name not in _OF_THE_CONNECTION]
        return httpx.Response(upstream.status, headers=headers, stream=_Tapped(upstream, self), request=request)

    def _begin(self, content_type: str) -> None:
        self.whole, self._end = False, b""
        self.framed = "eventstream" in content_type
        self._document = content_type.startswith("application/json")


CURRENT: ContextVar[LibraryCall | None] = ContextVar("current", default=None)


class CallTransport(httpx.AsyncBaseTransport):
    """The transport the library is given: leads to the call in whose context it is used. Holds nothing."""

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Answers by the current call; outside of a call nothing is sent."""
        call = CURRENT.get()
        if call is None:
            raise httpx.ConnectError("the library may send nothing outside of a call", request=request)
        return await call.exchange(request)


class BlockingTransport(httpx.BaseTransport):
    """The transport for what the library asks without await (tokens, facts about a model), in a thread of its own.

    The same addresses are allowed. Nothing is sent from the event loop, which would stand still meanwhile.
    """

    @functools.cached_property
    def _stock(self) -> httpx.HTTPTransport:
        return httpx.HTTPTransport()

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        """Sends the request if the current call may."""
        call = CURRENT.get()
        if call is None or _in_event_loop() or not call.may_ask(request):
            raise httpx.ConnectError("the library may not ask this", request=request)
        return self._stock.handle_request(request)

    def close(self) -> None:
        """Closes every connection."""
        self._stock.close()


class _Tapped(httpx.AsyncByteStream):
    """The body of an answer, which its call hears as well."""

    def __init__(self, upstream: Upstream, call: LibraryCall) -> None:
        self._upstream = upstream
        self._call = call
        self._ended = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        try:
            chunk = await self._upstream.read()
        except ProviderError as error:
            self._ended = True
            raise self._call.failed(error) from error
        if not chunk:
            self._ended = True
            raise StopAsyncIteration
        self._call.heard(chunk)
        return chunk

    async def aclose(self) -> None:
        if not self._ended and self._call.whole:
            self._ended = True
            await self._upstream.drain()
        await self._upstream.aclose()


def _in_event_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _origin(url: httpx.URL) -> str:
    return str(url.copy_with(userinfo=b"", raw_path=b"/", fragment=None))


def _parsed(text: bytes) -> object:
    try:
        value: object = json.loads(text)
    except (ValueError, RecursionError):
        return None
    return value
