"""A provider of another format behind the real gateway: answers, streams, errors, departures, and their audits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.chats import conversation, without_oldest
from tests.scenarios.loopback.errors import checked_answer, checked_error
from tests.scenarios.loopback.raw_client import RawClient
from tests.scenarios.loopback.running_gateway import RunningGateway, write_config
from tests.scenarios.loopback.upstream import Script, Step, Upstream
from tests.support import anthropic_wire as wire

KEY = "sk-of-the-gateway"
PROMISED_S = 3.0  # the contract says one second; the rest is for a busy machine
SHORT = [{"role": "user", "content": "Name three rivers."}]
LIMIT, RESERVE = 200, 50
MODEL = f"""\
model = "claude"
provider = "claude"
upstream_model = "{wire.MODEL}"
context_limit = {LIMIT}
reply_reserve = {RESERVE}
tokenizer = "o200k_base"
"""


@pytest.fixture(scope="module")
def gateway(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway whose models are behind the library, which takes seconds to import: one for all tests."""
    folder = tmp_path_factory.mktemp("litellm")
    base_url = upstream.url.removesuffix("/v1")
    provider = f'[providers.claude]\nkind = "litellm"\nbase_url = "{base_url}"\napi_key = "{KEY}"'
    write_config(folder, upstream.url, more=provider, models={"claude": MODEL})
    with RunningGateway(folder) as running:
        yield running
    running.require_clean_log()
    assert KEY not in running.log.read_text()
    assert "LiteLLM" not in running.log.read_text()


def scripted(upstream: Upstream, *steps: Step) -> Script:
    """What the provider sends for the only model."""
    return upstream.script(*steps, model=wire.MODEL.partition("/")[2])


def request(chat_id: str, **fields: Any) -> dict[str, Any]:
    """A request in a chat."""
    return {"model": "claude", "messages": SHORT, "max_tokens": RESERVE, "contextShift": {"chatId": chat_id}, **fields}


def stream_of(*events: bytes) -> list[Step]:
    """The pieces of a stream without its end."""
    return [replies.STREAM_HEAD, *(replies.chunked(event) for event in events)]


def events_of(text: str) -> list[Any]:
    """The data of a stream's events, parsed; the last is [DONE]."""
    *data, done = [line.removeprefix("data: ") for line in text.splitlines() if line]
    assert done == "[DONE]"
    return [json.loads(item) for item in data]


