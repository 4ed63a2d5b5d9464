"""The outermost layer: a request id on every answer, the Host check, the client's key, and errors as JSON. Looks into no body."""

from __future__ import annotations

import re
import time
from collections.abc import MutableMapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import ASGIApp

from gateway.errors import (
    ClientCancelled,
    GatewayError,
    HostNotAllowed,
    MethodNotAllowed,
    NotFound,
    OriginNotAllowed,
    ShuttingDown,
)
from gateway.identifiers import new_id
from gateway.telemetry import Telemetry
from gateway.web.asgi import Receive, Scope, Send
from gateway.web.error_responses import as_internal, send_error
from gateway.web.rooms import Rooms

_OPEN_PATHS = frozenset({"/healthz", "/readyz"})
_UNCOUNTED = _OPEN_PATHS | {"/metrics"}
_READS = frozenset({"GET", "HEAD", "OPTIONS"})
_OWN_SITES = frozenset({b"same-origin", b"none"})
_SLASHES = re.compile("/{2,}")


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks: the tenant, and the Authorization value that may be passed on to a provider (never the gateway's own key)."""

    tenant: str | None
    authorization: str | None


_NOBODY = Client(None, None)


class Guards:
    """Wraps the whole application."""

    def __init__(self, app: ASGIApp, rooms: Rooms, bound_host: str, telemetry: Telemetry | None = None) -> None:
        self._app = app
        self._rooms = rooms
        self._bound_host = _bracketed(bound_host)
        self._telemetry = telemetry or Telemetry()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request in, and counts it at its end; probes and scrapes pass uncounted."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope["app"], scope["path"] = self, _routed_path(scope)
        scope["state"] = {"telemetry": self._telemetry}
        if scope["path"] in _UNCOUNTED:
            await self._serve(scope, receive, send)
            return
        begun, code = time.perf_counter(), ShuttingDown.code  # only the end of the shutdown grace breaks out of a request
        self._telemetry.inflight.add()
        try:
            code = await self._serve(scope, receive, send)
        finally:
            self._telemetry.inflight.add(amount=-1)
            self._telemetry.ended(_route(scope), code, time.perf_counter() - begun)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> str:
        """Whatever goes wrong is answered with an error, unless an answer has begun; gives the error's code, "" without one."""
        request_id = (b"x-request-id", new_id("req_").encode())
        status = 0

        async def send_with_id(message: MutableMapping[str, Any]) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], request_id]
                status = message["status"]
            await send(message)

        try:
            scope["state"]["client"] = self._let_in(scope)
            await self._app(scope, receive, send_with_id)
        except ClientCancelled as left:
            return left.code  # nobody is there to read an answer
        except Exception as error:  # noqa: BLE001  # the border: a defect is told without its details
            found = _as_gateway_error(error, scope)
            if not status:
                await send_error(send_with_id, found)
            return found.code
        code: str = scope["state"].get("code", "")  # of an error that was answered further in
        return code or (f"HTTP_{status}" if status >= 400 else "")

    def _let_in(self, scope: Scope) -> Client:
        if scope["path"] in _OPEN_PATHS:
            return _NOBODY  # a probe knows the machine by its address and has no key
        headers = dict(scope["headers"])
        hosts = [value for name, value in scope["headers"] if name == b"host"]
        name = hosts[0].decode("latin-1").strip().lower() if len(hosts) == 1 else ""  # of two, each reader may mean another
        if name[-1:].isdigit() or name[-1:] == ":":
            name = name.rpartition(":")[0] or name
        if name != self._bound_host and name not in _lowered(self._rooms.engine.settings.server.allowed_hosts):
            raise HostNotAllowed("This Host is not served here; add it to server.allowed_hosts if it should be.")
        if scope["method"] not in _READS and headers.get(b"sec-fetch-site", b"none") not in _OWN_SITES:
            self._require_allowed(headers.get(b"origin", b""))
        return self._client(headers)

    def _require_allowed(self, origin: bytes) -> None:
        """A browser says that a page of another site asks: fine for the origins that are configured."""
        allowed = self._rooms.engine.settings.server.cors_origins
        if "*" not in allowed and origin.decode("latin-1") not in allowed:
            raise OriginNotAllowed("A web page of another site may not ask for this; add it to server.cors_origins if it should.")

    def _client(self, headers: dict[bytes, bytes]) -> Client:
        authorization = headers.get(b"authorization", b"").decode("latin-1") or None
        words = (authorization or "").split()
        token = words[1] if len(words) == 2 and words[0].lower() == "bearer" else ""
        own = (headers.get(b"x-sluicegate-key") or headers.get(b"api-key") or b"").decode("latin-1")
        tenants = self._rooms.engine.tenants
        tenant = tenants.tenant_of(own or token or None)
        return Client(tenant, None if any(map(tenants.knows, words)) else authorization)


def _route(scope: Scope) -> str:
    """The path as it stands on the page of URLs: those that clients write are too many to count by."""
    route = scope.get("route")
    return route.path if isinstance(route, Route) else "other"


@lru_cache(maxsize=8)
def _lowered(hosts: tuple[str, ...]) -> frozenset[str]:
    return frozenset(host.lower() for host in hosts)


def _bracketed(host: str) -> str:
    """A bound address as it stands in a Host header."""
    return f"[{host.lower()}]" if ":" in host and not host.startswith("[") else host.lower()


def _as_gateway_error(error: Exception, scope: Scope) -> GatewayError:
    if isinstance(error, GatewayError):
        return error
    if isinstance(error, HTTPException):
        if error.status_code == 405:
            allowed = sorted((error.headers or {}).get("Allow", "").split(", "))
            return MethodNotAllowed("This path does not take that method.", metadata={"allowed": ", ".join(allowed)})
        return NotFound("There is no such path.")
    return as_internal(error, scope)


def _routed_path(scope: Scope) -> str:
    """The path as it was sent, still percent-encoded, so that an id with a slash stays one segment.

    Users paste base URLs with a slash too many; that is forgiven outside of the gateway's own API, where a segment is an id.
    """
    raw = scope.get("raw_path")
    path: str = raw.decode("latin-1") if raw else scope["path"]
    if path.startswith("/api/"):
        return path
    return _SLASHES.sub("/", path).rstrip("/") or "/"
