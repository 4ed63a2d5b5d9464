"""Which error an answer is. The rows are shapes real servers use, with wording of our own around the telling phrase."""

from __future__ import annotations

import json
import re
import time
from email.utils import formatdate

import httpx
import pytest

from gateway.errors import ProviderError, ProviderTimeout
from gateway.providers.errors import _table, refusal, reported_error, transport_error


def openai(message: str = "x", kind: str | None = "invalid_request_error", code: object = None, param: str | None = None):
    return {"error": {"message": message, "type": kind, "param": param, "code": code}}


OVERFLOW = "This model's maximum context length is 8192 tokens. However, your messages resulted in 9001 tokens."
ROWS = [
    (401, openai("Incorrect API key provided: sk-x", code="invalid_api_key"), "AUTH"),
    (403, openai(kind="request_forbidden", code="unsupported_country_region_territory"), "PERMISSION"),
    (404, openai(code="model_not_found"), "NOT_FOUND"),
    (404, {"detail": "Not Found"}, "NOT_FOUND"),
    (429, openai("You exceeded your current quota", "insufficient_quota", "insufficient_quota"), "QUOTA"),
    (429, openai("Rate limit reached. Please try again in 1.2s.", "tokens", "rate_limit_exceeded"), "RATE_LIMIT"),
    (429, openai("Too many tokens, please wait before trying again."), "RATE_LIMIT"),
    (429, {"status": 429, "error": "INSUFFICIENT QUOTA", "message": "concurrent requests"}, "RATE_LIMIT"),
    (429, {"error": {"code": "quota_exceeded", "message": "Quota has been exhausted."}}, "QUOTA"),
    (429, {"error": {"details": [{"violations": [{"quotaId": "RequestsPerDayPerModel"}]}], "message": "quota"}}, "QUOTA"),
    (400, openai(OVERFLOW, param="messages", code="context_length_exceeded"), "CONTEXT_OVERFLOW"),
    (400, openai("Your input exceeds the context window of this model."), "CONTEXT_OVERFLOW"),
    (
        400,
        openai("max_tokens is too large: 8192. It supports at most 4096 completion tokens", param="max_tokens"),
        "MAX_TOKENS_INVALID",
    ),
    (400, openai("bad", param="max_completion_tokens"), "MAX_TOKENS_INVALID"),
    (400, openai("Use 'max_completion_tokens'", code="unsupported_parameter", param="max_tokens"), "BAD_REQUEST"),
    (
        400,
        {"error": {"code": 400, "message": "m", "type": "exceed_context_size_error", "n_prompt_tokens": 70, "n_ctx": 60}},
        "CONTEXT_OVERFLOW",
    ),
    (500, {"error": {"code": 500, "message": "the request exceeds the available context size"}}, "CONTEXT_OVERFLOW"),
    (
        500,
        {"error": {"code": 500, "message": "input (600 tokens) is too large to process", "type": "server_error"}},
        "SERVER_ERROR",
    ),
    (
        400,
        {"object": "error", "message": "Prompt contains 65 tokens, too large for model with 32 maximum context length"},
        "CONTEXT_OVERFLOW",
    ),
    (
        400,
        openai("Input length (5000) exceeds model's maximum context length (4096).", "BadRequestError", 400),
        "CONTEXT_OVERFLOW",
    ),
    (400, openai("maximum context length is 10 tokens; rate limit"), "BAD_REQUEST"),
    (529, {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}, "OVERLOADED"),
    (500, {"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, "OVERLOADED"),
    (400, [{"error": {"code": 400, "message": "API key not valid.", "status": "INVALID_ARGUMENT"}}], "AUTH"),
    (400, openai("The prompt triggered the content management policy", None, "content_filter"), "CONTENT_FILTER"),
    (422, {"detail": [{"type": "missing", "loc": ["body", "messages"], "msg": "Field required"}]}, "BAD_REQUEST"),
    (
        422,
        {"message": {"detail": [{"type": "less_than_equal", "loc": ["body", "max_tokens"], "msg": "m"}]}},
        "MAX_TOKENS_INVALID",
    ),
    (400, {"message": json.dumps({"error": {"message": "prompt is too long: 20 tokens > 10 maximum"}})}, "CONTEXT_OVERFLOW"),
    (413, {"error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}, "PAYLOAD_TOO_LARGE"),
    (413, openai("Request too large, tokens per minute", code="rate_limit_exceeded"), "RATE_LIMIT"),
    (400, openai("model 'x' not found"), "NOT_FOUND"),
    (402, {"error": "payment required"}, "QUOTA"),
    (400, {"error": {"type": "", "message": ""}, "type": "error"}, "BAD_REQUEST"),
    (501, {"error": {"type": "not_supported_error"}}, "BAD_REQUEST"),
    (502, b"<html><title>502 Bad Gateway</title>", "SERVER_ERROR"),
    (504, b"<html>", "TIMEOUT"),
    (500, b"", "SERVER_ERROR"),
    (503, b"", "OVERLOADED"),
    (521, b"\xff\xfe", "SERVER_ERROR"),
    (418, b"{", "BAD_REQUEST"),
    (307, b"", "INVALID_RESPONSE"),
    (400, b'{"error":' + b"[" * 60_000, "BAD_REQUEST"),
]


@pytest.mark.parametrize(("status", "body", "code"), ROWS)
def test_an_answer_is_told_by_words_then_texts_then_status(status, body, code):
    error = refusal(status, {}, body if isinstance(body, bytes) else json.dumps(body).encode())
    assert error.code == f"PROVIDER_{code}"
    assert error.metadata["providerStatus"] == status


def test_the_header_of_a_service_counts():
    assert refusal(400, {"x-amzn-errortype": "ServiceQuotaExceededException:http"}, b"{}").code == "PROVIDER_QUOTA"


@pytest.mark.parametrize(
    ("original", "code"),
    [
        (429, "RATE_LIMIT"),
        (400, "BAD_REQUEST"),
        (503, "OVERLOADED"),
        (None, "SERVER_ERROR"),
        (7, "SERVER_ERROR"),
        (True, "SERVER_ERROR"),
    ],
)
def test_who_stands_behind_the_provider_decides_where_it_only_relays(original, code):
    error = refusal(424, {}, json.dumps({"message": "m", "originalStatusCode": original}).encode())
    assert (error.code, error.metadata) == (f"PROVIDER_{code}", {"providerStatus": 424})
    assert refusal(500, {}, json.dumps({"originalStatusCode": original}).encode()).code == "PROVIDER_SERVER_ERROR"


TRAPS = [
    (400, "the story of an author who has authority over a keyring", "BAD_REQUEST"),
    (400, "your invalid api keyring", "BAD_REQUEST"),
    (400, "exceeds the context limitations of this tool", "BAD_REQUEST"),
    (400, "the prompt is too longwinded", "BAD_REQUEST"),
    (400, "too many input tokenizers", "BAD_REQUEST"),
    (400, "supermodel 'x' not found", "BAD_REQUEST"),
    (503, "the unoverloadedness", "OVERLOADED"),
    (500, "the unoverloadedness", "SERVER_ERROR"),
    (429, "Too many tokens, please wait before trying again.", "RATE_LIMIT"),
    (400, "Too many tokens, please wait before trying again.", "BAD_REQUEST"),
    (429, OVERFLOW, "RATE_LIMIT"),
    (429, "You exceeded your current quota. Please retry in 26.1s.", "RATE_LIMIT"),
    (429, "Rate limit reached on requests per day (RPD): Limit 200. Please try again in 7m12s.", "RATE_LIMIT"),
    (429, "Rate limit exceeded: free-models-per-day", "QUOTA"),
    (503, OVERFLOW, "OVERLOADED"),
    (413, "prompt is too long", "CONTEXT_OVERFLOW"),
    (404, "prompt is too long", "NOT_FOUND"),
    (400, "Prompt  is\nTOO long", "CONTEXT_OVERFLOW"),
    (400, "string_above_max_length: the prompt is too long", "BAD_REQUEST"),
]


@pytest.mark.parametrize(("status", "says", "code"), TRAPS)
def test_words_inside_words_and_texts_with_another_status_do_not_mislead(status, says, code):
    assert refusal(status, {}, json.dumps({"error": {"message": says}}).encode()).code == f"PROVIDER_{code}"


def test_a_daily_quota_is_told_from_a_rate_limit_by_its_name_alone():
    def said(quota):
        details = [{"violations": [{"quotaId": quota}]}, {"@type": "RetryInfo", "retryDelay": "36s"}]
        return json.dumps({"error": {"message": "You exceeded your current quota.", "details": details}}).encode()

    per_minute, per_day = (refusal(429, {}, said(f"RequestsPer{span}PerProject-FreeTier")) for span in ("Minute", "Day"))
    assert (per_minute.code, per_minute.retry_after) == ("PROVIDER_RATE_LIMIT", 36)
    assert (per_day.code, per_day.retry_after) == ("PROVIDER_QUOTA", None)


def test_a_code_wins_over_a_text():
    body = openai(OVERFLOW, code="content_filter")
    assert refusal(400, {}, json.dumps(body).encode()).code == "PROVIDER_CONTENT_FILTER"


def test_what_the_client_wrote_and_the_provider_echoes_decides_nothing():
    echoed = {"messages": [{"content": "rate limit, the prompt is too long", "code": "invalid_api_key"}]}
    body = {"detail": [{"type": "missing", "loc": ["body", "x"], "msg": "Field required", "input": echoed}]}
    assert refusal(422, {}, json.dumps(body).encode()).code == "PROVIDER_BAD_REQUEST"


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16", "utf-32-le"])
def test_an_answer_may_come_in_another_encoding(encoding):
    body = json.dumps(openai(OVERFLOW), ensure_ascii=False).encode(encoding)
    assert refusal(400, {}, body).metadata == {"providerStatus": 400, "providerLimit": 8192, "providerPromptTokens": 9001}


@pytest.mark.parametrize("cut", [65_536, 300_000])
def test_a_long_answer_is_told_by_what_came_of_it(cut):
    body = json.dumps(openai(OVERFLOW + "x" * 400_000, code="other")).encode()[:cut]
    assert refusal(400, {}, body).metadata == {"providerStatus": 400, "providerLimit": 8192, "providerPromptTokens": 9001}
    assert refusal(400, {}, b'{"error":{"code":"content_filter","message":"' + b"y" * cut).code == "PROVIDER_CONTENT_FILTER"


def test_the_error_of_a_proxy_is_read_inside_its_sentence():
    inner = json.dumps(openai("m", code="context_length_exceeded"))
    body = json.dumps({"error": {"message": f"The upstream said: {inner}", "type": "proxy_error"}})
    assert refusal(400, {}, body.encode()).code == "PROVIDER_CONTEXT_OVERFLOW"


@pytest.mark.parametrize(
    ("text", "limit", "prompt"),
    [
        (OVERFLOW, 8192, 9001),
        (
            "maximum context length is 4096 tokens. You requested 5000 tokens (904 in the messages, 4096 in the completion)",
            4096,
            904,
        ),
        ("input length and `max_tokens` exceed context limit: 179413 + 32768 > 200000", 200000, 179413),
        ("prompt is too long: 209303 tokens > 200000 maximum", 200000, 209303),
        ("request (70494 tokens) exceeds the available context size (67584 tokens)", 67584, 70494),
        ("The input token count exceeds the maximum number of tokens allowed (1048576).", 1048576, None),
        ("prompt is too long", None, None),
    ],
)
def test_an_overflow_tells_its_numbers(text, limit, prompt):
    metadata = refusal(400, {}, json.dumps({"error": {"message": text}}).encode()).metadata
    assert (metadata.get("providerLimit"), metadata.get("providerPromptTokens")) == (limit, prompt)


@pytest.mark.parametrize("fields", ['"n_ctx":0', '"n_ctx":true,"n_prompt_tokens":false', '"n_ctx":"4096"', '"message":"limit 1"'])
def test_what_is_no_number_of_tokens_is_none(fields):
    body = b'{"error":{"type":"exceed_context_size_error",%s}}' % fields.encode()
    assert refusal(400, {}, body).metadata == {"providerStatus": 400}


@pytest.mark.parametrize("status", [400, 429, 500])
def test_only_an_overflow_tells_tokens(status):
    body = b'{"error":{"code":"x","message":"prompt of 5 tokens","n_ctx":60,"n_prompt_tokens":70}}'
    assert refusal(status, {}, body).metadata == {"providerStatus": status}


def test_numbers_that_are_no_counts_are_left_out():
    body = b'{"error":{"type":"exceed_context_size_error","n_ctx":NaN,"n_prompt_tokens":1e999}}'
    assert refusal(400, {}, body).metadata == {"providerStatus": 400}


@pytest.mark.parametrize(
    ("headers", "body", "seconds"),
    [
        ({"retry-after-ms": "1200", "retry-after": "7"}, {}, 1.2),
        ({"retry-after": "7"}, {}, 7),
        ({"retry-after": "0.5"}, {}, 0.5),
        ({"retry-after": "soon"}, {}, None),
        ({"retry-after": "-1"}, {}, None),
        ({"retry-after": "nan"}, {}, None),
        ({}, {"error": {"details": [{"@type": "RetryInfo", "retryDelay": "26s"}]}}, 26),
        ({}, {"error": {"availability": {"retry_after": 3}}}, 3),
        ({}, {"error": {"metadata": {"headers": {"X-RateLimit-Reset": "4"}}}}, 4),
        ({}, {"error": {"message": "Please try again in 6m0s."}}, 360),
        ({"x-ratelimit-reset-tokens": "120ms"}, {}, 0.12),
        ({}, {"error": {"message": "Please try again in 250ms."}}, 0.25),
        ({}, {"error": {"message": "Please retry in 26.1s."}}, 26.1),
        ({}, {}, None),
    ],
)
def test_the_time_to_wait_is_read(headers, body, seconds):
    assert refusal(429, headers, json.dumps(body).encode()).retry_after == seconds


def test_the_time_to_wait_may_be_a_date():
    wait = refusal(503, {"retry-after": formatdate(time.time() + 30, usegmt=True)}, b"").retry_after
    assert wait is not None
    assert 25 < wait <= 30
    assert refusal(503, {"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, b"").retry_after == 0


def test_waiting_is_not_told_where_it_does_not_help():
    assert refusal(402, {"retry-after": "7"}, b"").retry_after is None


def test_when_a_limit_is_renewed_says_nothing_of_a_busy_server():
    assert refusal(503, {"x-ratelimit-reset-tokens": "9s"}, b"").retry_after is None


@pytest.mark.parametrize(("status", "own", "ours"), [(401, True, 401), (403, True, 403), (401, False, 403), (403, False, 403)])
def test_the_status_stays_when_the_key_was_the_clients(status, own, ours):
    assert refusal(status, {}, b"", own_key=own).status == ours


@pytest.mark.parametrize(
    ("body", "first", "in_band"),
    [
        ({"error": {"code": 429}}, "RATE_LIMIT", "RATE_LIMIT"),
        ({"error": {"code": "503"}}, "OVERLOADED", "OVERLOADED"),
        ({"error": {"code": 500}}, "SERVER_ERROR", "STREAM_ERROR"),
        ({"error": {"type": "server_error"}}, "SERVER_ERROR", "STREAM_ERROR"),
        ({"error": {"type": "rate_limit_error"}}, "RATE_LIMIT", "RATE_LIMIT"),
        ({"error": {"type": "timeout_error"}}, "TIMEOUT", "TIMEOUT"),
        ({"error": {"type": "overloaded_error"}}, "OVERLOADED", "OVERLOADED"),
        ({"error": {"message": "what", "code": "3051"}}, "UNKNOWN", "STREAM_ERROR"),
        ({"error": {"message": OVERFLOW}}, "CONTEXT_OVERFLOW", "CONTEXT_OVERFLOW"),
        ({"error": "Input validation error", "error_type": "validation"}, "BAD_REQUEST", "BAD_REQUEST"),
    ],
)
def test_an_error_object_inside_an_answer(body, first, in_band):
    raw = json.dumps(body).encode()
    assert reported_error(raw, in_band=False).code == f"PROVIDER_{first}"
    assert reported_error(raw, in_band=True).code == f"PROVIDER_{in_band}"


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (httpx.ConnectTimeout("sk-x"), "TIMEOUT"),
        (httpx.ReadTimeout("sk-x"), "TIMEOUT"),
        (httpx.WriteTimeout("sk-x"), "TIMEOUT"),
        (httpx.PoolTimeout("sk-x"), "OVERLOADED"),
        (httpx.ConnectError("sk-x"), "UNREACHABLE"),
        (httpx.ReadError("sk-x"), "UNREACHABLE"),
        (httpx.RemoteProtocolError("sk-x"), "UNREACHABLE"),
        (httpx.ProxyError("sk-x"), "UNREACHABLE"),
        (httpx.UnsupportedProtocol("sk-x"), "UNREACHABLE"),
        (httpx.InvalidURL("sk-x"), "UNREACHABLE"),
        (httpx.TooManyRedirects("sk-x"), "INVALID_RESPONSE"),
        (httpx.DecodingError("sk-x"), "INVALID_RESPONSE"),
    ],
)
def test_an_exception_is_told_by_its_class(error, code):
    ours = transport_error(error, connect_s=1.5)
    assert ours.code == f"PROVIDER_{code}"
    assert "sk-x" not in ours.message


def test_a_connect_timeout_names_its_seconds():
    error = transport_error(httpx.ConnectTimeout(""), connect_s=1.5)
    assert isinstance(error, ProviderTimeout)
    assert "1.5 s" in error.message
    assert error.metadata == {"timeoutSeconds": 1.5}


def test_our_words_are_never_mistaken_for_an_overflow_or_a_limit():
    overflow = re.compile(
        r"context[ _](length|window|limit)|maximum context|too (long|large)|tokens? exceed|too many tokens?|token limit"
        r"|max_tokens|exceeds the model|TOKEN_BUDGET_EXCEEDED|context_length_exceeded|reduce the length",
        re.IGNORECASE,
    )
    messages = _table().messages
    assert {kind.code for kind in ProviderError.__subclasses__()} - messages.keys() == {"PROVIDER_STREAM_TRUNCATED"}
    assert [text for text in messages.values() if overflow.search(text)] == []


def test_nothing_of_the_answer_is_told():
    secret = {"error": {"message": "sk-secret at https://host.corp", "code": "sk-secret", "param": "sk-secret"}}
    error = refusal(400, {"retry-after": "sk-secret"}, json.dumps(secret).encode())
    assert "secret" not in repr((error.message, error.metadata, error.param, error.retry_after))
