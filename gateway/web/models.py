"""GET /v1/models and /v1/models/{id}: the configured models as an OpenAI list, with their limits."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import unquote

from starlette.requests import Request
from starlette.responses import Response

from gateway.errors import ModelNotFound
from gateway.model_catalog import ModelConfig
from gateway.web.json_response import json_response
from gateway.web.rooms import Engine, Rooms


class Models:
    """The endpoints."""

    def __init__(self, rooms: Rooms) -> None:
        self._rooms = rooms

    async def list(self, request: Request) -> Response:
        """All models that have a name."""
        engine = self._rooms.engine
        entries = await asyncio.gather(*(_entry(engine, config, config.name) for config in engine.models.models()))
        return json_response({"object": "list", "data": entries})

    async def one(self, request: Request) -> Response:
        """One model, by any name that it answers to."""
        name = unquote(request.path_params["id"])
        engine = self._rooms.engine
        if not name:
            raise ModelNotFound("The model's name is empty.", param="model")
        return json_response(await _entry(engine, engine.models.resolve(name), name))


async def _entry(engine: Engine, config: ModelConfig, name: str) -> dict[str, Any]:
    limits = await engine.limits.limits(config, config.upstream_name(name))
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": config.provider,
        "context_length": limits.context_limit,
        "max_model_len": limits.context_limit,
        "max_output_tokens": limits.max_output,
    }
