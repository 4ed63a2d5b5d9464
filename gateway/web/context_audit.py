"""GET /api/v2/chats/{id}/context-audit, and its blocks by the window: what was sent in this chat, what was left out, and why."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import TypeVar
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from gateway.errors import ChatNotFound, InvalidRequest
from gateway.stores.base import StoredAudit
from gateway.web.json_response import json_response
from gateway.web.query import whole_number
from gateway.web.rooms import Rooms
from gateway.web.wire_audit import VIEWS, audit_object, blocks_object
from gateway.web.wire_options import checked_chat_id

WINDOW, LARGEST_WINDOW, LAST_BLOCK = 200, 1000, 10**9
OFF_LOOP_BYTES = 256 * 1024  # a longer body is read in a thread: it takes more than a millisecond
T = TypeVar("T")


class ContextAudit:
    """The endpoints."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    async def show(self, request: Request) -> Response:
        """The chat's audit in one of the views."""
        view = request.query_params.get("view", "full")
        if view not in VIEWS:
            raise InvalidRequest(f"`view` must be one of {', '.join(VIEWS)}.", param="view")
        stored = await self._stored(request)
        return json_response({"audit": await _done(stored, partial(audit_object, stored, view))})

    async def blocks(self, request: Request) -> Response:
        """A window of the blocks of a long audit, and how many there are."""
        first = whole_number(request.query_params, "from", 0, least=0, most=LAST_BLOCK)
        limit = whole_number(request.query_params, "limit", WINDOW, least=1, most=LARGEST_WINDOW)
        stored = await self._stored(request)
        return json_response(await _done(stored, partial(blocks_object, stored, first, limit)))

    async def _stored(self, request: Request) -> StoredAudit:
        stored = await self._rooms.store.latest(*tenant_and_chat(request))
        if stored is None:
            raise ChatNotFound("There is no such chat.")
        return stored


def tenant_and_chat(request: Request) -> tuple[str, str]:
    """Whose chat a path speaks of. Raises InvalidRequest for what can't be a chat id."""
    chat_id = checked_chat_id(unquote(request.path_params["id"], errors="replace"), "the path")
    return request.scope["state"]["client"].tenant or "", chat_id


async def _done(stored: StoredAudit, work: Callable[[], T]) -> T:
    large = stored.body is not None and len(stored.body) > OFF_LOOP_BYTES
    return await asyncio.to_thread(work) if large else work()
