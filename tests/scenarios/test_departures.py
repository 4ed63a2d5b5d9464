"""Clients that leave: the provider's connection is closed within a second, and the audit says cancelled; never prepared."""

from __future__ import annotations

import asyncio
import random
import socket
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.raw_client import RawClient
from tests.scenarios.loopback.running_gateway import DATABASE, RunningGateway, write_config
from tests.scenarios.loopback.upstream import Call, Script, Step, Upstream
from tests.scenarios.loopback.waiting import until

SHORT = [{"role": "user", "content": "Name three rivers."}]
PROMISED_S = 3.0  # the contract says one second; the rest is for a busy machine
VANISHING = 50


def request(script: Script, chat_id: str, **fields: Any) -> dict[str, Any]:
    """A request in a chat."""
    return {"model": script.model, "messages": SHORT, "contextShift": {"chatId": chat_id}, **fields}


def counted(gateway: RunningGateway, name: str) -> float:
    """A number that the gateway tells of itself."""
    lines = gateway.http.get("/metrics").text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith(f"sluicegate_{name}"))


def end_its_side(client: RawClient) -> None:
    """The client says that it sends nothing more, and could still read."""
    client._socket.shutdown(socket.SHUT_WR)


def require_closed(call: Call) -> None:
    """The gateway ends its connection soon."""
    assert call.gone.wait(PROMISED_S), "the connection to the provider stayed open"


