"""What the official client sees when something is refused: the class, the code, and that nothing is sent in vain."""

from __future__ import annotations

from collections.abc import Callable

import openai
import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.chats import message, tokens_of
from tests.scenarios.loopback.errors import checked_answer
from tests.scenarios.loopback.running_gateway import RunningGateway
from tests.scenarios.loopback.upstream import Ending, Upstream

SHORT = [{"role": "user", "content": "Name three rivers."}]
TOO_LONG = [message("system", 120, "s"), message("user", 60, "u")]
UPSTREAM_WORDS = "words of the provider"

REFUSALS = [
    (401, None, openai.PermissionDeniedError, "PROVIDER_AUTH"),
    (403, None, openai.PermissionDeniedError, "PROVIDER_PERMISSION"),
    (402, None, openai.APIStatusError, "PROVIDER_QUOTA"),
    (404, "model_not_found", openai.NotFoundError, "PROVIDER_NOT_FOUND"),
    (400, "unknown_parameter", openai.BadRequestError, "PROVIDER_BAD_REQUEST"),
    (400, "content_filter", openai.BadRequestError, "PROVIDER_CONTENT_FILTER"),
    (429, None, openai.RateLimitError, "PROVIDER_RATE_LIMIT"),
    (429, "insufficient_quota", openai.APIStatusError, "PROVIDER_QUOTA"),
    (500, None, openai.InternalServerError, "PROVIDER_SERVER_ERROR"),
    (503, None, openai.InternalServerError, "PROVIDER_OVERLOADED"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("status", "code", "raised", "ours"), REFUSALS)
def test_a_refusal_of_the_provider_has_its_class_and_code(
    gateway: RunningGateway,
    upstream: Upstream,
    stream: bool,
    status: int,
    code: str | None,
    raised: type[openai.APIStatusError],
    ours: str,
) -> None:
    script = upstream.script(replies.refusal(status, UPSTREAM_WORDS, code=code))
    with gateway.openai() as client, pytest.raises(raised) as caught:
        client.chat.completions.create(model=script.model, messages=SHORT, stream=stream)
    response = caught.value.response
    error = checked_answer(response.status_code, response.headers, response.json())
    assert error["code"] == caught.value.code == ours
    assert UPSTREAM_WORDS not in response.text
    assert error["metadata"]["generationId"] == response.headers["x-context-generation-id"]


@pytest.mark.parametrize("retries", [0, 2])
def test_a_prompt_that_can_not_fit_is_refused_once_and_never_sent(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, retries: int
) -> None:
    script = upstream.script(replies.plain())
    with gateway.openai(max_retries=retries) as client, pytest.raises(openai.BadRequestError) as caught:
        client.chat.completions.create(
            model=script.model, messages=TOO_LONG, max_tokens=40, extra_body={"contextShift": {"chatId": chat_id}}
        )
    response = caught.value.response
    error = checked_answer(response.status_code, response.headers, response.json())
    tokens = tokens_of(TOO_LONG)
    assert caught.value.code == "TOKEN_BUDGET_EXCEEDED"
    assert error["metadata"] == {
        "contextLimit": 200,
        "replyReserve": 40,
        "protectedTokens": tokens,
        "deficit": tokens - 160,
        "tokenizerProfile": "o200k_base",
        "approximate": False,
        "generationId": response.headers["x-context-generation-id"],
    }
    assert response.headers["x-should-retry"] == "false"
    assert script.calls == []


def test_the_client_does_not_repeat_what_was_refused_for_good(gateway: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.refusal(400))
    with gateway.openai(max_retries=2) as client, pytest.raises(openai.BadRequestError):
        client.chat.completions.create(model=script.model, messages=SHORT)
    assert len(script.calls) == 1


def test_a_rate_limit_is_waited_for_and_tried_again(gateway: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.refusal(429, retry_after="1"), then=(replies.plain(),))
    with gateway.openai(max_retries=1) as client:
        reply = client.chat.completions.create(model=script.model, messages=SHORT)
    assert reply.choices[0].message.content == replies.TEXT
    assert len(script.calls) == 2


@pytest.mark.parametrize(("given", "told"), [("7", "7"), ("0.2", "1"), ("9999", "60"), ("soon", "1")])
def test_the_wait_is_told_in_whole_seconds(gateway: RunningGateway, upstream: Upstream, given: str, told: str) -> None:
    script = upstream.script(replies.refusal(429, retry_after=given))
    with gateway.openai() as client, pytest.raises(openai.RateLimitError) as caught:
        client.chat.completions.create(model=script.model, messages=SHORT)
    assert caught.value.response.headers["retry-after"] == told


def test_an_unknown_model_is_not_found(gateway: RunningGateway) -> None:
    with gateway.openai() as client, pytest.raises(openai.NotFoundError) as caught:
        client.chat.completions.create(model="nobody", messages=SHORT)
    assert (caught.value.code, caught.value.param) == ("MODEL_NOT_FOUND", "model")


BROKEN_ANSWERS: list[tuple[Callable[[], bytes], str]] = [
    (lambda: replies.answer(b"<html>busy</html>"), "PROVIDER_INVALID_RESPONSE"),
    (lambda: replies.plain(choices=[]), "PROVIDER_INVALID_RESPONSE"),
    (lambda: replies.answer(b'{"error": {"message": "overloaded", "code": 503}}'), "PROVIDER_OVERLOADED"),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(("answer", "code"), BROKEN_ANSWERS)
def test_an_answer_that_is_none_is_an_error(
    gateway: RunningGateway, upstream: Upstream, stream: bool, answer: Callable[[], bytes], code: str
) -> None:
    script = upstream.script(answer())
    response = gateway.post({"model": script.model, "messages": SHORT, "stream": stream})
    assert checked_answer(response.status_code, response.headers, response.json())["code"] == code


@pytest.mark.parametrize("ending", list(Ending))
@pytest.mark.parametrize("stream", [False, True])
def test_a_provider_that_hangs_up_is_unreachable(
    gateway: RunningGateway, upstream: Upstream, stream: bool, ending: Ending
) -> None:
    script = upstream.script(ending)
    response = gateway.post({"model": script.model, "messages": SHORT, "stream": stream})
    error = checked_answer(response.status_code, response.headers, response.json())
    assert (response.status_code, error["code"]) == (502, "PROVIDER_UNREACHABLE")


def test_an_error_as_the_first_event_of_a_stream_is_a_plain_error(gateway: RunningGateway, upstream: Upstream) -> None:
    failed = replies.event(b'{"error": {"message": "slow down", "code": 429}}') + replies.END
    script = upstream.script(replies.STREAM_HEAD, failed)
    with gateway.openai() as client, pytest.raises(openai.RateLimitError) as caught:
        client.chat.completions.create(model=script.model, messages=SHORT, stream=True)
    assert caught.value.code == "PROVIDER_RATE_LIMIT"
