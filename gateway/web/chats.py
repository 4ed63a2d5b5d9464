"""DELETE /api/v2/chats/{id}: forgets a chat with its audit."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from gateway.errors import ChatNotFound
from gateway.web.context_audit import tenant_and_chat
from gateway.web.rooms import Rooms


class Chats:
    """The endpoint."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    async def delete(self, request: Request) -> Response:
        """Deletes the chat; nothing under way brings it back."""
        if not await self._rooms.store.delete_chat(*tenant_and_chat(request)):
            raise ChatNotFound("There is no such chat.")
        return Response(status_code=204)
