"""A store that does not answer: nothing is sent without an audit, nobody loses an answer, and it heals by itself."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.errors import checked_answer
from tests.scenarios.loopback.raw_client import RawClient
from tests.scenarios.loopback.running_gateway import DATABASE, RunningGateway, run_command, write_config
from tests.scenarios.loopback.upstream import Script, Upstream

SHORT = [{"role": "user", "content": "Name three rivers."}]


def request(script: Script, chat_id: str, **fields: Any) -> dict[str, Any]:
    """A request in a chat."""
    return {"model": script.model, "messages": SHORT, "contextShift": {"chatId": chat_id}, **fields}


@pytest.fixture(scope="module")
def locked_now_and_then(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway with a database of its own."""
    folder = tmp_path_factory.mktemp("locked")
    write_config(folder, upstream.url)
    with RunningGateway(folder) as running:
        yield running
    running.require_clean_log()


@contextmanager
def locked(gateway: RunningGateway) -> Iterator[None]:
    """Holds the write lock of the gateway's database."""
    with closing(sqlite3.connect(gateway.folder / DATABASE, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")


def test_nothing_is_sent_while_no_audit_can_be_written(
    locked_now_and_then: RunningGateway, upstream: Upstream, chat_id: str
) -> None:
    gateway, script = locked_now_and_then, upstream.script(replies.plain())
    with locked(gateway):
        response = gateway.post(request(script, chat_id))
        ready = gateway.http.get("/readyz")
    error = checked_answer(response.status_code, response.headers, response.json())
    assert (response.status_code, error["code"]) == (503, "STORE_UNAVAILABLE")
    assert (ready.status_code, ready.json()["store"]) == (503, "unavailable")
    assert script.calls == []
    assert gateway.audit(chat_id) is None
    assert gateway.post(request(script, chat_id)).status_code == 200
    assert gateway.ended_audit(chat_id)["status"] == "completed"
    assert gateway.http.get("/readyz").status_code == 200


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_under_way_is_not_lost(
    locked_now_and_then: RunningGateway, upstream: Upstream, chat_id: str, stream: bool
) -> None:
    gateway, gate = locked_now_and_then, upstream.gate()
    script = upstream.script(gate, replies.stream() if stream else replies.plain())
    with RawClient(gateway.url) as client:
        client.post(request(script, chat_id, stream=stream))
        script.arrival()
        with locked(gateway):
            gate.open()
            assert b"HTTP/1.1 200" in client.read_until(b"[DONE]" if stream else b'"usage"')
    audit = gateway.ended_audit(chat_id)
    assert (audit["status"], audit["usage"]) == ("completed", replies.USAGE)


@pytest.mark.parametrize("wait_s", [0.1, 0.3, 0.6])
def test_a_client_that_leaves_while_its_audit_is_written_leaves_none_prepared(
    locked_now_and_then: RunningGateway, upstream: Upstream, chat_id: str, wait_s: float
) -> None:
    gateway, script = locked_now_and_then, upstream.script(upstream.gate())
    client = RawClient(gateway.url)
    with locked(gateway):
        client.post(request(script, chat_id))
        time.sleep(wait_s)  # nothing tells from outside that the write has begun; whenever it has, the outcome is the same
        client.leave()
        assert script.calls == []
        assert gateway.http.get("/healthz").status_code == 200
    assert gateway.http.get("/readyz").status_code == 200
    audit = gateway.audit(chat_id)
    assert audit is None or gateway.ended_audit(chat_id)["status"] == "cancelled"
    assert script.calls == []


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("path", [DATABASE, f"{DATABASE}/in-a-file.db"], ids=["no-database", "no-folder"])
def test_a_store_that_can_not_be_opened_is_said_without_a_traceback(
    upstream: Upstream, tmp_path: Path, path: str, workers: str
) -> None:
    write_config(tmp_path, upstream.url)
    (tmp_path / DATABASE).write_text("no database at all, but long enough to look like one " * 40)
    serve = ("serve", "--config", "config", "--port", "0", "--workers", workers)
    run = run_command(tmp_path, *serve, SLUICEGATE_STORE__URL=f"sqlite:///{path}")
    assert "audit store" in run.stderr
    assert "Traceback" not in run.stderr
    assert (run.returncode, run.stdout) == (1, "")
