"""Every URL on one page."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Lifespan

from gateway.errors import ClientCancelled, GatewayError, MethodNotAllowed, NotFound
from gateway.web.chat_completions import ChatCompletions
from gateway.web.chats import Chats
from gateway.web.context_audit import ContextAudit
from gateway.web.context_preview import ContextPreview
from gateway.web.error_responses import as_internal, error_headers, error_object
from gateway.web.health import Health
from gateway.web.json_response import json_response
from gateway.web.models import Models
from gateway.web.rooms import Rooms


def routes(rooms: Rooms) -> list[Route]:
    """Every URL."""
    chat, models, audit = ChatCompletions(rooms), Models(rooms), ContextAudit(rooms)
    health, preview, chats = Health(rooms), ContextPreview(rooms), Chats(rooms)
    return [
        Route("/v1/chat/completions", chat),
        Route("/chat/completions", chat),
        Route("/v1/models", models.list, methods=["GET"]),
        Route("/models", models.list, methods=["GET"]),
        Route("/v1/models/{id:path}", models.one, methods=["GET"]),
        Route("/api/v2/context-preview", preview.show, methods=["POST"]),
        Route("/api/v2/chats/{id}", chats.delete, methods=["DELETE"]),
        Route("/api/v2/chats/{id}/context-audit", audit.show, methods=["GET"]),
        Route("/healthz", health.alive, methods=["GET"]),
        Route("/readyz", health.ready, methods=["GET"]),
    ]


def application(rooms: Rooms, lifespan: Lifespan[Starlette]) -> Starlette:
    """The application behind the guards: the routes, and errors as JSON."""
    handlers = {HTTPException: _http_error, GatewayError: _gateway_error, Exception: _defect}
    return Starlette(routes=routes(rooms), lifespan=lifespan, exception_handlers=handlers)  # type: ignore[arg-type]


async def _http_error(request: Request, error: HTTPException) -> Response:
    if error.status_code == 405:
        return _answer(MethodNotAllowed("This path does not take that method."))
    return _answer(NotFound("There is no such path."))


async def _gateway_error(request: Request, error: GatewayError) -> Response:
    if isinstance(error, ClientCancelled):
        return Response(status_code=499)
    return _answer(error)


async def _defect(request: Request, error: Exception) -> Response:
    return _answer(as_internal(error, request.scope))


def _answer(error: GatewayError) -> Response:
    return json_response(error_object(error), error.status, error_headers(error))
