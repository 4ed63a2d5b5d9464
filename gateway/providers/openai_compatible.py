"""The provider kind `openai`: any server that speaks OpenAI's chat completions. Knows nothing of budgets and audits.

Requests skip httpx's client machinery and go to its transport for the URL: that is where tests and proxies come in, and
where the time would otherwise be spent. Keys and addresses enter no message.
"""

from __future__ import annotations

import asyncio
import base64
from dataclasses import replace
from functools import partial
from typing import Any
from urllib.parse import unquote

import httpx
import msgspec

from gateway import __version__
from gateway.errors import ProviderAuth, ProviderError, ProviderInvalidResponse
from gateway.providers.base import (
    Forwarded,
    ForwardedRequest,
    OutgoingRequest,
    Provider,
    ProviderConfig,
    Reply,
    Retries,
    account_of,
)
from gateway.providers.errors import refusal
from gateway.providers.forwarding import ForwardedAnswer, Pieces, merged_query, request_headers, url_below
from gateway.providers.replies import open_reply
from gateway.providers.retrying import with_retry
from gateway.providers.transport import make_client
from gateway.providers.upstream import Upstream

PASSTHROUGH = "passthrough"
_MAX_REFUSAL_BYTES = 65_536
_REFUSAL_S = 5.0
_MAX_SMALL_ANSWER_BYTES = 16 * 1024 * 1024
_ASK_S = 10.0
_LIMIT_S = 2.0
_KEY_HEADERS = ("authorization", "api-key", "x-api-key", "x-goog-api-key")
_KEY_PARAMETERS = ("key", "api_key", "api-key")
_METHODS_WITH_A_BODY = ("POST", "PUT", "PATCH")
_LIMIT_KEYS = ("max_model_len", "context_length", "context_window")


class OpenAICompatibleProvider(Provider):
    """One server and the way to it. Owns the client, also one it is given.

    `base_url` may hold credentials (used as basic auth where no key is given) and a query. `headers` win over everything.
    """

    def __init__(self, config: ProviderConfig, *, client: httpx.AsyncClient | None = None) -> None:
        self.name = config.name
        self._timeouts = config.timeouts
        self._retries = config.retries
        self._passthrough = config.api_key == PASSTHROUGH
        base = httpx.URL(config.base_url)
        self._base = base.copy_with(userinfo=b"", query=None, fragment=None)
        self._query = httpx.QueryParams(base.query.decode("ascii")).merge(dict(config.query))
        self._chat_url = self._url(self._path("/chat/completions"))
        key = None if self._passthrough else config.api_key
        self._headers = httpx.Headers(_own_headers(self._chat_url) | _authorization(base, key))
        self._configured = dict(config.headers)
        self._headers.update(self._configured)
        self._stream_headers = httpx.Headers(self._headers)
        self._stream_headers["accept"] = "text/event-stream"
        connect_s = config.timeouts.connect_s
        self._extensions = {"timeout": {"connect": connect_s, "read": None, "write": None, "pool": connect_s}}
        self._client = make_client(str(self._base)) if client is None else client

    async def send(self, outgoing: OutgoingRequest) -> Reply:
        """See Provider.send."""
        own_key = self._passthrough and outgoing.authorization is not None
        request = self._request("POST", self._chat_url, outgoing.body, stream=outgoing.stream)
        if own_key:
            request.headers["authorization"] = _sendable(outgoing.authorization or "")
        upstream = await with_retry(partial(self._accepted, request, own_key), self._retries, self._timeouts)
        try:
            upstream.decompress()
            return await open_reply(upstream, stream=outgoing.stream)
        except BaseException:
            await upstream.aclose()
            raise

    async def forward(self, request: ForwardedRequest) -> Forwarded:
        """See Provider.forward. Configured headers and query parameters win over the client's.

        A body that streams can be sent once only: such a call is not made again.
        """
        outgoing = self._forwarded(request)
        call = partial(self._accepted, outgoing, self._passthrough and request.authorization is not None)
        retries = self._retries if isinstance(outgoing.stream, httpx.SyncByteStream) else Retries(attempts=0)
        return ForwardedAnswer(await with_retry(call, retries, self._timeouts))

    def account(self, authorization: str | None) -> str:
        """See Provider.account."""
        sent = httpx.Headers(self._headers)
        if self._passthrough and authorization is not None:
            sent["authorization"] = authorization
        keys = [sent.get(name, "") for name in _KEY_HEADERS] + [self._query.get(name, "") for name in _KEY_PARAMETERS]
        return account_of(str(self._base), "\n".join(keys))

    async def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        """See Provider.ask; at most 10 s and 16 MiB."""
        return await self._ask(method, self._url(self._root_path() + path.lstrip("/")), body, _ASK_S)

    async def ask_below(self, method: str, path: str, body: bytes = b"") -> bytes:
        """See Provider.ask_below; at most 10 s and 16 MiB."""
        return await self._ask(method, self._url(self._path(path)), body, _ASK_S)

    async def context_limit(self, upstream_model: str) -> int | None:
        """See Provider.context_limit; at most 2 s. Read from the model list (vLLM, OpenRouter), else /props (llama.cpp)."""
        asked: tuple[tuple[str, Any], ...] = (
            (self._path("/models"), lambda found: _listed_limit(found, upstream_model)),
            (self._root_path() + "props", _props_limit),
        )
        try:
            async with asyncio.timeout(_LIMIT_S):
                for path, limit_of in asked:
                    limit = limit_of(await self._found(path))
                    if limit is not None:
                        return int(limit)
        except TimeoutError:
            return None
        return None

    async def aclose(self) -> None:
        """Closes every connection."""
        await self._client.aclose()

    async def _accepted(self, request: httpx.Request, own_key: bool, since: float) -> Upstream:
        """An answer with a good status, of which only the head has been read."""
        upstream = await Upstream.open(self._client, request, self._timeouts, since)
        try:
            await _require_success(upstream, own_key=own_key)
        except BaseException:
            await upstream.aclose()
            raise
        return upstream

    async def _found(self, path: str) -> object:
        try:
            found: object = msgspec.json.decode(await self._ask("GET", self._url(path), b"", _LIMIT_S))
        except (ProviderError, msgspec.MsgspecError, RecursionError):
            return None
        return found

    async def _ask(self, method: str, url: httpx.URL, body: bytes, seconds: float) -> bytes:
        timeouts = replace(self._timeouts, first_token_s=seconds, total_s=seconds)
        upstream = await Upstream.open(self._client, self._request(method, url, body, stream=False), timeouts)
        try:
            await _require_success(upstream, own_key=False)
            upstream.decompress()
            answer = bytearray()
            while chunk := await upstream.read():
                answer += chunk
                if len(answer) > _MAX_SMALL_ANSWER_BYTES:
                    raise ProviderInvalidResponse(f"The provider's answer is longer than {_MAX_SMALL_ANSWER_BYTES} bytes.")
            return bytes(answer)
        finally:
            await upstream.aclose()

    def _request(self, method: str, url: httpx.URL, body: bytes, *, stream: bool) -> httpx.Request:
        headers = self._stream_headers if stream else self._headers
        request = httpx.Request(method, url, headers=headers, stream=httpx.ByteStream(body), extensions=self._extensions)
        if body or method == "POST":
            request.headers["content-length"] = str(len(body))
        return request

    def _forwarded(self, request: ForwardedRequest) -> httpx.Request:
        url = url_below(self._base, request.path, merged_query(request.query, self._query))
        headers = httpx.Headers(request_headers(request.headers))
        headers.update({name: self._headers[name] for name in ("host", "user-agent", "authorization") if name in self._headers})
        headers.update(self._configured)
        if self._passthrough and request.authorization is not None:
            headers["authorization"] = _sendable(request.authorization)
        size = len(request.body) if isinstance(request.body, bytes) else request.size
        if size is not None and (size or request.method in _METHODS_WITH_A_BODY):
            headers["content-length"] = str(size)
        stream = httpx.ByteStream(request.body) if isinstance(request.body, bytes) else Pieces(request.body)
        return httpx.Request(request.method, url, headers=headers, stream=stream, extensions=self._extensions)

    def _url(self, path: str) -> httpx.URL:
        url = self._base.copy_with(raw_path=path.encode("ascii"))
        return url.copy_merge_params(self._query) if self._query else url

    def _path(self, below: str) -> str:
        return self._base.raw_path.decode("ascii").partition("?")[0].rstrip("/") + below

    def _root_path(self) -> str:
        return self._path("").removesuffix("/v1").removesuffix("/v1beta/openai") + "/"  # the latter is Gemini's


