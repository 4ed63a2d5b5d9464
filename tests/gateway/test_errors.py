"""Every error has its own stable code and the status that the interface gives to it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gateway import errors
from gateway.errors import GatewayError, ProviderError
from tests.scenarios.loopback.errors import RETRYABLE

STATUSES = {
    "INVALID_REQUEST": 400,
    "MODEL_NOT_FOUND": 404,
    "CHAT_NOT_FOUND": 404,
    "NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "UNAUTHORIZED": 401,
    "HOST_NOT_ALLOWED": 421,
    "ORIGIN_NOT_ALLOWED": 403,
    "PAYLOAD_TOO_LARGE": 413,
    "UNSUPPORTED_MEDIA_TYPE": 415,
    "TOKEN_BUDGET_EXCEEDED": 400,
    "CLIENT_CANCELLED": 499,
    "INTERNAL": 500,
    "STORE_UNAVAILABLE": 503,
    "SHUTTING_DOWN": 503,
    "PROVIDER_AUTH": 403,
    "PROVIDER_PERMISSION": 403,
    "PROVIDER_QUOTA": 402,
    "PROVIDER_RATE_LIMIT": 429,
    "PROVIDER_OVERLOADED": 503,
    "PROVIDER_CONTEXT_OVERFLOW": 400,
    "PROVIDER_MAX_TOKENS_INVALID": 400,
    "PROVIDER_BAD_REQUEST": 400,
    "PROVIDER_CONTENT_FILTER": 400,
    "PROVIDER_NOT_FOUND": 404,
    "PROVIDER_PAYLOAD_TOO_LARGE": 413,
    "PROVIDER_TIMEOUT": 504,
    "PROVIDER_UNREACHABLE": 502,
    "PROVIDER_SERVER_ERROR": 502,
    "PROVIDER_INVALID_RESPONSE": 502,
    "PROVIDER_UNKNOWN": 502,
    "PROVIDER_STREAM_ERROR": 502,
    "PROVIDER_STREAM_TRUNCATED": 502,
}


def leaves(kind: type[GatewayError] = GatewayError) -> Iterator[type[GatewayError]]:
    below = [inner for inner in kind.__subclasses__() if inner.__module__ == errors.__name__]  # others are a module's own affair
    if not below:
        yield kind
    for inner in below:
        yield from leaves(inner)


def test_every_code_has_its_status() -> None:
    assert {kind.code: kind("x").status for kind in leaves()} == STATUSES


def test_exactly_these_are_worth_another_try() -> None:
    assert {kind.code for kind in leaves() if kind.retryable} == RETRYABLE


def test_every_error_is_drawn_in_the_tree() -> None:
    assert errors.__doc__ is not None
    assert [kind.__name__ for kind in leaves() if kind.__name__ not in errors.__doc__] == []


@pytest.mark.parametrize("kind", list(leaves()), ids=lambda kind: kind.__name__)
def test_an_error_of_five_hundred_is_no_invalid_request(kind: type[GatewayError]) -> None:
    assert kind.default_status < 500 or kind.type != "invalid_request_error"


def test_an_error_says_what_it_was_told() -> None:
    error = ProviderError("why", param="messages", metadata={"n": 1}, status=403, retry_after=2.5)
    assert (str(error), error.message, error.param, error.status, error.retry_after) == ("why", "why", "messages", 403, 2.5)
    assert error.metadata == {"n": 1}


def test_an_error_that_was_told_nothing_has_its_defaults() -> None:
    error = GatewayError("why")
    assert (error.param, error.metadata, error.status, error.retry_after) == (None, {}, 500, None)
