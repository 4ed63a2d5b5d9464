"""GET /healthz and /readyz: whether the process lives, and whether it can work. Neither asks a provider."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from gateway.errors import StoreUnavailable
from gateway.web.json_response import json_response
from gateway.web.rooms import Rooms


class Health:
    """The endpoints."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    async def alive(self, request: Request) -> Response:
        """The event loop answers."""
        return json_response({"status": "ok"})

    async def ready(self, request: Request) -> Response:
        """Whether requests can be served: store writable, not draining. A broken new configuration is told, no reason."""
        draining = self._rooms.draining
        store = "ok"
        try:
            await self._rooms.store.check()
        except StoreUnavailable:
            store = "unavailable"
        ready = store == "ok" and not draining
        described: dict[str, object] = {"status": "ready" if ready else "not ready", "store": store, "draining": draining}
        described |= {"configuration": self._rooms.problem() or "ok", "plugins": self._rooms.plugin_problems() or "ok"}
        return json_response(described, 200 if ready else 503)
