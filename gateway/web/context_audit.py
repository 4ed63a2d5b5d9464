"""GET /api/v2/chats/{id}/context-audit: what was sent in this chat, what was left out, and why."""

from __future__ import annotations

from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from gateway.errors import ChatNotFound, InvalidRequest
from gateway.web.json_response import json_response
from gateway.web.rooms import Rooms
from gateway.web.wire_audit import VIEWS, audit_object
from gateway.web.wire_options import checked_chat_id


class ContextAudit:
    """The endpoint."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    async def show(self, request: Request) -> Response:
        """The chat's audit in one of the views."""
        view = request.query_params.get("view", "full")
        if view not in VIEWS:
            raise InvalidRequest(f"`view` must be one of {', '.join(VIEWS)}.", param="view")
        tenant, chat_id = tenant_and_chat(request)
        stored = await self._rooms.store.latest(tenant, chat_id)
        if stored is None:
            raise ChatNotFound("There is no such chat.")
        return json_response({"audit": audit_object(stored, view)})


def tenant_and_chat(request: Request) -> tuple[str, str]:
    """Whose chat a path speaks of. Raises InvalidRequest for what can't be a chat id."""
    chat_id = checked_chat_id(unquote(request.path_params["id"], errors="replace"), "the path")
    return request.scope["state"]["client"].tenant or "", chat_id