@pytest.mark.parametrize("rudely", [False, True], ids=["closing", "resetting"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_a_client_that_leaves_before_the_provider_answers(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, stream: bool, rudely: bool
) -> None:
    script = upstream.script(upstream.gate())
    client = RawClient(gateway.url)
    client.post(request(script, chat_id, stream=stream))
    call = script.arrival()
    client.leave(rudely=rudely)
    require_closed(call)
    audit = gateway.ended_audit(chat_id)
    assert (audit["status"], audit["errorCode"], audit["usage"]) == ("cancelled", "CLIENT_CANCELLED", None)


@pytest.mark.parametrize("rudely", [False, True], ids=["closing", "resetting"])
def test_a_client_that_leaves_in_the_middle_of_a_stream(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, rudely: bool
) -> None:
    script = upstream.script(replies.STREAM_HEAD, replies.piece("The Nile"), upstream.gate())
    client = RawClient(gateway.url)
    client.post(request(script, chat_id, stream=True))
    client.read_until(b"The Nile")
    client.leave(rudely=rudely)
    require_closed(script.arrival())
    audit = gateway.ended_audit(chat_id)
    assert (audit["status"], audit["errorCode"], audit["finishReason"]) == ("cancelled", "CLIENT_CANCELLED", None)


def test_a_client_that_leaves_while_the_head_of_a_plain_answer_is_there(
    gateway: RunningGateway, upstream: Upstream, chat_id: str
) -> None:
    whole = replies.plain()
    script = upstream.script(whole[:-20], upstream.gate(), whole[-20:])
    client = RawClient(gateway.url)
    client.post(request(script, chat_id))
    call = script.arrival()
    client.leave()
    require_closed(call)
    assert gateway.ended_audit(chat_id)["status"] == "cancelled"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_a_client_that_ends_its_side_of_the_connection_has_left(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, stream: bool
) -> None:
    script = upstream.script(upstream.gate())
    with RawClient(gateway.url) as client:
        client.post(request(script, chat_id, stream=stream))
        call = script.arrival()
        end_its_side(client)
        require_closed(call)
        assert client.read_until(b"HTTP") == b""
    assert gateway.ended_audit(chat_id)["status"] == "cancelled"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_a_client_that_has_sent_another_request_ahead_and_leaves(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, stream: bool
) -> None:
    script = upstream.script(upstream.gate())
    client = RawClient(gateway.url)
    client.post(request(script, chat_id, stream=stream))
    call = script.arrival()
    client.post(request(script, f"{chat_id}-ahead"))
    client.leave()
    require_closed(call)
    assert gateway.ended_audit(chat_id)["status"] == "cancelled"
    assert (len(script.calls), gateway.audit(f"{chat_id}-ahead")) == (1, None)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_a_client_that_leaves_while_an_overflow_is_tried_again(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, stream: bool
) -> None:
    too_long = replies.refusal(400, "prompt is too long", code="context_length_exceeded")
    script = upstream.script(too_long, then=(upstream.gate(),))
    turns = [{"role": role, "content": f"Turn {n}: one more river."} for n in range(6) for role in ("user", "assistant")]
    client = RawClient(gateway.url)
    client.post(request(script, chat_id, stream=stream, messages=[*turns, *SHORT]))
    call = script.arrival(2)
    client.leave()
    require_closed(call)
    audit = gateway.ended_audit(chat_id)
    assert (audit["status"], audit["errorCode"], len(script.calls)) == ("cancelled", "CLIENT_CANCELLED", 2)
    assert len(audit["providerMessages"]) == len(call.json["messages"])


def test_a_client_that_leaves_while_its_audit_waits_for_the_store(upstream: Upstream, chat_id: str, tmp_path: Path) -> None:
    script = upstream.script(replies.plain())
    write_config(tmp_path, upstream.url)
    with RunningGateway(tmp_path) as gateway:
        gateway.post(request(upstream.script(replies.plain()), f"{chat_id}-first"))  # which loads what counts
        with closing(sqlite3.connect(tmp_path / DATABASE, isolation_level=None)) as other:
            other.execute("BEGIN EXCLUSIVE")
            client = RawClient(gateway.url)
            client.post(request(script, chat_id))
            until(lambda: counted(gateway, "inflight_requests") == 1, "the request is taken up")
            time.sleep(0.2)  # it is counted in a fraction of that
            client.leave()
            until(lambda: counted(gateway, "inflight_requests") == 0, "its end", PROMISED_S)
            other.execute("ROLLBACK")
        assert gateway.ended_audit(chat_id)["errorCode"] == "CLIENT_CANCELLED"
    assert script.calls == []
    gateway.require_clean_log()


class CountsForEver(Upstream):
    """A llama.cpp server that tells what it is, and then hangs over every prompt that it is to count."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[Call] = []

    def questions(self) -> list[Call]:
        """Prompts that it is to count."""
        return [call for call in self.asked if call.path == "/apply-template"]

    def answers_to(self, call: Call) -> tuple[Step, ...]:
        self.asked.append(call)
        if call.path == "/apply-template":
            return (self.gate(),)
        if call.path == "/props":
            return (replies.answer(b'{"chat_template": "{{ messages }}"}'),)
        return (replies.answer(b'{"tokens": [1]}') if b"content" in call.body[:10] else replies.refusal(404),)


def test_a_client_that_leaves_while_its_prompt_is_counted_elsewhere(chat_id: str, tmp_path: Path) -> None:
    model = 'model = "far"\nprovider = "fake"\ncontext_limit = 200\ntokenizer = "remote"\n'
    with CountsForEver() as counting:
        write_config(tmp_path, counting.url, models={"far": model})
        with RunningGateway(tmp_path) as gateway:
            client = RawClient(gateway.url)
            client.post({"model": "far", "messages": SHORT, "contextShift": {"chatId": chat_id}})
            until(counting.questions, "the question for the count")
            client.leave()
            for call in counting.questions():
                require_closed(call)
            until(lambda: counted(gateway, "inflight_requests") == 0, "the end of the request", PROMISED_S)
            assert gateway.audit(chat_id) is None
    assert "/v1/chat/completions" not in [call.path for call in counting.asked]
    gateway.require_clean_log()


def test_the_official_async_client_cancels(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(upstream.gate())

    async def ask_and_give_up() -> None:
        async with gateway.async_openai() as client:
            asked = asyncio.create_task(
                client.chat.completions.create(
                    model=script.model, messages=SHORT, stream=True, extra_body={"contextShift": {"chatId": chat_id}}
                )
            )
            await asyncio.to_thread(script.arrival)
            asked.cancel()
            await asyncio.gather(asked, return_exceptions=True)

    asyncio.run(ask_and_give_up())
    require_closed(script.arrival())
    assert gateway.ended_audit(chat_id)["status"] == "cancelled"


@pytest.mark.parametrize(
    "leave",
    [RawClient.leave, partial(RawClient.leave, rudely=True), end_its_side],
    ids=["closing", "resetting", "ending its side"],
)
def test_a_client_that_does_not_read_and_then_leaves(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, leave: Callable[[RawClient], None]
) -> None:
    flood: list[Step] = [replies.piece("x" * 60_000)] * 400
    script = upstream.script(replies.STREAM_HEAD, *flood, upstream.gate())
    client = RawClient(gateway.url, receive_buffer=4096)
    client.post(request(script, chat_id, stream=True))
    client.read_until(b"xxx")
    call = script.arrival()
    assert call.under_way
    leave(client)
    require_closed(call)
    assert gateway.ended_audit(chat_id)["status"] == "cancelled"
    client.leave()


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_a_client_that_leaves_after_the_end_leaves_a_completed_audit(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, stream: bool
) -> None:
    script = upstream.script(replies.stream() if stream else replies.plain())
    for number in range(10):
        with RawClient(gateway.url) as client:
            client.post(request(script, f"{chat_id}-{number}", stream=stream))
            client.read_until(b"[DONE]" if stream else b'"usage"')
            client.leave(rudely=bool(number % 2))
        assert gateway.ended_audit(f"{chat_id}-{number}")["status"] == "completed"


def test_a_connection_is_used_again_after_a_whole_answer_only(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(replies.plain())
    gateway.post(request(script, chat_id))
    gateway.post(request(script, chat_id))
    first, second = script.calls
    assert first.gone is second.gone
    assert not second.gone.is_set()


def vanish(gateway: RunningGateway, body: dict[str, Any], chance: random.Random) -> None:
    """Asks, and leaves at a moment of chance."""
    with RawClient(gateway.url) as client:
        client.post(body)
        if chance.random() < 0.5:
            client.read_until(b"Nile")
        time.sleep(chance.uniform(0, 0.3))
        client.leave(rudely=chance.random() < 0.5)


def test_fifty_clients_that_vanish_leave_nothing_behind(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    chance = random.Random(20261130)  # noqa: S311  # the same moments every time
    slowly: list[Step] = [0.02, *([replies.piece("Nile"), 0.02] * 10)]
    streamed = upstream.script(0.05, replies.STREAM_HEAD, *slowly, replies.FINISH)
    plain = upstream.script(0.1, replies.plain())
    clients = []
    for number in range(VANISHING):
        script = chance.choice([streamed, streamed, plain])
        body = request(script, f"{chat_id}-{number}", stream=script is streamed)
        clients.append(threading.Thread(target=vanish, args=(gateway, body, random.Random(number))))  # noqa: S311  # as above
    for client in clients:
        client.start()
    for client in clients:
        client.join()
    calls = [*streamed.calls, *plain.calls]
    until(lambda: not [call for call in calls if call.under_way], "the end of every call", PROMISED_S)
    audits = [audit for number in range(VANISHING) if (audit := gateway.audit(f"{chat_id}-{number}", "summary")) is not None]
    assert len(audits) > VANISHING / 2
    for audit in audits:
        assert gateway.ended_audit(audit["chatId"])["status"] in ("completed", "cancelled")
    assert gateway.post(request(upstream.script(replies.plain()), chat_id)).status_code == 200
