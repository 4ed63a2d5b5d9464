"""The life of an audit, seen from outside: prepared, then completed or failed, once; replaced and deleted as promised."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any

import openai
import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.chats import conversation, message, tokens_of, without_oldest
from tests.scenarios.loopback.errors import checked_error
from tests.scenarios.loopback.raw_client import RawClient
from tests.scenarios.loopback.running_gateway import RunningGateway
from tests.scenarios.loopback.upstream import Ending, Script, Step, Upstream
from tests.scenarios.loopback.waiting import until

SHORT = [{"role": "user", "content": "Name three rivers."}]


def request(script: Script, chat_id: str, **fields: Any) -> dict[str, Any]:
    """A request in a chat."""
    return {"model": script.model, "messages": SHORT, "contextShift": {"chatId": chat_id}, **fields}


def data_lines(answer: bytes) -> list[bytes]:
    """What the `data:` lines of a stream hold; a stream has no other lines but comments."""
    lines = [line for line in answer.split(b"\n") if line]
    assert all(line.startswith((b"data: ", b":")) for line in lines)
    return [line.removeprefix(b"data: ") for line in lines if not line.startswith(b":")]


@pytest.mark.parametrize("stream", [False, True])
def test_an_audit_can_be_read_while_the_provider_works(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, stream: bool
) -> None:
    gate = upstream.gate()
    script = upstream.script(gate, replies.stream() if stream else replies.plain())
    messages = conversation(turns=8)
    with RawClient(gateway.url) as client:
        client.post(request(script, chat_id, messages=messages, stream=stream))
        script.arrival()
        audit = gateway.audit(chat_id)
        gate.open()
        client.read_until(b"[DONE]" if stream else b'"usage"')
    assert audit is not None
    assert (audit["status"], audit["finishedAt"], audit["errorCode"], audit["usage"]) == ("prepared", None, None, None)
    assert audit["providerMessages"] == script.sent["messages"] == without_oldest(messages, 150)


def test_an_audit_tells_the_whole_story(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(replies.plain())
    messages = conversation(turns=8)
    response = gateway.post(request(script, chat_id, messages=messages, max_tokens=40))
    audit = gateway.audit(chat_id)
    assert audit is not None
    kept = without_oldest(messages, 160)
    assert audit["generationId"] == response.headers["x-context-generation-id"]
    assert (audit["chatId"], audit["tenant"], audit["provider"]) == (chat_id, None, "fake")
    assert (audit["model"], audit["upstreamModel"], audit["contextStrategy"]) == (script.model, script.model, "truncate")
    assert (audit["status"], audit["finishReason"], audit["usage"]) == ("completed", "stop", replies.USAGE)
    assert audit["tokenizer"] == {"profile": "o200k_base", "approximate": False}
    assert audit["budget"] == {
        "contextLimit": 200,
        "replyReserve": 40,
        "safetyMargin": 0,
        "promptTokens": tokens_of(kept),
        "promptTokensBefore": tokens_of(messages),
    }
    blocks = [block for block in audit["blocks"] if block["kind"] != "template"]
    assert [block["content"] for block in blocks] == [item["content"] for item in messages]
    assert sum(block["tokens"] for block in audit["blocks"] if block["included"]) == tokens_of(kept)
    assert {block["reason"] for block in blocks if not block["included"]} == {"context-shift"}
    assert [block["order"] for block in audit["blocks"]] == list(range(len(audit["blocks"])))
    assert datetime.fromisoformat(audit["createdAt"]) <= datetime.fromisoformat(audit["finishedAt"])
    assert "sk-of-the-gateway" not in json.dumps(audit)


@pytest.mark.parametrize("stream", [False, True])
def test_who_has_seen_the_end_finds_the_audit_completed(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, stream: bool
) -> None:
    script = upstream.script(replies.stream() if stream else replies.plain())
    for number in range(25):
        with RawClient(gateway.url) as client:
            client.post(request(script, f"{chat_id}-{number}", stream=stream))
            client.read_until(b"[DONE]" if stream else b'"usage"')
            audit = gateway.audit(f"{chat_id}-{number}")
        assert audit is not None
        assert (audit["status"], audit["finishReason"], audit["usage"]) == ("completed", "stop", replies.USAGE)


def test_without_a_chat_id_the_audit_is_kept_under_the_generation(gateway: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.plain())
    headers = gateway.post({"model": script.model, "messages": SHORT}).headers
    generation = headers["x-context-generation-id"]
    assert headers["x-context-chat-id"] == generation
    audit = gateway.audit(generation)
    assert audit is not None
    assert audit["status"] == "completed"


def test_a_prompt_over_budget_leaves_a_failed_audit(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(replies.plain())
    response = gateway.post(request(script, chat_id, messages=[message("user", 300)]))
    audit = gateway.audit(chat_id)
    assert audit is not None
    assert (audit["status"], audit["errorCode"]) == ("failed", "TOKEN_BUDGET_EXCEEDED")
    assert audit["generationId"] == response.headers["x-context-generation-id"]
    assert script.calls == []


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_of_the_provider_leaves_a_failed_audit(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, stream: bool
) -> None:
    script = upstream.script(replies.refusal(500, "secret words of the provider"))
    assert gateway.post(request(script, chat_id, stream=stream)).status_code == 502
    audit = gateway.audit(chat_id)
    assert audit is not None
    assert (audit["status"], audit["errorCode"]) == ("failed", "PROVIDER_SERVER_ERROR")
    assert "secret words" not in json.dumps(audit)


BREAKS: list[tuple[str, tuple[Step, ...], str]] = [
    ("reset", (Ending.RESET,), "PROVIDER_STREAM_TRUNCATED"),
    ("closed", (Ending.CLOSE,), "PROVIDER_STREAM_TRUNCATED"),
    ("ended", (replies.END,), "PROVIDER_STREAM_TRUNCATED"),
    ("done-too-early", (replies.DONE, replies.END), "PROVIDER_STREAM_TRUNCATED"),
    ("error-object", (replies.event(b'{"error": {"message": "oops"}}'), replies.END), "PROVIDER_STREAM_ERROR"),
    ("rate-limit", (replies.event(b'{"error": {"message": "slow", "code": 429}}'), replies.END), "PROVIDER_RATE_LIMIT"),
]


@pytest.mark.parametrize(("steps", "code"), [case[1:] for case in BREAKS], ids=[case[0] for case in BREAKS])
def test_a_broken_stream_says_so_and_leaves_a_failed_audit(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, steps: tuple[Step, ...], code: str
) -> None:
    seen = upstream.gate()
    script = upstream.script(replies.STREAM_HEAD, replies.piece("The Nile"), seen, *steps)
    with RawClient(gateway.url) as client:
        client.post(request(script, chat_id, stream=True))
        head = client.read_until(b"The Nile")
        seen.open()
        answer = head + client.read_until(b"[DONE]\n\n")
    body = b"".join(line for line in answer.partition(b"\r\n\r\n")[2].splitlines(keepends=True) if not line.endswith(b"\r\n"))
    first, broken, done = data_lines(body)
    assert json.loads(first)["choices"][0]["delta"]["content"] == "The Nile"
    assert done == b"[DONE]"
    error = checked_error(json.loads(broken))
    audit = gateway.audit(chat_id)
    assert audit is not None
    assert (audit["status"], audit["errorCode"], audit["finishReason"]) == ("failed", code, None)
    assert error["code"] == code
    assert error["metadata"]["generationId"] == audit["generationId"]


def test_the_official_client_raises_on_a_broken_stream(gateway: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.STREAM_HEAD, replies.piece("The Nile"), replies.END)
    with gateway.openai() as client:
        stream = client.chat.completions.create(model=script.model, messages=SHORT, stream=True)
        assert next(stream).choices[0].delta.content == "The Nile"
        with pytest.raises(openai.APIError) as caught:
            next(stream)
        stream.close()
    assert caught.value.code == "PROVIDER_STREAM_TRUNCATED"


def test_a_reply_that_talks_about_the_end_is_not_the_end(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    gate = upstream.gate()
    chunk = b'{"choices":[{"index":0,"finish_reason":null,"delta":{"content":"It ends with [DONE]"}}]}'
    script = upstream.script(replies.STREAM_HEAD, replies.event(chunk), gate, Ending.CLOSE)
    with RawClient(gateway.url) as client:
        client.post(request(script, chat_id, stream=True))
        client.read_until(b"It ends with")
        while_it_runs = gateway.audit(chat_id)
        gate.open()
        client.read_until(b"PROVIDER_STREAM_TRUNCATED")
    assert while_it_runs is not None
    assert while_it_runs["status"] == "prepared"
    assert gateway.ended_audit(chat_id)["status"] == "failed"


def test_a_newer_generation_replaces_and_an_older_one_changes_nothing(
    gateway: RunningGateway, upstream: Upstream, chat_id: str
) -> None:
    gate = upstream.gate()
    slow, quick = upstream.script(gate, replies.refusal(500)), upstream.script(replies.plain())
    with RawClient(gateway.url) as client:
        client.post(request(slow, chat_id))
        slow.arrival()
        newer = gateway.post(request(quick, chat_id)).headers["x-context-generation-id"]
        gate.open()
        assert b" 502 " in client.read_until(b"\r\n\r\n")
    audit = gateway.audit(chat_id)
    assert audit is not None
    assert (audit["generationId"], audit["status"], audit["model"]) == (newer, "completed", quick.model)


@pytest.mark.parametrize("stream", [False, True])
def test_a_chat_deleted_meanwhile_stays_deleted(gateway: RunningGateway, upstream: Upstream, chat_id: str, stream: bool) -> None:
    gate = upstream.gate()
    script = upstream.script(gate, replies.stream() if stream else replies.plain())
    with RawClient(gateway.url) as client:
        client.post(request(script, chat_id, stream=stream))
        script.arrival()
        deleted = gateway.http.delete(f"/api/v2/chats/{chat_id}")
        assert (deleted.status_code, deleted.content) == (204, b"")
        gate.open()
        assert b" 200 " in client.read_until(b"[DONE]" if stream else b'"usage"')
    until(lambda: script.calls[0].played.is_set(), "the end of the script")
    assert gateway.audit(chat_id) is None
    assert gateway.http.delete(f"/api/v2/chats/{chat_id}").status_code == 404
    gateway.post(request(upstream.script(replies.plain()), chat_id))
    assert gateway.audit(chat_id) is not None
