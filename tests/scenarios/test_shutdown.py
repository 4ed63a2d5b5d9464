"""The end of a gateway: what is under way has its grace, what is cut off is told so, and nothing stays prepared."""

from __future__ import annotations

import json
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.errors import checked_answer, checked_error
from tests.scenarios.loopback.raw_client import RawClient
from tests.scenarios.loopback.running_gateway import RunningGateway, write_config
from tests.scenarios.loopback.upstream import Script, Step, Upstream
from tests.scenarios.loopback.waiting import until

SHORT = [{"role": "user", "content": "Name three rivers."}]
GRACE_S = 1
LONG_GRACE_S = 20
ASKED_TO_END = (0, -signal.SIGTERM, 128 + signal.SIGTERM)


def request(script: Script, chat_id: str, **fields: Any) -> dict[str, Any]:
    """A request in a chat."""
    return {"model": script.model, "messages": SHORT, "contextShift": {"chatId": chat_id}, **fields}


@pytest.fixture
def gateway(upstream: Upstream, tmp_path: Path) -> Iterator[RunningGateway]:
    """A gateway to be ended, with a short grace."""
    with running(upstream, tmp_path, GRACE_S) as started:
        yield started


@contextmanager
def running(upstream: Upstream, folder: Path, grace_s: int) -> Iterator[RunningGateway]:
    """A gateway with this grace."""
    write_config(folder, upstream.url, server=f"shutdown_grace_s = {grace_s}")
    with RunningGateway(folder) as started:
        yield started
    assert "Traceback" not in started.log.read_text()


def audit_after_restart(gateway: RunningGateway, chat_id: str) -> dict[str, Any]:
    """The chat's audit, as the next gateway on the same store reads it."""
    gateway.start()
    audit = gateway.audit(chat_id)
    assert audit is not None
    return audit


def draining(gateway: RunningGateway) -> bool:
    """Whether no more work is taken: the gateway says so, or doesn't listen any more."""
    try:
        ready = httpx.get(f"{gateway.url}/readyz", trust_env=False)
    except httpx.TransportError:
        return True
    return ready.status_code == 503 and ready.json()["draining"] is True


@pytest.mark.parametrize("stream", [False, True])
def test_what_is_under_way_is_finished_within_the_grace(upstream: Upstream, tmp_path: Path, chat_id: str, stream: bool) -> None:
    gate = upstream.gate()
    steps = (replies.STREAM_HEAD, replies.piece("The Nile"), gate, replies.FINISH) if stream else (gate, replies.plain())
    script = upstream.script(*steps)
    with running(upstream, tmp_path, LONG_GRACE_S) as gateway, RawClient(gateway.url) as client:
        client.post(request(script, chat_id, stream=stream))
        script.arrival()
        seen = client.read_until(b"The Nile") if stream else b""
        gateway.signal(signal.SIGTERM)
        until(lambda: draining(gateway), "the gateway drains")
        gate.open()
        seen += client.read_until(b"[DONE]" if stream else b'"usage"')
        assert b"HTTP/1.1 200" in seen
        assert b"SHUTTING_DOWN" not in seen
        assert gateway.ended() in ASKED_TO_END
        audit = audit_after_restart(gateway, chat_id)
    assert (audit["status"], audit["finishReason"], audit["usage"]) == ("completed", "stop", replies.USAGE)


