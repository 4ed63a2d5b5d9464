"""Every URL on one page."""

from __future__ import annotations

from starlette.routing import Route, Router
from starlette.types import Lifespan

from gateway.web.chat_completions import ChatCompletions
from gateway.web.chats import Chats
from gateway.web.context_audit import ContextAudit
from gateway.web.context_preview import ContextPreview
from gateway.web.health import Health
from gateway.web.metrics import show_metrics
from gateway.web.models import Models
from gateway.web.openapi import show_description
from gateway.web.passthrough import Passthrough
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
        Route("/v1/{below:path}", Passthrough(rooms)),
        Route("/api/v2/context-preview", preview.show, methods=["POST"]),
        Route("/api/v2/chats", chats.list, methods=["GET"]),
        Route("/api/v2/chats/{id}", chats.one, methods=["GET", "DELETE"]),
        Route("/api/v2/chats/{id}/context-audit/blocks", audit.blocks, methods=["GET"]),
        Route("/api/v2/chats/{id}/context-audit", audit.show, methods=["GET"]),
        Route("/openapi.json", show_description, methods=["GET"]),
        Route("/healthz", health.alive, methods=["GET"]),
        Route("/readyz", health.ready, methods=["GET"]),
        Route("/metrics", show_metrics, methods=["GET"]),
    ]


def application(rooms: Rooms, lifespan: Lifespan[Router]) -> Router:
    """The application behind the guards, which turn its errors into JSON. A bare router: each layer costs every request."""
    return Router(routes=routes(rooms), redirect_slashes=False, lifespan=lifespan)
