"""The outermost layer: a request id on every answer, the Host check, and the client's key. Looks into no body."""

from __future__ import annotations

import re
import uuid
from collections.abc import MutableMapping
from dataclasses import dataclass
from typing import Any

from starlette.types import ASGIApp

from gateway.errors import GatewayError, HostNotAllowed
from gateway.web.asgi import Receive, Scope, Send
from gateway.web.error_responses import send_error
from gateway.web.rooms import Rooms

_OPEN_PATHS = frozenset({"/healthz", "/readyz"})
_SLASHES = re.compile("/{2,}")
_PORT = re.compile(r":[0-9]*$")


@dataclass(frozen=True, slots=True)
class Client:
    """Who asks: the tenant, and the Authorization value that may be passed on to a provider (never the gateway's own key)."""

    tenant: str | None
    authorization: str | None


class Guards:
    """Wraps the whole application."""

    def __init__(self, app: ASGIApp, rooms: Rooms, bound_host: str) -> None:
        self._app = app
        self._rooms = rooms
        self._bound_host = bound_host

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Lets a request in, or answers it with an error."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        request_id = (b"x-request-id", f"req_{uuid.uuid4().hex}".encode())

        async def send_with_id(message: MutableMapping[str, Any]) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], request_id]
            await send(message)

        scope["path"] = _routed_path(scope)
        try:
            headers = dict(scope["headers"])
            self._check_host(headers.get(b"host", b""))
            open_path = scope["path"] in _OPEN_PATHS
            scope["state"] = {"client": Client(None, None) if open_path else self._client(headers)}
        except GatewayError as error:
            await send_error(send_with_id, error)
            return
        await self._app(scope, receive, send_with_id)

    def _check_host(self, host: bytes) -> None:
        name = _PORT.sub("", host.decode("latin-1").strip().lower())
        if name not in (*self._rooms.engine.settings.server.allowed_hosts, self._bound_host):
            raise HostNotAllowed("This Host is not served here; add it to server.allowed_hosts if it should be.")

    def _client(self, headers: dict[bytes, bytes]) -> Client:
        authorization = headers.get(b"authorization", b"").decode("latin-1") or None
        own = headers.get(b"x-sluicegate-key") or headers.get(b"api-key")
        tenants = self._rooms.engine.tenants
        if own is not None:
            return Client(tenants.tenant_of(own.decode("latin-1")), authorization)
        scheme, _, token = (authorization or "").partition(" ")
        tenant = tenants.tenant_of(token.strip() if scheme.lower() == "bearer" and token.strip() else None)
        return Client(tenant, authorization if tenant is None else None)


def _routed_path(scope: Scope) -> str:
    """The path as it was sent, still percent-encoded, so that an id with a slash stays one segment.

    Users paste base URLs with a slash too many; that is forgiven outside of the gateway's own API, where a segment is an id.
    """
    raw = scope.get("raw_path")
    path: str = raw.decode("latin-1") if raw else scope["path"]
    if path.startswith("/api/"):
        return path
    return (_SLASHES.sub("/", path).rstrip("/") or "/").replace("/v1/v1/", "/v1/")
