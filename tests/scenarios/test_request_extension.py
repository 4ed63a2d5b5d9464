"""The request extension over the wire: reports, marks, chat ids and headers do their work and never reach the provider."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.chats import conversation, message, without_oldest
from tests.scenarios.loopback.running_gateway import RunningGateway
from tests.scenarios.loopback.upstream import Upstream

LONG = conversation(turns=6, tokens=24)
LEFT = without_oldest(LONG, 150)
OWN_FIELDS = ("contextShift", "context_shift", "contextStrategy", "meta", "pinned", "manualExcluded")


def left_out(report: dict[str, Any]) -> list[tuple[int, str]]:
    """Positions and reasons of what a report lists."""
    return [(block["index"], block["reason"]) for block in report["excluded"]]


def expected_left_out(kept: list[dict[str, Any]]) -> list[tuple[int, str]]:
    """The positions of what had to leave."""
    return [(position, "context-shift") for position, item in enumerate(LONG) if item not in kept]


def test_a_full_report_stands_on_the_answer(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(replies.plain())
    with gateway.openai() as client:
        raw = client.chat.completions.with_raw_response.create(
            model=script.model, messages=LONG, extra_body={"contextShift": {"chatId": chat_id, "report": "full"}}
        )
    reply = raw.parse()
    report = reply.to_dict()["contextShift"]
    assert isinstance(report, dict)
    assert set(report) == {"generationId", "promptTokens", "contextLimit", "replyReserve", "excluded", "truncated"}
    assert report["generationId"] == raw.headers["x-context-generation-id"]
    assert (report["contextLimit"], report["replyReserve"], report["truncated"]) == (200, 50, [])
    assert left_out(report) == expected_left_out(LEFT)
    assert set(report["excluded"][0]) == {"index", "id", "role", "kind", "tokens", "reason"}
    assert reply.choices[0].message.content == replies.TEXT


def test_a_report_stands_on_the_first_ordinary_chunk_of_a_stream(gateway: RunningGateway, upstream: Upstream) -> None:
    comment = replies.chunked(b": here it comes\n\n")
    script = upstream.script(replies.STREAM_HEAD, comment, replies.piece("one"), replies.piece(" two"), replies.FINISH)
    with gateway.openai() as client:
        stream = client.chat.completions.create(
            model=script.model, messages=LONG, stream=True, extra_body={"contextShift": {"report": "full"}}
        )
        chunks = [chunk.to_dict() for chunk in stream]
    assert [("contextShift" in chunk) for chunk in chunks] == [True, False, False, False]
    assert chunks[0]["choices"][0]["delta"]["content"] == "one"
    assert left_out(chunks[0]["contextShift"]) == expected_left_out(LEFT)


@pytest.mark.parametrize("report", [None, "off"])
def test_nobody_gets_a_report_unasked(gateway: RunningGateway, upstream: Upstream, report: str | None) -> None:
    script = upstream.script(replies.plain())
    body = {"model": script.model, "messages": LONG, "contextShift": {"report": report}}
    assert "contextShift" not in gateway.post(body).json()


def test_a_pinned_message_stays_and_its_mark_does_not_go_out(gateway: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.plain())
    system, oldest, *rest = LONG
    marked = [system, {**oldest, "meta": {"pinned": True, "label": "first"}, "id": "m-first"}, *rest]
    with gateway.openai() as client:
        client.chat.completions.create(model=script.model, messages=marked)
    sent = script.sent["messages"]
    assert sent[:2] == [system, oldest]
    assert sent[2:] == LONG[-len(sent[2:]) :]
    assert len(sent) == len(LEFT)


@pytest.mark.parametrize(
    "rule", [{"index": 1}, {"range": [1, 1]}, {"range": [-11, -11]}, {"id": "oldest"}, {"name": "anna"}], ids=json.dumps
)
def test_a_mark_in_the_body_pins_a_message(gateway: RunningGateway, upstream: Upstream, rule: dict[str, Any]) -> None:
    script = upstream.script(replies.plain())
    chat = [LONG[0], {**LONG[1], "name": "anna", "id": "oldest"}, *LONG[2:]]
    with gateway.openai() as client:
        extra = {"contextShift": {"marks": [{**rule, "pinned": True}], "report": "full"}}
        reply = client.chat.completions.create(model=script.model, messages=chat, extra_body=extra)
    assert script.sent["messages"][1] == {**LONG[1], "name": "anna"}
    assert not any(own in script.arrival().body.decode() for own in OWN_FIELDS)
    assert (1, "context-shift") not in left_out(reply.to_dict()["contextShift"])


def test_headers_do_the_same_for_clients_that_can_set_nothing_else(
    gateway: RunningGateway, upstream: Upstream, chat_id: str
) -> None:
    script = upstream.script(replies.plain())
    told = {
        "X-Context-Chat-Id": chat_id,
        "X-Context-Pin": "1..2",
        "X-Context-Reply-Reserve": "60",
        "X-Context-Report": "summary",
        "X-Context-Strategy": "truncate",
    }
    with gateway.openai() as client:
        raw = client.chat.completions.with_raw_response.create(model=script.model, messages=LONG, extra_headers=told)
    assert raw.headers["x-context-chat-id"] == chat_id
    assert raw.headers["x-context-reply-reserve"] == "60"
    assert "contextShift" in raw.parse().to_dict()
    assert script.sent["messages"][:3] == LONG[:3]
    assert not [name for name in script.arrival().headers if name.startswith("x-context")]
    audit = gateway.audit(chat_id)
    assert audit is not None
    assert [block["reason"] for block in audit["blocks"] if block["included"] and block["source"] == "request"][1:3] == [
        "protected-pinned",
        "protected-pinned",
    ]


def test_the_body_wins_over_the_header(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(replies.plain())
    body = {"model": script.model, "messages": LONG, "contextShift": {"chatId": chat_id, "replyReserve": 70}}
    response = gateway.post(body, x_context_chat_id="other", x_context_reply_reserve="60")
    assert (response.headers["x-context-chat-id"], response.headers["x-context-reply-reserve"]) == (chat_id, "70")


def test_a_chat_id_of_any_alphabet_comes_back_percent_encoded(gateway: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.plain())
    chat = "Gespräch/7 – 会話"
    response = gateway.post({"model": script.model, "messages": LONG, "contextShift": {"chatId": chat}})
    assert response.headers["x-context-chat-id"] == "Gespr%C3%A4ch%2F7%20%E2%80%93%20%E4%BC%9A%E8%A9%B1"
    audit = gateway.audit(chat)
    assert audit is not None
    assert audit["chatId"] == chat


def test_an_auxiliary_generation_leaves_the_chats_audit_alone(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(replies.plain())
    options = {"chatId": chat_id}
    first = gateway.post({"model": script.model, "messages": LONG, "contextShift": options})
    title = [message("user", 5, "t")]
    second = gateway.post({"model": script.model, "messages": title, "contextShift": {**options, "purpose": "auxiliary"}})
    generations = [response.headers["x-context-generation-id"] for response in (first, second)]
    audit = gateway.audit(chat_id)
    own = gateway.audit(generations[1])
    assert audit is not None
    assert own is not None
    assert [audit["generationId"], own["generationId"]] == generations
    assert len(own["providerMessages"]) == 1


@pytest.mark.parametrize("strategy", ["truncate", "summarize", "vector-recall", "manual"])
def test_a_preview_agrees_with_the_generation_and_sends_nothing(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, strategy: str
) -> None:
    script = upstream.script(replies.plain())
    memory = [{"content": "The river rises in spring.", "relevance": 0.1}, {"content": "Ann likes tea.", "required": True}]
    options = {"chatId": chat_id, "contextStrategy": strategy, "memory": memory}
    body = {"model": script.model, "messages": LONG, "contextShift": options}
    preview = gateway.http.post("/api/v2/context-preview", json=body).json()
    assert script.calls == []
    assert gateway.audit(chat_id) is None
    gateway.post(body)
    audit = gateway.audit(chat_id)
    assert audit is not None
    assert preview["fits"] is True
    assert {name: audit[name] for name in preview if name in audit} == {
        name: value for name, value in preview.items() if name not in ("fits", "deficit")
    }
    assert preview["providerMessages"] == script.sent["messages"]
