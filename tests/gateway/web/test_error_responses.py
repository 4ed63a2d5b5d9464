"""Errors are told in the shape and in words that OpenAI clients understand, and never in words that mislead them."""

from __future__ import annotations

import json
import re
import tomllib
from importlib.resources import files

import pytest

from gateway.errors import (
    ClientCancelled,
    GatewayError,
    Internal,
    InvalidRequest,
    ProviderContextOverflow,
    ProviderRateLimit,
    ShuttingDown,
    StoreUnavailable,
    TokenBudgetExceeded,
)
from gateway.prepared import overflow_message
from gateway.web.error_responses import as_internal, error_headers, error_object, send_error
from tests.gateway.test_errors import leaves
from tests.support.rooms import Connection, run

OVERFLOW = [  # patterns by which clients in the field take an error for an overflow
    r"context\s*(?:length|window|limit)",
    r"maximum\s*context",
    r"(?:prompt|input) is too long",
    r"input too long",
    r"reduce the length of",
    r"context[_ ]length[_ ]exceeded",
    r"tokens?\s*exceed",
    r"too\s*many\s*tokens?",
    r"token limit",
    r"max_tokens\b",
    r"exceeds the (?:model|limit of|available context|context window)",
    r"(?:too large for model|payload too large|content_too_large|request_too_large)",
    r"TOKEN_BUDGET_EXCEEDED",
    r"use a shorter prompt",
]


def error_of(kind: type[GatewayError]) -> GatewayError:
    return kind("why", param="messages", metadata={"n": 1})


@pytest.mark.parametrize("kind", list(leaves()), ids=lambda kind: kind.__name__)
def test_every_error_is_an_object_of_the_same_shape(kind: type[GatewayError]) -> None:
    found = error_object(error_of(kind))
    assert found == {"error": {"message": "why", "type": kind.type, "param": "messages", "code": kind.code, "metadata": {"n": 1}}}


@pytest.mark.parametrize("kind", list(leaves()), ids=lambda kind: kind.__name__)
def test_every_error_says_whether_and_when_to_try_again(kind: type[GatewayError]) -> None:
    headers = dict(error_headers(error_of(kind)))
    assert (headers.get(b"x-should-retry") == b"false") is not kind.retryable
    assert (b"retry-after" in headers) is (kind.default_status in (429, 503))


def test_the_generation_is_named_beside_the_numbers() -> None:
    error = Internal("x", metadata={"n": 1})
    assert error_object(error, generation_id="gen_1")["error"]["metadata"] == {"n": 1, "generationId": "gen_1"}
    assert error.metadata == {"n": 1}


def test_the_overflow_code_is_chosen_for_one_error_alone() -> None:
    named = {"overflow_code": "context_length_exceeded"}
    assert error_object(TokenBudgetExceeded("x"), **named)["error"]["code"] == "context_length_exceeded"
    assert error_object(TokenBudgetExceeded("x"))["error"]["code"] == "TOKEN_BUDGET_EXCEEDED"
    assert error_object(ProviderContextOverflow("x"), **named)["error"]["code"] == "PROVIDER_CONTEXT_OVERFLOW"


@pytest.mark.parametrize(
    ("waits", "header"),
    [
        (None, b"1"),
        (0, b"1"),
        (0.2, b"1"),
        (2, b"2"),
        (2.1, b"3"),
        (60, b"60"),
        (61, b"60"),
        (1e9, b"60"),
        (float("inf"), b"60"),
        (float("nan"), b"1"),
    ],
)
def test_the_wait_is_told_in_whole_seconds_within_bounds(waits: float | None, header: bytes) -> None:
    for kind in (ProviderRateLimit, StoreUnavailable, ShuttingDown):
        assert dict(error_headers(kind("x", retry_after=waits)))[b"retry-after"] == header


def test_an_error_of_another_status_names_no_wait() -> None:
    assert error_headers(InvalidRequest("x", retry_after=5)) == [(b"x-should-retry", b"false")]


def test_an_error_is_sent_whole() -> None:
    connection = Connection()
    error = TokenBudgetExceeded("x")
    run(send_error(connection.send, error, [(b"x-own", b"1")], overflow_code="c", generation_id="g"))
    assert connection.status == 400
    assert json.loads(connection.body) == error_object(error, overflow_code="c", generation_id="g")
    assert connection.sent[0]["headers"][-2:] == [(b"x-should-retry", b"false"), (b"x-own", b"1")]


def test_a_defect_is_told_to_the_log_and_not_to_the_client(caplog: pytest.LogCaptureFixture) -> None:
    error = as_internal(ZeroDivisionError("the secret"), {"method": "POST", "path": "/v1/x"})
    assert (error.code, error.message) == ("INTERNAL", "The gateway failed inside. Its log has the details.")
    assert "POST /v1/x" in caplog.text
    assert "the secret" in caplog.text
    assert isinstance(as_internal(ZeroDivisionError(), {}), Internal)


def provider_messages() -> dict[str, str]:
    found: dict[str, str] = tomllib.loads(files("gateway.providers").joinpath("errors.toml").read_text("utf-8"))["messages"]
    return found


@pytest.mark.parametrize("code", sorted(set(provider_messages()) - {"PROVIDER_CONTEXT_OVERFLOW"}))
def test_no_message_about_a_provider_reads_like_an_overflow(code: str) -> None:
    message = provider_messages()[code]
    assert [pattern for pattern in OVERFLOW if re.search(pattern, message, re.IGNORECASE)] == []


def source_messages() -> list[str]:
    """Every text that the source gives to an error, but for those of the two overflows."""
    raised = re.compile(r"\b(?:" + "|".join(kind.__name__ for kind in leaves()) + r")\(\s*(?:f?\"[^\"]*\"\s*)+")
    found: list[str] = []
    for folder in ("gateway", "gateway.web", "gateway.providers", "gateway.stores"):
        for file in files(folder).iterdir():
            if file.name.endswith(".py"):
                found += raised.findall(file.read_text("utf-8"))
    return found


def test_no_message_of_our_own_reads_like_an_overflow() -> None:
    messages = source_messages()
    assert len(messages) > 40
    assert [text for text in messages if any(re.search(pattern, text, re.IGNORECASE) for pattern in OVERFLOW)] == []


def test_the_overflows_do_read_like_one() -> None:
    message = overflow_message(TokenBudgetExceeded.code, limit=1, prompt=1, reserve=1)
    assert sum(bool(re.search(pattern, message, re.IGNORECASE)) for pattern in OVERFLOW) >= 5


def test_a_client_that_left_is_told_nothing_worth_a_retry() -> None:
    assert error_headers(ClientCancelled("x")) == [(b"x-should-retry", b"false")]
