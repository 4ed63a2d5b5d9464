"""A provider that finds the prompt too long: the client gets its answer, the audit says so, the next request starts lower."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.errors import checked_answer
from tests.scenarios.loopback.running_gateway import SMALL, RunningGateway, run_command, write_config
from tests.scenarios.loopback.upstream import Script, Upstream

LLAMA = {"code": 400, "message": "request (190 tokens) exceeds the available context size (128 tokens)"}
OVERFLOWS = {
    "numbers": {"error": {**LLAMA, "type": "exceed_context_size_error", "n_prompt_tokens": 120, "n_ctx": 128}},
    "no numbers": {"error": {"message": "prompt is too long", "type": "invalid_request_error", "code": None}},
}


def long_chat(turns: int = 12) -> list[dict[str, str]]:
    """A chat of a hundred and some tokens that just about fills the window."""
    roles = ("user", "assistant")
    return [{"role": roles[n % 2], "content": f"Turn {n}: tell me about one more river."} for n in range(turns + 1)]


def body_of(script: Script, chat_id: str, **fields: Any) -> dict[str, Any]:
    return {"model": script.model, "messages": long_chat(), "contextShift": {"chatId": chat_id}, **fields}


@pytest.fixture
def taught(upstream: Upstream, tmp_path: Any) -> Iterator[RunningGateway]:
    """A gateway of its own: what it learns is nobody else's."""
    write_config(tmp_path, upstream.url, provider='api_key = "sk-1"')
    with RunningGateway(tmp_path) as running:
        yield running
        running.require_clean_log()


def refusing(upstream: Upstream, refusal: bytes, answer: bytes) -> Script:
    return upstream.script(refusal, then=(answer,))


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("kind", sorted(OVERFLOWS))
def test_an_overflow_costs_the_client_nothing(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, kind: str, stream: bool
) -> None:
    refusal = replies.answer(json.dumps(OVERFLOWS[kind]).encode(), 400)
    script = refusing(upstream, refusal, replies.stream() if stream else replies.plain())
    response = gateway.post(body_of(script, chat_id, stream=stream))
    assert response.status_code == 200
    assert replies.TEXT in response.text
    first, second = (len(call.json["messages"]) for call in script.calls)
    assert second < first
    audit = gateway.ended_audit(chat_id)
    assert audit["status"] == "completed"
    assert [message["content"] for message in audit["providerMessages"]] == [
        message["content"] for message in script.calls[1].json["messages"]
    ]
    assert response.headers["x-context-prompt-tokens"] == str(audit["budget"]["promptTokens"])
    assert response.headers["x-context-limit"] == str(audit["budget"]["contextLimit"])
    assert audit["budget"]["contextLimit"] == (128 if kind == "numbers" else 200)
    assert "overflow-retry" in [remark["code"] for remark in audit["diagnostics"]]


def test_an_overflow_in_the_first_event_of_a_stream_is_one(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    refused = replies.STREAM_HEAD + replies.event(OVERFLOWS["numbers"]) + replies.END
    script = refusing(upstream, refused, replies.stream())
    response = gateway.post(body_of(script, chat_id, stream=True))
    assert (response.status_code, len(script.calls)) == (200, 2)
    assert response.text.endswith("data: [DONE]\n\n")
    assert "error" not in response.text


def test_an_overflow_inside_a_good_plain_answer_is_one(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = refusing(upstream, replies.answer(json.dumps(OVERFLOWS["numbers"]).encode()), replies.plain())
    response = gateway.post(body_of(script, chat_id))
    assert (response.status_code, len(script.calls)) == (200, 2)


def test_two_overflows_are_an_error_in_the_words_that_clients_know(
    gateway: RunningGateway, upstream: Upstream, chat_id: str
) -> None:
    script = upstream.script(replies.answer(json.dumps(OVERFLOWS["numbers"]).encode(), 400))
    response = gateway.post(body_of(script, chat_id))
    error = checked_answer(response.status_code, response.headers, response.json())
    assert (response.status_code, error["code"], len(script.calls)) == (400, "PROVIDER_CONTEXT_OVERFLOW", 2)
    assert "maximum context length is 128 tokens" in error["message"]
    assert "[PROVIDER_CONTEXT_OVERFLOW] [context_length_exceeded]" in error["message"]
    assert gateway.ended_audit(chat_id)["errorCode"] == "PROVIDER_CONTEXT_OVERFLOW"


def test_it_is_not_tried_again_when_only_the_current_turn_is_left(
    gateway: RunningGateway, upstream: Upstream, chat_id: str
) -> None:
    script = upstream.script(replies.answer(json.dumps(OVERFLOWS["no numbers"]).encode(), 400))
    response = gateway.post(body_of(script, chat_id, messages=long_chat(0)))
    assert (response.status_code, len(script.calls)) == (400, 1)


def test_what_was_learned_holds_for_the_next_requests_the_preview_the_check_and_after_a_restart(
    taught: RunningGateway, upstream: Upstream, chat_id: str
) -> None:
    refusal = replies.answer(json.dumps(OVERFLOWS["numbers"]).encode(), 400)
    script = refusing(upstream, refusal, replies.plain())
    body = body_of(script, chat_id)
    taught.post(body)
    assert taught.post(body).headers["x-context-limit"] == "128"
    assert len(script.calls) == 3
    preview = taught.http.post("/api/v2/context-preview", json=body).json()
    assert preview["budget"]["contextLimit"] == 128
    assert preview["blocks"] == taught.ended_audit(chat_id)["blocks"]
    assert "learned-from-overflow" in [remark["code"] for remark in preview["diagnostics"]]
    checked = run_command(taught.folder, "check", "--config", "config").stdout
    assert f"learned.fake.{script.model}.context_limit = 128  (overflow, account " in checked
    (taught.folder / "request.json").write_text(json.dumps(body))
    previewed = run_command(taught.folder, "preview", "request.json", "--config", "config", "--json").stdout
    assert json.loads(previewed)["budget"]["contextLimit"] == 128
    taught.end()
    taught.start()
    assert taught.post(body).headers["x-context-limit"] == "128"
    assert len(script.calls) == 4


def test_another_model_and_another_key_are_not_bound_by_it(taught: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    refusal = replies.answer(json.dumps(OVERFLOWS["numbers"]).encode(), 400)
    script, other = refusing(upstream, refusal, replies.plain()), upstream.script(replies.plain())
    taught.post(body_of(script, chat_id))
    assert taught.post(body_of(other, chat_id)).headers["x-context-limit"] == "200"
    write_config(taught.folder, upstream.url, provider='api_key = "sk-2"', models={"small": SMALL})
    taught.end()
    taught.start()
    assert taught.post(body_of(script, chat_id)).headers["x-context-limit"] == "200"


def test_a_check_without_a_store_makes_none(upstream: Upstream, tmp_path: Any) -> None:
    write_config(tmp_path, upstream.url)
    assert run_command(tmp_path, "check", "--config", "config").returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["config"]
