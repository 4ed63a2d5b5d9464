"""JSON answers of the ordinary endpoints."""

from __future__ import annotations

from typing import Any

import msgspec
from starlette.responses import Response

from gateway.web.asgi import Headers


def json_response(value: Any, status: int = 200, headers: Headers = ()) -> Response:
    """A JSON answer with a status and further headers."""
    response = Response(msgspec.json.encode(value), status, media_type="application/json")
    response.raw_headers.extend(headers)
    return response
