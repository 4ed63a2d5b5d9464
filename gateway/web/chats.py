"""/api/v2/chats: the chats of a tenant, one of them, and forgetting it with its audit."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from gateway.errors import ChatNotFound, InvalidRequest
from gateway.web.context_audit import tenant_and_chat
from gateway.web.json_response import json_response
from gateway.web.query import whole_number
from gateway.web.rooms import Rooms
from gateway.web.wire_chats import chat_object, place_of, token_of

PAGE, LARGEST_PAGE = 50, 200


class Chats:
    """The endpoints."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    async def list(self, request: Request) -> Response:
        """A page of chats, the last used first; `nextBefore` leads to the next one and is null on the last."""
        limit = whole_number(request.query_params, "limit", PAGE, least=1, most=LARGEST_PAGE)
        token = request.query_params.get("before")
        before = None if token is None else place_of(token)
        if token is not None and before is None:
            raise InvalidRequest("`before` must be a `nextBefore` of an earlier page.", param="before")
        tenant = request.scope["state"]["client"].tenant or ""
        found = await self._rooms.store.chats(tenant, limit + 1, before)
        more = token_of(found[limit - 1].place) if len(found) > limit else None
        return json_response({"chats": [chat_object(chat) for chat in found[:limit]], "nextBefore": more})

    async def one(self, request: Request) -> Response:
        """One chat, shown or deleted."""
        return await (self.delete if request.method == "DELETE" else self.show)(request)

    async def show(self, request: Request) -> Response:
        """One chat."""
        found = await self._rooms.store.chat(*tenant_and_chat(request))
        if found is None:
            raise ChatNotFound("There is no such chat.")
        return json_response(chat_object(found))

    async def delete(self, request: Request) -> Response:
        """Deletes the chat; nothing under way brings it back."""
        if not await self._rooms.store.delete_chat(*tenant_and_chat(request)):
            raise ChatNotFound("There is no such chat.")
        return Response(status_code=204)
