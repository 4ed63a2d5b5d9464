"""POST /api/v2/context-preview: the same preparation as a generation, and nothing else.

Can reach neither stores nor providers nor recorder nor generation; over budget is an answer here.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Any, Protocol

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gateway.chat import ChatRequest
from gateway.errors import InvalidRequest
from gateway.preparation import PromptPreparer
from gateway.settings import Settings
from gateway.web import strict_json
from gateway.web.asgi import lower_headers
from gateway.web.json_response import json_response
from gateway.web.request_body import read_body, require_json
from gateway.web.wire import ChatReader
from gateway.web.wire_prompt import preview_object

MOST_STRATEGIES = 32  # of one comparison; each is a preparation
_Names = Annotated[list[Annotated[str, msgspec.Meta(min_length=1)]], msgspec.Meta(min_length=1, max_length=MOST_STRATEGIES)]


class PreviewEngine(Protocol):
    """The parts of an engine that a preview may reach."""

    @property
    def settings(self) -> Settings:
        """The settings in force."""

    @property
    def preparer(self) -> PromptPreparer:
        """What a generation prepares with, too."""


class PreviewRooms(Protocol):
    """The rooms that a preview may enter."""

    @property
    def engine(self) -> PreviewEngine:
        """The engine in force."""

    @property
    def reader(self) -> ChatReader:
        """What a generation is read with, too."""


class ContextPreview:
    """The endpoint."""

    def __init__(self, rooms: PreviewRooms) -> None:
        self._rooms = rooms

    async def show(self, request: Request) -> Response:
        """What a generation would send; of several strategies, each."""
        engine = self._rooms.engine
        headers = lower_headers(request.scope)
        require_json(headers.get("content-type", ""))
        body = await read_body(request.receive, headers, engine.settings.server.max_body_bytes)
        fields = strict_json.fields(body)
        raw = fields["request"] if "request" in fields and "messages" not in fields else body
        tenant = request.scope["state"]["client"].tenant
        chat = self._rooms.reader.read(raw, headers, engine.settings.clients.chat_id_headers, tenant)
        if "strategies" not in fields:
            return json_response(await _preview(engine.preparer, chat))
        chosen = _strategies(fields["strategies"])
        previews = [await _preview(engine.preparer, _with_strategy(chat, name)) for name in chosen]
        return json_response({"previews": previews})


def _strategies(raw: bytes) -> list[str]:
    try:
        return msgspec.json.decode(raw, type=_Names)
    except msgspec.DecodeError as error:
        message = f"`strategies` must be a list of 1 to {MOST_STRATEGIES} names."
        raise InvalidRequest(message, param="strategies") from error


def _with_strategy(chat: ChatRequest, name: str) -> ChatRequest:
    return replace(chat, options=replace(chat.options, strategy=name))


async def _preview(preparer: PromptPreparer, chat: ChatRequest) -> dict[str, Any]:
    prepared = await preparer.prepare(chat)
    return preview_object(prepared.summary(), prepared.body(), fits=prepared.fits, deficit=prepared.deficit)