def test_a_stream_that_outlasts_the_grace_is_cut_off_in_order(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(replies.STREAM_HEAD, replies.piece("The Nile"), upstream.gate())
    with RawClient(gateway.url) as client:
        client.post(request(script, chat_id, stream=True))
        client.read_until(b"The Nile")
        gateway.signal(signal.SIGTERM)
        rest = client.read_until(b"0\r\n\r\n")
    broken, done = [line.removeprefix(b"data: ") for line in rest.splitlines() if line.startswith(b"data: ")]
    error = checked_error(json.loads(broken))
    assert (error["code"], done) == ("SHUTTING_DOWN", b"[DONE]")
    assert script.arrival().gone.wait(3)
    assert gateway.ended() in ASKED_TO_END
    audit = audit_after_restart(gateway, chat_id)
    assert (audit["status"], audit["errorCode"]) == ("failed", "SHUTTING_DOWN")
    assert error["metadata"]["generationId"] == audit["generationId"]


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_an_answer_that_outlasts_the_grace_is_refused(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, stream: bool
) -> None:
    script = upstream.script(upstream.gate())
    require_refused(gateway, script, request(script, chat_id, stream=stream), chat_id)


def test_a_plain_answer_of_which_a_part_is_there_is_refused(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(replies.plain()[:-30], upstream.gate())
    require_refused(gateway, script, request(script, chat_id), chat_id)


def require_refused(gateway: RunningGateway, script: Script, body: dict[str, Any], chat_id: str) -> None:
    """The request is answered with 503 at the end of the grace, by an error that names its generation."""
    with httpx.Client(trust_env=False, timeout=15) as client, RawClient(gateway.url):
        asked = client.build_request("POST", f"{gateway.url}/v1/chat/completions", json=body)
        signal_on_arrival(gateway, script)
        response = client.send(asked)
    error = checked_answer(response.status_code, response.headers, response.json())
    assert (response.status_code, error["code"]) == (503, "SHUTTING_DOWN")
    assert script.arrival().gone.wait(3)
    assert gateway.ended() in ASKED_TO_END
    audit = audit_after_restart(gateway, chat_id)
    assert (audit["status"], audit["errorCode"]) == ("failed", "SHUTTING_DOWN")
    assert response.headers.get("x-context-generation-id") == audit["generationId"]
    assert error["metadata"]["generationId"] == audit["generationId"]


def signal_on_arrival(gateway: RunningGateway, script: Script) -> None:
    """Asks the gateway to end as soon as the provider has the request."""

    def wait_and_signal() -> None:
        script.arrival()
        gateway.signal(signal.SIGTERM)

    threading.Thread(target=wait_and_signal, daemon=True).start()


def test_a_client_that_does_not_read_does_not_hold_up_the_end(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    flood: list[Step] = [replies.piece("x" * 60_000)] * 400
    script = upstream.script(replies.STREAM_HEAD, *flood, upstream.gate())
    with RawClient(gateway.url, receive_buffer=4096) as client:
        client.post(request(script, chat_id, stream=True))
        client.read_until(b"xxx")
        gateway.signal(signal.SIGTERM)
        assert gateway.ended() in ASKED_TO_END
    audit = audit_after_restart(gateway, chat_id)
    assert (audit["status"], audit["errorCode"]) == ("failed", "SHUTTING_DOWN")


def test_a_connection_kept_open_gets_no_new_work(upstream: Upstream, tmp_path: Path, chat_id: str) -> None:
    gate = upstream.gate()
    script = upstream.script(gate, replies.plain())
    late = upstream.script(replies.plain())
    with running(upstream, tmp_path, LONG_GRACE_S) as gateway, RawClient(gateway.url) as client, RawClient(gateway.url) as idle:
        idle.send(b"GET /healthz HTTP/1.1\r\nhost: " + idle.host.encode() + b"\r\n\r\n")
        idle.read_until(b"ok")
        client.post(request(script, chat_id))
        script.arrival()
        gateway.signal(signal.SIGTERM)
        until(lambda: draining(gateway), "the gateway drains")
        answer = tried(idle, request(late, chat_id))
        assert answer == b"" or b" 503 " in answer
        gate.open()
        assert b"HTTP/1.1 200" in client.read_until(b'"usage"')
        assert gateway.ended() in ASKED_TO_END
    assert late.calls == []


def tried(client: RawClient, body: dict[str, Any]) -> bytes:
    """The head of the answer, nothing where the connection is closed."""
    try:
        client.post(body)
        return client.read_until(b"\r\n\r\n")
    except ConnectionError:
        return b""


def test_an_idle_gateway_ends_at_once(gateway: RunningGateway) -> None:
    gateway.signal(signal.SIGTERM)
    assert gateway.ended(5) in ASKED_TO_END


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_a_killed_gateway_is_found_out_by_the_next(
    gateway: RunningGateway, upstream: Upstream, chat_id: str, stream: bool
) -> None:
    steps = (replies.STREAM_HEAD, replies.piece("The Nile")) if stream else ()
    script = upstream.script(*steps, upstream.gate())
    with RawClient(gateway.url) as client:
        client.post(request(script, chat_id, stream=stream))
        script.arrival()
        if stream:
            client.read_until(b"The Nile")
        gateway.audit_when(chat_id, lambda audit: audit["providerMessages"] == SHORT, "has its body, which follows the head")
        gateway.signal(signal.SIGKILL)
        assert gateway.ended() == -signal.SIGKILL
    audit = audit_after_restart(gateway, chat_id)
    assert (audit["status"], audit["errorCode"]) == ("failed", "GATEWAY_RESTARTED")
    assert audit["finishedAt"] is not None
    assert audit["providerMessages"] == SHORT
