"""A prepared prompt knows whether it fits, says so in the words clients look for, and goes out as it came where it may."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from gateway.audit import AuditBlock, decode_body
from gateway.chat import ChatMessage
from gateway.errors import ProviderContextOverflow, ProviderRateLimit, TokenBudgetExceeded
from gateway.prepared import overflow_message
from tests.support.small_chats import chat_message, chat_request, prepared_prompt

RECOGNISED = [  # by which clients in the field know an overflow
    r"this model's maximum context length is \d+ tokens",
    r"prompt is too long",
    r"please reduce the length of the messages or completion",
    r"context_length_exceeded",
    r"requested \d+ tokens \(\d+ in the messages, \d+ in the completion\)",
]
VETOED = [
    r"rate[\s_-]?limit",
    r"per[\s_-]?minute",
    r"\b429\b",
    r"auth|permission|forbidden|quota|billing|too many requests",
]


def listed(reason: str, *, included: bool = False, truncated_to: int | None = None) -> AuditBlock:
    return AuditBlock(0, "m0", "user", "history", "request", None, 1, False, included, reason, truncated_to=truncated_to)


@pytest.mark.parametrize(("tokens", "fits", "deficit"), [(0, True, 0), (90, True, 0), (91, False, 1), (190, False, 100)])
def test_fitting_counts_the_reserve_but_not_the_margin(tokens: int, fits: bool, deficit: int) -> None:
    prompt = prepared_prompt(prompt_tokens=tokens)
    assert (prompt.fits, prompt.deficit) == (fits, deficit)


def test_what_fits_is_required_in_silence() -> None:
    prepared_prompt().require_fit()


def test_what_does_not_fit_is_refused_with_its_numbers() -> None:
    with pytest.raises(TokenBudgetExceeded) as caught:
        prepared_prompt(prompt_tokens=91, approximate=True).require_fit()
    assert caught.value.param == "messages"
    assert caught.value.metadata == {
        "contextLimit": 100,
        "replyReserve": 10,
        "protectedTokens": 91,
        "deficit": 1,
        "tokenizerProfile": "words",
        "approximate": True,
    }
    assert caught.value.message == overflow_message("TOKEN_BUDGET_EXCEEDED", limit=100, prompt=91, reserve=10)


def test_the_overflow_is_worded_as_clients_expect_it() -> None:
    message = overflow_message("PROVIDER_CONTEXT_OVERFLOW", limit=100, prompt=91, reserve=10)
    assert message == (
        "This model's maximum context length is 100 tokens. However, you requested 101 tokens (91 in the messages, 10 in the "
        "completion). Please reduce the length of the messages or completion. The prompt is too long: only protected messages "
        "are left. [PROVIDER_CONTEXT_OVERFLOW] [context_length_exceeded]"
    )
    assert [pattern for pattern in RECOGNISED if not re.search(pattern, message, re.IGNORECASE)] == []
    assert [pattern for pattern in VETOED if re.search(pattern, message, re.IGNORECASE)] == []


def test_left_out_and_compressed_blocks_are_told_apart() -> None:
    kept, gone = listed("fits", included=True), listed("context-shift")
    summarized, shortened = listed("summarized"), listed("shortened", included=True, truncated_to=3)
    prompt = prepared_prompt(blocks=[kept, gone, summarized, shortened])
    assert list(prompt.excluded) == [gone, summarized]
    assert list(prompt.truncated) == [summarized, shortened]


@pytest.mark.parametrize(("named", "limit"), [(80, 80), (None, 100), ("80", 100)])
def test_a_providers_overflow_is_told_in_the_same_words(named: object, limit: int) -> None:
    metadata: Any = {"providerStatus": 400} | ({} if named is None else {"providerLimit": named})
    told = prepared_prompt().explained(ProviderContextOverflow("theirs", metadata=metadata))
    prompt = max(90, limit - 10 + 1)
    assert type(told) is ProviderContextOverflow
    assert told.message == overflow_message("PROVIDER_CONTEXT_OVERFLOW", limit=limit, prompt=prompt, reserve=10)
    assert prompt + 10 > limit
    assert (told.param, told.metadata) == ("messages", metadata)


def test_every_other_error_stays_what_it_is() -> None:
    error = ProviderRateLimit("slowly")
    assert prepared_prompt().explained(error) is error


def test_the_summary_has_every_number() -> None:
    summary = prepared_prompt(upstream_model="m-1", diagnostics=()).summary()
    assert (summary.provider, summary.model, summary.upstream_model, summary.context_strategy) == ("up", "m", "m-1", "truncate")
    assert (summary.tokenizer, summary.approximate, summary.diagnostics) == ("words", False, ())
    assert (summary.context_limit, summary.reply_reserve, summary.safety_margin) == (100, 10, 5)
    assert (summary.prompt_tokens, summary.prompt_tokens_before) == (90, 120)


def test_an_untouched_request_goes_out_as_its_own_bytes() -> None:
    prompt = prepared_prompt()
    assert prompt.outgoing is prompt.request.body


@pytest.mark.parametrize(
    ("changes", "body"),
    [
        ({"upstream_model": "m-1"}, {"model": "m-1", "messages": ["a", "b"], "max_tokens": 50}),
        ({"output_limit": 20}, {"model": "m", "messages": ["a", "b"], "max_tokens": 20}),
        ({"kept": [1]}, {"model": "m", "messages": ["b"], "max_tokens": 50}),
    ],
)
def test_only_what_had_to_change_is_changed(changes: dict[str, Any], body: dict[str, Any]) -> None:
    request = chat_request(
        [{"role": "user", "content": "a"}, {"role": "user", "content": "b"}],
        body={"max_tokens": 50},
        reply_limit=50,
        limit_fields=("max_tokens",),
    )
    sent = json.loads(prepared_prompt(request, **changes).outgoing)
    assert list(sent) == list(body)
    assert {**sent, "messages": [message["content"] for message in sent["messages"]]} == body


def test_a_touched_request_goes_out_without_our_fields_and_the_rest_byte_for_byte() -> None:
    plain = chat_message({"role": "user", "content": "b"})
    spaced = ChatMessage(b'{ "role":"user", "n": 1.50e0 }', b'{ "role":"user", "n": 1.50e0 }', {}, "user", "", plain.links)
    marked = ChatMessage(b'{"role":"user","id":"x"}', b'{"role":"user"}', {}, "user", "", plain.links)
    fields = {'we"ird': b"1E2", "model": b'"\\u006d"', "messages": b"[]"}
    request = chat_request([spaced, marked], fields=fields, untouched=False)
    assert prepared_prompt(request).outgoing == (
        b'{"we\\"ird":1E2,"model":"\\u006d","messages":[{ "role":"user", "n": 1.50e0 },{"role":"user"}]}'
    )


def test_of_two_reply_limits_only_the_larger_is_lowered() -> None:
    request = chat_request(
        [{"role": "user", "content": "a"}],
        body={"max_tokens": 5, "max_completion_tokens": 500},
        reply_limit=500,
        limit_fields=("max_completion_tokens", "max_tokens"),
    )
    sent = json.loads(prepared_prompt(request, output_limit=20).outgoing)
    assert (sent["max_tokens"], sent["max_completion_tokens"]) == (5, 20)


def test_what_is_shaped_goes_out_and_stands_in_the_audit_in_its_own_order() -> None:
    request = chat_request(
        [{"role": "user", "content": "a"}, {"role": "system", "content": "s"}, {"role": "user", "content": "b"}]
    )
    messages = [*request.messages, chat_message({"role": "user", "content": "u u"})]
    prompt = prepared_prompt(request, messages=messages, kept=[1, 3], shaped=True)
    assert [message["content"] for message in json.loads(prompt.outgoing)["messages"]] == ["s", "u u"]
    assert list(map(bytes, decode_body(prompt.body()).provider_messages())) == [messages[1].raw, messages[3].raw]
