"""The shape every error of the gateway has."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

RETRYABLE = {
    "PROVIDER_RATE_LIMIT",
    "PROVIDER_OVERLOADED",
    "PROVIDER_TIMEOUT",
    "PROVIDER_UNREACHABLE",
    "PROVIDER_SERVER_ERROR",
    "PROVIDER_INVALID_RESPONSE",
    "STORE_UNAVAILABLE",
    "SHUTTING_DOWN",
}


def checked_error(body: Any) -> dict[str, Any]:
    """The error in a body, which holds what the interface says and nothing else."""
    assert set(body) == {"error"}
    error: dict[str, Any] = body["error"]
    assert set(error) == {"message", "type", "param", "code", "metadata"}
    assert error["message"]
    assert error["type"]
    assert error["param"] is None or isinstance(error["param"], str)
    assert isinstance(error["metadata"], dict)
    return error


def checked_answer(status: int, headers: Mapping[str, str], body: Any) -> dict[str, Any]:
    """The error of an HTTP answer, with the headers that belong to it."""
    error = checked_error(body)
    assert headers["content-type"] == "application/json"
    assert headers["x-request-id"]
    assert headers.get("x-should-retry") == (None if error["code"] in RETRYABLE else "false")
    assert ("retry-after" in headers) == (status in (429, 503))
    return error
