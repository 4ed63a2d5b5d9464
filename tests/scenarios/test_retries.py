"""A provider that is busy for a moment is asked once more; a request that may have been taken up never is."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.errors import checked_answer
from tests.scenarios.loopback.raw_client import RawClient
from tests.scenarios.loopback.running_gateway import RunningGateway, write_config
from tests.scenarios.loopback.upstream import Ending, Script, Upstream

SHORT = [{"role": "user", "content": "Name three rivers."}]
BUSY = replies.refusal(503, retry_after="0")
BUSY_EVENT = replies.event({"error": {"code": 503, "message": "overloaded", "retry_after": 0}})


def request(script: Script, chat_id: str, **fields: Any) -> dict[str, Any]:
    """A request in a chat."""
    return {"model": script.model, "messages": SHORT, "contextShift": {"chatId": chat_id}, **fields}


@pytest.mark.parametrize("stream", [False, True])
def test_a_busy_moment_is_waited_for_unseen(gateway: RunningGateway, upstream: Upstream, chat_id: str, stream: bool) -> None:
    script = upstream.script(BUSY, then=(replies.stream() if stream else replies.plain(),))
    response = gateway.post(request(script, chat_id, stream=stream))
    assert response.status_code == 200
    assert replies.TEXT in response.text
    first, second = script.calls
    assert (first.body, first.headers) == (second.body, second.headers)
    audit = gateway.ended_audit(chat_id)
    assert (audit["status"], audit["errorCode"]) == ("completed", None)


@pytest.mark.parametrize("stream", [False, True])
def test_a_second_refusal_is_told(gateway: RunningGateway, upstream: Upstream, chat_id: str, stream: bool) -> None:
    script = upstream.script(BUSY, then=(replies.refusal(503, retry_after="1"),))
    response = gateway.post(request(script, chat_id, stream=stream))
    assert checked_answer(response.status_code, response.headers, response.json())["code"] == "PROVIDER_OVERLOADED"
    assert len(script.calls) == 2
    assert gateway.ended_audit(chat_id)["status"] == "failed"


@pytest.mark.parametrize(
    ("answer", "code"),
    [
        (replies.refusal(503), "PROVIDER_OVERLOADED"),
        (replies.refusal(503, retry_after="3"), "PROVIDER_OVERLOADED"),
        (replies.refusal(429, code="insufficient_quota", retry_after="0"), "PROVIDER_QUOTA"),
        (replies.refusal(529, retry_after="0"), "PROVIDER_OVERLOADED"),
        (replies.refusal(429, retry_after="0"), "PROVIDER_RATE_LIMIT"),
        (replies.refusal(500, retry_after="0"), "PROVIDER_SERVER_ERROR"),
        (replies.STREAM_HEAD + BUSY_EVENT + replies.END, "PROVIDER_OVERLOADED"),
        (replies.answer(b'{"error": {"code": 503}}', retry_after="0"), "PROVIDER_OVERLOADED"),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_any_other_refusal_is_told_at_once(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, stream: bool, answer: bytes, code: str
) -> None:
    script = upstream.script(answer, then=(replies.plain(),))
    response = gateway.post(request(script, chat_id, stream=stream))
    assert checked_answer(response.status_code, response.headers, response.json())["code"] == code
    assert len(script.calls) == 1


@pytest.mark.parametrize("begun", [b"HTTP/1.1 503 Busy\r\nretry-after: 0\r\ncontent-", replies.STREAM_HEAD])
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_broke_off_is_not_asked_for_again(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, stream: bool, begun: bytes
) -> None:
    script = upstream.script(begun, Ending.CLOSE, then=(replies.plain(),))
    response = gateway.post(request(script, chat_id, stream=stream))
    assert checked_answer(response.status_code, response.headers, response.json())["code"] == "PROVIDER_UNREACHABLE"
    assert len(script.calls) == 1


def test_after_the_first_chunk_nothing_is_sent_again(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(replies.STREAM_HEAD, replies.piece("The Nile"), BUSY_EVENT, then=(replies.stream(),))
    response = gateway.post(request(script, chat_id, stream=True))
    assert response.text.count("The Nile") == 1
    assert '"PROVIDER_OVERLOADED"' in response.text
    assert len(script.calls) == 1


def test_a_client_that_leaves_during_the_wait_ends_it(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(replies.refusal(503, retry_after="2"), then=(replies.plain(),))
    with RawClient(gateway.url) as client:
        client.post(request(script, chat_id))
        assert script.arrival().played.wait(5)
    audit = gateway.ended_audit(chat_id)
    assert (audit["status"], audit["errorCode"]) == ("cancelled", "CLIENT_CANCELLED")
    assert len(script.calls) == 1


def test_what_is_passed_on_is_tried_again_too(gateway: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(BUSY, then=(replies.answer(b'{"data": []}'),))
    response = gateway.http.post("/v1/embeddings", json={"model": script.model, "input": "Nile"})
    assert (response.status_code, response.json()) == (200, {"data": []})
    assert [json.loads(call.body)["input"] for call in script.calls] == ["Nile", "Nile"]


@pytest.fixture(scope="module")
def strict(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway that tries nothing twice."""
    folder = tmp_path_factory.mktemp("strict")
    write_config(folder, upstream.url, more="[retries]\nattempts = 0")
    with RunningGateway(folder) as running:
        yield running
    running.require_clean_log()


@pytest.mark.parametrize("stream", [False, True])
def test_retries_can_be_switched_off(strict: RunningGateway, upstream: Upstream, chat_id: str, stream: bool) -> None:
    script = upstream.script(BUSY, then=(replies.plain(),))
    response = strict.post(request(script, chat_id, stream=stream))
    error = checked_answer(response.status_code, response.headers, response.json())
    assert (error["code"], len(script.calls)) == ("PROVIDER_OVERLOADED", 1)
