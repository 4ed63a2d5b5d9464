"""GET /openapi.json: the description of the chat completion and of `/api/v2`, made when it is first asked for.

What is sent is described in `openapi_request`, what is answered in `openapi_answers`; here stand the paths.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from gateway import __version__
from gateway.errors import (
    ChatNotFound,
    GatewayError,
    HostNotAllowed,
    Internal,
    InvalidRequest,
    ModelNotFound,
    NotFound,
    OriginNotAllowed,
    PayloadTooLarge,
    ProviderAuth,
    ProviderError,
    ProviderPermission,
    ShuttingDown,
    StoreUnavailable,
    TokenBudgetExceeded,
    Unauthorized,
    UnsupportedMediaType,
)
from gateway.web.chats import LARGEST_PAGE, PAGE
from gateway.web.context_audit import LARGEST_WINDOW, LAST_BLOCK, WINDOW
from gateway.web.json_schema import Schema, choice, part, text, whole
from gateway.web.openapi_answers import (
    answer_schemas,
    context_headers,
    error_codes,
    error_with,
    request_id,
    retry_headers,
)
from gateway.web.openapi_request import CHAT_ID, header_parameters, request_schemas
from gateway.web.wire_audit import VIEWS

_ABOUT = """Fits conversations into a model's context window, in front of any OpenAI-compatible provider. Every other path of \
OpenAI's API below /v1 is passed on as it is. Without configured keys none is needed."""
_ALWAYS: tuple[type[GatewayError], ...] = (Unauthorized, HostNotAllowed, Internal)
_BODY = (InvalidRequest, ModelNotFound, PayloadTooLarge, UnsupportedMediaType)
_ONE_CHAT = (InvalidRequest, ChatNotFound, NotFound, StoreUnavailable)


async def show_description(request: Request) -> Response:
    """The OpenAPI document."""
    return Response(_document(), media_type="application/json")


@cache
def _document() -> bytes:
    return msgspec.json.encode(description())


def description() -> dict[str, Any]:
    """The OpenAPI document as an object."""
    schemas = {**request_schemas(), **answer_schemas()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "sluicegate", "version": __version__, "description": _ABOUT},
        "paths": _paths(),
        "components": {"schemas": dict(sorted(schemas.items())), "securitySchemes": _security_schemes()},
        "security": [*({name: []} for name in _security_schemes()), {}],
    }


def _security_schemes() -> dict[str, Schema]:
    headers = {"api-key": "apiKey", "x-sluicegate-key": "sluicegateKey"}
    found: dict[str, Schema] = {"bearer": {"type": "http", "scheme": "bearer"}}
    return found | {name: {"type": "apiKey", "in": "header", "name": header} for header, name in headers.items()}


def _paths() -> dict[str, Any]:
    chat, audit = "/api/v2/chats/{id}", "/api/v2/chats/{id}/context-audit"
    return {
        "/v1/chat/completions": {"post": _chat_completion()},
        "/api/v2/context-preview": {"post": _context_preview()},
        "/api/v2/chats": {"get": _list_chats()},
        audit: {"parameters": [_chat_id()], "get": _show_audit()},
        f"{audit}/blocks": {"parameters": [_chat_id()], "get": _list_blocks()},
        chat: {"parameters": [_chat_id()], "get": _show_chat(), "delete": _delete_chat()},
    }


def _chat_completion() -> Schema:
    errors = error_codes((*_ALWAYS, OriginNotAllowed, *_BODY, TokenBudgetExceeded, StoreUnavailable, ShuttingDown, *_provider()))
    errors[401] += [ProviderAuth.code, ProviderPermission.code]  # as sent, when the key was the client's own
    content = {"application/json": {"schema": part("ChatCompletion")}, "text/event-stream": {}}
    done = _answered("The provider's answer, plain or as a stream of chunks that ends with [DONE].", content, context_headers())
    told = {status: _refused(status, codes, context_headers()) for status, codes in errors.items()}
    return {
        "operationId": "createChatCompletion",
        "summary": "A chat completion, fitted into the model's context window",
        "parameters": header_parameters(),
        "requestBody": _json_body(part("ChatRequest")),
        "responses": {"200": done, **{str(status): answer for status, answer in told.items()}},
    }


def _context_preview() -> Schema:
    body = {"anyOf": [part("ChatRequest"), part("PreviewComparison")]}
    answer = {"anyOf": [part("Preview"), part("Previews")]}
    about = "What a generation would send; nothing is sent or stored"
    found = _operation("previewContext", about, answer, (OriginNotAllowed, *_BODY))
    return {**found, "parameters": header_parameters(), "requestBody": _json_body(body)}


def _list_chats() -> Schema:
    limit = _query("limit", whole(1, maximum=LARGEST_PAGE, default=PAGE))
    before = _query("before", text("`nextBefore` of an earlier page."))
    found = _operation("listChats", "The chats, the last used first", part("ChatList"), (InvalidRequest, StoreUnavailable))
    return {**found, "parameters": [limit, before]}


def _show_chat() -> Schema:
    return _operation("showChat", "One chat", part("Chat"), _ONE_CHAT)


def _delete_chat() -> Schema:
    about = "Deletes a chat with its audit; nothing under way brings it back"
    found = _operation("deleteChat", about, None, (*_ONE_CHAT, OriginNotAllowed))
    found["responses"]["204"] = _answered("It is gone.", {}, {})
    return found


def _show_audit() -> Schema:
    view = _query("view", {**choice(VIEWS, "`index` leaves the texts out, `summary` the blocks."), "default": VIEWS[0]})
    found = _operation("showAudit", "What was sent in a chat, what was left out, and why", part("AuditAnswer"), _ONE_CHAT)
    return {**found, "parameters": [view]}


def _list_blocks() -> Schema:
    first = _query("from", whole(0, maximum=LAST_BLOCK, default=0))
    limit = _query("limit", whole(1, maximum=LARGEST_WINDOW, default=WINDOW))
    found = _operation("listBlocks", "A window of the blocks of an audit", part("BlocksWindow"), _ONE_CHAT)
    return {**found, "parameters": [first, limit]}


def _operation(name: str, about: str, answer: Schema | None, errors: Sequence[type[GatewayError]]) -> Schema:
    codes = error_codes((*_ALWAYS, *errors))
    responses = {str(status): _refused(status, names, {}) for status, names in codes.items()}
    if answer is not None:
        responses = {"200": _answered("Done.", {"application/json": {"schema": answer}}, {}), **responses}
    return {"operationId": name, "summary": about, "responses": responses}


def _provider() -> list[type[GatewayError]]:
    return list(ProviderError.__subclasses__())


def _answered(about: str, content: Schema, headers: Schema) -> Schema:
    needed = {name: {"required": True, **header} for name, header in headers.items()}
    found: Schema = {"description": about, "headers": {**request_id(), **needed}}
    return {**found, "content": content} if content else found


def _refused(status: int, codes: Sequence[str], more: Schema) -> Schema:
    content = {"application/json": {"schema": error_with(codes)}}
    return {"description": ", ".join(codes), "headers": {**request_id(), **retry_headers(status), **more}, "content": content}


def _json_body(schema: Schema) -> Schema:
    return {"required": True, "content": {"application/json": {"schema": schema}}}


def _chat_id() -> Schema:
    return {"name": "id", "in": "path", "required": True, "schema": CHAT_ID}


def _query(name: str, schema: Schema) -> Schema:
    return {"name": name, "in": "query", "required": False, "schema": schema}
