"""From a GatewayError to the error an OpenAI client understands. The only place where errors meet HTTP."""

from __future__ import annotations

import logging
import math
from collections.abc import Mapping
from typing import Any

import msgspec

from gateway.errors import GatewayError, Internal, TokenBudgetExceeded
from gateway.web.asgi import Headers, Send, respond

MAX_RETRY_AFTER_S = 60
_log = logging.getLogger(__name__)


def error_object(
    error: GatewayError, *, overflow_code: str = TokenBudgetExceeded.code, generation_id: str | None = None
) -> dict[str, Any]:
    """The JSON of an error. `overflow_code` is what stands in `code` for TOKEN_BUDGET_EXCEEDED."""
    metadata: dict[str, Any] = dict(error.metadata)
    if generation_id is not None:
        metadata["generationId"] = generation_id
    code = overflow_code if isinstance(error, TokenBudgetExceeded) else error.code
    found = {"message": error.message, "type": error.type, "param": error.param, "code": code, "metadata": metadata}
    return {"error": found}


def error_headers(error: GatewayError) -> Headers:
    """What tells clients whether and when to try again."""
    out: list[tuple[bytes, bytes]] = [] if error.retryable else [(b"x-should-retry", b"false")]
    if "allowed" in error.metadata:
        out.append((b"allow", str(error.metadata["allowed"]).encode()))
    if error.status in (429, 503):
        seconds = math.ceil(min(MAX_RETRY_AFTER_S, max(1, error.retry_after or 1)))
        out.append((b"retry-after", str(seconds).encode()))
    return out


async def send_error(send: Send, error: GatewayError, extra: Headers = (), **named: Any) -> None:
    """Answers with an error. `named` goes to `error_object`."""
    body = msgspec.json.encode(error_object(error, **named))
    await respond(send, error.status, body, [*error_headers(error), *extra])


def as_internal(error: Exception, where: Mapping[str, Any]) -> GatewayError:
    """A defect, told to the log with its place and to the client without."""
    _log.error("internal error at %s %s", where.get("method", ""), where.get("path", ""), exc_info=error)
    return Internal("The gateway failed inside. Its log has the details.")