async def _require_success(upstream: Upstream, *, own_key: bool) -> None:
    if 200 <= upstream.status < 300:
        return
    try:
        upstream.decompress()
        body = await upstream.read_bounded(_MAX_REFUSAL_BYTES, _REFUSAL_S)
    except ProviderInvalidResponse:  # compressed in an unknown way: the status says enough
        body = b""
    raise refusal(upstream.status, upstream.headers, body, own_key=own_key)


def _own_headers(url: httpx.URL) -> dict[str, str]:
    return {
        "host": url.netloc.decode("ascii"),
        "accept": "application/json",
        "accept-encoding": "identity",
        "content-type": "application/json",
        "user-agent": f"sluicegate/{__version__}",
    }


def _authorization(base: httpx.URL, api_key: str | None) -> dict[str, str]:
    if api_key:
        return {"authorization": f"Bearer {api_key}"}
    if base.userinfo:
        credentials = unquote(base.userinfo.decode("ascii")).encode()
        return {"authorization": "Basic " + base64.b64encode(credentials).decode("ascii")}
    return {}


def _sendable(authorization: str) -> str:
    if not (authorization.isascii() and authorization.isprintable()):
        raise ProviderAuth("The Authorization header holds characters that no key has.", status=401)
    return authorization


def _listed_limit(found: object, model: str) -> int | None:
    entries = found.get("data") if isinstance(found, dict) else None
    for entry in entries if isinstance(entries, list) else ():
        if isinstance(entry, dict) and entry.get("id") == model:
            return next(filter(None, (_positive(entry.get(key)) for key in _LIMIT_KEYS)), None)
    return None


def _props_limit(found: object) -> int | None:
    settings = found.get("default_generation_settings") if isinstance(found, dict) else None
    return _positive(settings.get("n_ctx")) if isinstance(settings, dict) else None


def _positive(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None