def test_a_plain_answer_and_its_audit(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = scripted(upstream, replies.answer(wire.message()))
    answer = gateway.post(request(chat_id))
    assert answer.status_code == 200, answer.text
    assert answer.json()["choices"][0]["message"]["content"] == "Hello there"
    assert answer.headers["x-context-chat-id"] == chat_id
    assert script.arrival().headers["x-api-key"] == KEY
    assert set(script.sent) == {"model", "messages", "max_tokens"}
    audit = gateway.ended_audit(chat_id)
    assert (audit["status"], audit["finishReason"]) == ("completed", "stop")
    assert wire.COUNTED.items() <= audit["usage"].items()


def test_a_stream_and_its_audit(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    scripted(upstream, *stream_of(*wire.STREAM), replies.END)
    answer = gateway.post(request(chat_id, stream=True))
    chunks = events_of(answer.text)
    assert "".join(chunk["choices"][0]["delta"].get("content") or "" for chunk in chunks) == "Hello there"
    assert not any("usage" in chunk for chunk in chunks)
    audit = gateway.ended_audit(chat_id)
    assert (audit["status"], audit["finishReason"]) == ("completed", "stop")
    assert wire.COUNTED.items() <= audit["usage"].items()


def test_the_official_client_reads_answers_and_calls(gateway: RunningGateway, upstream: Upstream) -> None:
    used = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Oslo"}}
    scripted(upstream, replies.answer(wire.message(used, stop_reason="tool_use")))
    function = {"name": "weather", "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}
    with gateway.openai() as client:
        completion = client.chat.completions.create(
            model="claude", messages=SHORT, tools=[{"type": "function", "function": function}]
        )
        assert completion.choices[0].finish_reason == "tool_calls"
        assert json.loads(completion.choices[0].message.tool_calls[0].function.arguments) == {"city": "Oslo"}
        scripted(upstream, *stream_of(*wire.STREAM), replies.END)
        chunks = list(client.chat.completions.create(model="claude", messages=SHORT, stream=True))
    assert "".join(chunk.choices[0].delta.content or "" for chunk in chunks) == "Hello there"
    assert chunks[-1].choices[0].finish_reason == "stop"


def test_a_long_chat_is_shortened_before_it_is_translated(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = scripted(upstream, replies.answer(wire.message()))
    messages = conversation(8)
    gateway.post(request(chat_id, messages=messages))
    kept = without_oldest(messages, LIMIT - RESERVE)
    assert [part["text"] for part in script.sent["system"]] == [kept[0]["content"]]
    sent = [part["text"] for message in script.sent["messages"] for part in message["content"]]
    assert sent[-len(kept[1:]) :] == [message["content"] for message in kept[1:]]
    audit = gateway.ended_audit(chat_id)
    assert len([block for block in audit["blocks"] if not block["included"]]) == len(messages) - len(kept) > 0


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize(
    ("status", "kind", "code", "answered"),
    [
        (401, "authentication_error", "PROVIDER_AUTH", 403),
        (429, "rate_limit_error", "PROVIDER_RATE_LIMIT", 429),
        (529, "overloaded_error", "PROVIDER_OVERLOADED", 503),
    ],
)
def test_a_refusal_is_a_plain_error_in_our_words(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, status: int, kind: str, code: str, answered: int, stream: bool
) -> None:
    script = scripted(upstream, replies.answer(wire.error(kind, f"secret {KEY}"), status, retry_after="7"))
    response = gateway.post(request(chat_id, stream=stream))
    error = checked_answer(response.status_code, response.headers, response.json())
    assert (response.status_code, error["code"]) == (answered, code)
    assert "secret" not in response.text
    assert response.headers.get("retry-after") in (None, "7")
    assert len(script.calls) == 1
    audit = gateway.ended_audit(chat_id)
    assert (audit["status"], audit["errorCode"]) == ("failed", code)


@pytest.mark.parametrize(
    ("last", "code"),
    [
        (replies.chunked(wire.event(wire.error("overloaded_error", "secret"))) + replies.END, "PROVIDER_OVERLOADED"),
        (replies.END, "PROVIDER_STREAM_TRUNCATED"),
    ],
)
def test_a_stream_that_breaks_ends_with_an_error(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, last: bytes, code: str
) -> None:
    scripted(upstream, *stream_of(*wire.START, wire.text("Hello")), last)
    response = gateway.post(request(chat_id, stream=True))
    *chunks, error = events_of(response.text)
    assert chunks[0]["choices"][0]["delta"]["content"] == "Hello"
    assert not any(chunk["choices"][0]["finish_reason"] for chunk in chunks)
    assert checked_error(error)["code"] == code
    assert "secret" not in response.text
    audit = gateway.ended_audit(chat_id)
    assert (audit["status"], audit["errorCode"]) == ("failed", code)


def test_an_image_on_another_server_is_refused(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = scripted(upstream, replies.answer(wire.message()))
    image = {"type": "image_url", "image_url": {"url": f"{upstream.url}/cat.png", "detail": "low"}}
    response = gateway.post(request(chat_id, messages=[{"role": "user", "content": [image]}]))
    error = checked_answer(response.status_code, response.headers, response.json())
    assert (response.status_code, error["code"]) == (400, "INVALID_REQUEST")
    assert error["param"] == "messages[0].content[0].image_url.url"
    assert script.calls == []


@pytest.mark.parametrize("begun", [False, True], ids=["silent", "amid"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_a_client_that_leaves_closes_the_providers_connection(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, stream: bool, begun: bool
) -> None:
    whole = replies.answer(wire.message())
    amid = stream_of(*wire.START, wire.text("Hello")) if stream else [whole[:-20]]
    script = scripted(upstream, *(amid if begun else []), upstream.gate())
    client = RawClient(gateway.url)
    client.post(request(chat_id, stream=stream))
    call = script.arrival()
    if begun and stream:
        client.read_until(b"Hello")
    client.leave()
    assert call.gone.wait(PROMISED_S), "the connection to the provider stayed open"
    audit = gateway.ended_audit(chat_id)
    assert (audit["status"], audit["errorCode"]) == ("cancelled", "CLIENT_CANCELLED")
