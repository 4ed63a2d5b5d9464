"""Clients that leave: the provider's connection is closed within a second, and the audit says cancelled; never prepared."""

from __future__ import annotations

import asyncio
import random
import threading
import time
from typing import Any

import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.raw_client import RawClient
from tests.scenarios.loopback.running_gateway import RunningGateway
from tests.scenarios.loopback.upstream import Call, Script, Step, Upstream
from tests.scenarios.loopback.waiting import until

SHORT = [{"role": "user", "content": "Name three rivers."}]
PROMISED_S = 3.0  # the contract says one second; the rest is for a busy machine
VANISHING = 50


def request(script: Script, chat_id: str, **fields: Any) -> dict[str, Any]:
    """A request in a chat."""
    return {"model": script.model, "messages": SHORT, "contextShift": {"chatId": chat_id}, **fields}


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


def test_a_client_that_does_not_read_and_then_leaves(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    flood: list[Step] = [replies.piece("x" * 60_000)] * 400
    script = upstream.script(replies.STREAM_HEAD, *flood, upstream.gate())
    client = RawClient(gateway.url, receive_buffer=4096)
    client.post(request(script, chat_id, stream=True))
    client.read_until(b"xxx")
    call = script.arrival()
    assert call.under_way
    client.leave(rudely=True)
    require_closed(call)
    assert gateway.ended_audit(chat_id)["status"] == "cancelled"


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
