"""Passing other endpoints' requests on: which headers may go which way, and an answer whose bytes nobody looks into.

Knows nothing of models, chats and web frameworks. Requests lose a few headers and keep the rest; of an answer only those that
are known to be harmless go on, since any other may name a host, a key or a cookie.
"""

from __future__ import annotations

import re
from collections.abc import AsyncIterable, AsyncIterator, Iterable

import httpx

from gateway.errors import ProviderBadRequest
from gateway.providers.base import Forwarded
from gateway.providers.upstream import Upstream

RawHeaders = Iterable[tuple[bytes, bytes]]

_NAME = re.compile(rb"[!#$%&'*+.^_`|~0-9a-z-]+")
_CONTROL = re.compile(rb"[\x00-\x08\x0a-\x1f\x7f]")
_NO_GZIP = re.compile(r";\s*q=0(\.0*)?\s*$")
_CONNECTION = frozenset(
    b"connection keep-alive te trailer transfer-encoding upgrade http2-settings expect host content-length".split()
)
_CLIENT = frozenset(
    b"authorization api-key x-api-key x-goog-api-key cookie cookie2 user-agent accept-encoding origin referer forwarded via"
    b" x-real-ip x-client-ip true-client-ip cf-connecting-ip x-method-override".split()
)
_CLIENT_BEGINNINGS = (b"proxy-", b"x-forwarded-", b"sec-", b"access-control-", b"x-original-", b"x-rewrite-", b"x-http-method")
_ANSWER = frozenset(
    b"content-type content-encoding content-disposition content-language content-range content-length accept-ranges"
    b" cache-control expires etag last-modified retry-after".split()
)
_ANSWER_BEGINNINGS = (b"openai-", b"x-ratelimit-", b"ratelimit-")


def request_headers(headers: RawHeaders) -> list[tuple[bytes, bytes]]:
    """What of a client's headers goes on: nothing of its connection, its keys, its address or its browser.

    An encoding of the answer is asked for only where a refusal could be read in it.
    """
    lowered = [(name.lower(), value) for name, value in headers]
    named = _named_by_connection(lowered)
    kept = [(name, value) for name, value in lowered if name not in named and _may_go_up(name) and _sendable(name, value)]
    accepted = b",".join(value for name, value in lowered if name == b"accept-encoding").decode("latin-1")
    return [*kept, (b"accept-encoding", _readable(accepted).encode())]


def answer_headers(headers: RawHeaders) -> list[tuple[bytes, bytes]]:
    """What of a provider's headers the client may see. A length is left out where the body tells its end itself."""
    lowered = [(name.lower(), value) for name, value in headers]
    unsized = is_event_stream(lowered) or any(name == b"transfer-encoding" for name, _ in lowered)
    hidden = _named_by_connection(lowered) | ({b"content-length"} if unsized else set())
    return [(name, value) for name, value in lowered if name not in hidden and _may_come_down(name) and _sendable(name, value)]


def is_event_stream(headers: RawHeaders) -> bool:
    """Whether an answer is a stream of events that can be read as it stands."""
    found: dict[bytes, bytes] = dict(headers)
    kind = found.get(b"content-type", b"").partition(b";")[0].strip().lower()
    return kind == b"text/event-stream" and found.get(b"content-encoding", b"identity").strip().lower() == b"identity"


def merged_query(query: bytes, configured: httpx.QueryParams) -> bytes:
    """A client's query as it was sent, without the names that the configuration sets, and with those."""
    kept = [pair for pair in query.split(b"&") if pair and _parameter(pair) not in configured]
    return b"&".join([*kept, str(configured).encode("ascii")] if configured else kept)


def url_below(base: httpx.URL, path: str, query: bytes) -> httpx.URL:
    """The address of a path below a base URL. Raises ProviderBadRequest for one that would lead out of it."""
    root = base.raw_path.partition(b"?")[0].rstrip(b"/")
    try:
        url = base.copy_with(raw_path=root + path.encode("ascii") + (b"?" + query if query else b""))
    except (httpx.InvalidURL, UnicodeEncodeError) as error:
        raise ProviderBadRequest("The path or the query holds characters that no URL has, or is too long.") from error
    if not url.raw_path.startswith(root + b"/") or url.netloc != base.netloc:
        raise ProviderBadRequest("The path leads out of the provider's base URL.")
    return url


class Pieces(httpx.AsyncByteStream):
    """A request body that is sent as it comes."""

    def __init__(self, pieces: AsyncIterable[bytes]) -> None:
        self._pieces = pieces

    def __aiter__(self) -> AsyncIterator[bytes]:
        return aiter(self._pieces)


class ForwardedAnswer(Forwarded):
    """An answer of an HTTP server, with a good status."""

    def __init__(self, upstream: Upstream) -> None:
        self.status = upstream.status
        self.headers = answer_headers(upstream.headers.raw)
        self._upstream = upstream
        self._begun = False

    async def read(self) -> bytes:
        """See Forwarded.read."""
        chunk = await self._upstream.read()
        if not self._begun:
            self._begun = True
            self._upstream.begin()
        return chunk

    async def aclose(self) -> None:
        """See Forwarded.aclose."""
        await self._upstream.aclose()


def _named_by_connection(lowered: list[tuple[bytes, bytes]]) -> set[bytes]:
    values = b",".join(value for name, value in lowered if name == b"connection")
    return {name.strip().lower() for name in values.split(b",")}


def _may_go_up(name: bytes) -> bool:
    return name not in _CONNECTION and name not in _CLIENT and not name.startswith(_CLIENT_BEGINNINGS)


def _may_come_down(name: bytes) -> bool:
    return name in _ANSWER or name.startswith(_ANSWER_BEGINNINGS)


def _sendable(name: bytes, value: bytes) -> bool:
    """Whether it is a header at all: no line breaks or other control characters, and UTF-8."""
    try:
        value.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return bool(_NAME.fullmatch(name)) and not _CONTROL.search(value)


def _readable(accepted: str) -> str:
    """The encodings among those a client accepts that can be undone here."""
    items = [item for item in accepted.lower().split(",") if not _NO_GZIP.search(item)]
    names = {item.partition(";")[0].strip() for item in items}
    return ", ".join(name for name in ("gzip", "deflate") if name in names) or "identity"


def _parameter(pair: bytes) -> str:
    """The name of one pair of a query."""
    return next(iter(httpx.QueryParams(pair.decode("latin-1"))), "")
