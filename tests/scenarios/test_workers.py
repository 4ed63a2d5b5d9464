"""Several worker processes behind one address: every one sees what another has written, and all end together."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.raw_client import RawClient
from tests.scenarios.loopback.running_gateway import RunningGateway, write_config
from tests.scenarios.loopback.upstream import Upstream
from tests.scenarios.loopback.waiting import until

SHORT = [{"role": "user", "content": "Name three rivers."}]
ROUNDS = 20
ASKED_TO_END = (0, -signal.SIGTERM, 128 + signal.SIGTERM)


@pytest.fixture(scope="module")
def two_workers(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway of two processes. Its client opens a connection for every request, so that both have work."""
    folder = tmp_path_factory.mktemp("workers")
    write_config(folder, upstream.url, server="shutdown_grace_s = 1")
    with RunningGateway(folder, "--workers", "2") as running:
        running.http.headers["connection"] = "close"
        yield running
    running.require_clean_log()


def test_all_workers_share_one_store(two_workers: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(replies.plain())
    for number in range(ROUNDS):
        chat = f"{chat_id}-{number}"
        body = {"model": script.model, "messages": SHORT, "contextShift": {"chatId": chat}}
        generation = two_workers.post(body).headers["x-context-generation-id"]
        for _ in range(4):
            audit = two_workers.ended_audit(chat)
            assert (audit["generationId"], audit["status"], audit["usage"]) == (generation, "completed", replies.USAGE)


def test_a_stream_ends_in_every_workers_eyes(two_workers: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(replies.stream())
    for number in range(ROUNDS):
        chat = f"{chat_id}-{number}"
        with RawClient(two_workers.url) as client:
            client.post({"model": script.model, "messages": SHORT, "stream": True, "contextShift": {"chatId": chat}})
            client.read_until(b"[DONE]")
        assert two_workers.ended_audit(chat)["status"] == "completed"


def test_a_chat_deleted_through_one_worker_is_gone_in_all(two_workers: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(replies.plain())
    two_workers.post({"model": script.model, "messages": SHORT, "contextShift": {"chatId": chat_id}})
    assert two_workers.http.delete(f"/api/v2/chats/{chat_id}").status_code == 204
    assert [two_workers.audit(chat_id) for _ in range(8)] == [None] * 8


def refuses(url: str) -> bool:
    """Whether a newcomer is told at once that no work is taken: by the answer, or because nobody listens."""
    try:
        ready = httpx.get(f"{url}/readyz", trust_env=False, timeout=2)
    except (httpx.ConnectError, httpx.RemoteProtocolError, httpx.ReadError):
        return True
    return ready.status_code == 503 and ready.json()["draining"] is True


def test_workers_that_end_keep_nobody_waiting_and_finish_what_is_under_way(
    upstream: Upstream, tmp_path: Path, chat_id: str
) -> None:
    write_config(tmp_path, upstream.url, server="shutdown_grace_s = 20")
    gate = upstream.gate()
    script = upstream.script(replies.STREAM_HEAD, replies.piece("The Nile"), gate, replies.FINISH)
    with RunningGateway(tmp_path, "--workers", "2") as gateway, RawClient(gateway.url) as client:
        client.post({"model": script.model, "messages": SHORT, "stream": True, "contextShift": {"chatId": chat_id}})
        client.read_until(b"The Nile")
        gateway.signal(signal.SIGTERM)
        until(lambda: refuses(gateway.url), "the gateway drains")
        for _ in range(20):
            assert refuses(gateway.url)
            time.sleep(0.05)
        gate.open()
        assert b"[DONE]" in client.read_until(b"[DONE]")
        assert gateway.ended() in ASKED_TO_END
        gateway.start()
        audit = gateway.audit(chat_id)
    assert audit is not None
    assert (audit["status"], audit["usage"]) == ("completed", replies.USAGE)


def test_all_workers_end_with_their_parent(two_workers: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(upstream.gate())
    with RawClient(two_workers.url) as client:
        client.post({"model": script.model, "messages": SHORT, "contextShift": {"chatId": chat_id}})
        call = script.arrival()
        two_workers.signal(signal.SIGTERM)
        assert b"SHUTTING_DOWN" in client.read_until(b"metadata")
    assert call.gone.wait(3)
    assert two_workers.ended() in ASKED_TO_END

    def refused() -> bool:
        with suppress(httpx.ConnectError):
            return httpx.get(f"{two_workers.url}/healthz", trust_env=False).status_code != 200
        return True

    until(refused, "nobody answers any more")
    two_workers.start()
    audit = two_workers.audit(chat_id)
    assert audit is not None
    assert (audit["status"], audit["errorCode"]) == ("failed", "SHUTTING_DOWN")
