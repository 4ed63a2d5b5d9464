"""Gateways on a PostgreSQL server that stops, crashes, ends connections or turns read-only: told, and over without a restart."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.errors import checked_answer
from tests.scenarios.loopback.raw_client import RawClient
from tests.scenarios.loopback.running_gateway import RunningGateway, write_config
from tests.scenarios.loopback.upstream import Script, Upstream
from tests.scenarios.loopback.waiting import until
from tests.support.postgresql_server import PASSWORD, PostgresqlServer

SHORT = [{"role": "user", "content": "Name three rivers."}]
BACK_S = 20.0
END_ALL = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = 'postgres'"


def request(script: Script, chat_id: str, **fields: Any) -> dict[str, Any]:
    return {"model": script.model, "messages": SHORT, "contextShift": {"chatId": chat_id}, **fields}


@pytest.fixture(scope="module")
def server() -> Iterator[PostgresqlServer]:
    """A server of these tests alone: they end it."""
    with PostgresqlServer() as running:
        yield running


@pytest.fixture(scope="module")
def stored(server: PostgresqlServer, upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway whose audits lie there; its log shows no defect and no password."""
    folder = tmp_path_factory.mktemp("stored")
    write_config(folder, upstream.url)
    with RunningGateway(folder, SLUICEGATE_STORE__URL=server.new_url(tcp=True)) as running:
        yield running
    running.require_clean_log()
    assert PASSWORD not in running.log.read_text()


def require_back(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    """The same process serves again."""
    script = upstream.script(replies.plain())
    until(lambda: gateway.post(request(script, chat_id)).status_code == 200, "the store is back", BACK_S)
    until(lambda: gateway.http.get("/readyz").status_code == 200, "the gateway is ready again", BACK_S)
    assert gateway.ended_audit(chat_id)["status"] == "completed"


def require_unavailable(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    """Nothing is sent without an audit, and the client is told to come again."""
    script = upstream.script(replies.plain())
    response = gateway.post(request(script, chat_id))
    error = checked_answer(response.status_code, response.headers, response.json())
    assert (response.status_code, error["code"], script.calls) == (503, "STORE_UNAVAILABLE", [])
    assert gateway.http.get("/readyz").status_code == 503


@pytest.mark.parametrize("how", ["fast", "immediate"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_a_server_that_stops_costs_no_answer_under_way(
    stored: RunningGateway, server: PostgresqlServer, upstream: Upstream, chat_id: str, stream: bool, how: str
) -> None:
    whole = replies.stream() if stream else replies.plain()
    script = upstream.script(whole[:-20], gate := upstream.gate(), whole[-20:])
    with RawClient(stored.url) as client:
        client.post(request(script, chat_id, stream=stream))
        script.arrival()
        server.stop(how)
        try:
            require_unavailable(stored, upstream, f"{chat_id}-meanwhile")
            gate.open()
            client.read_until(b"[DONE]" if stream else b'"usage"')
        finally:
            server.start()
    require_back(stored, upstream, f"{chat_id}-after")
    assert stored.audit_when(chat_id, lambda audit: audit["status"] != "prepared", "is written later")["status"] == "completed"


def test_connections_that_the_server_ends_are_made_again(
    stored: RunningGateway, server: PostgresqlServer, upstream: Upstream, chat_id: str
) -> None:
    server.sql(END_ALL)
    require_back(stored, upstream, chat_id)


def test_a_database_that_turns_read_only_is_told(
    stored: RunningGateway, server: PostgresqlServer, upstream: Upstream, chat_id: str
) -> None:
    def switch(value: str) -> None:
        writing = server.url(options="-c default_transaction_read_only=off")
        server.sql(f"ALTER DATABASE postgres SET default_transaction_read_only = {value}", url=writing)
        server.sql(END_ALL)

    switch("on")
    try:
        require_unavailable(stored, upstream, chat_id)
    finally:
        switch("off")
    require_back(stored, upstream, chat_id)


def test_what_a_killed_gateway_left_is_failed_and_its_neighbours_audits_are_not(
    server: PostgresqlServer, upstream: Upstream, tmp_path: Path, chat_id: str
) -> None:
    url = server.new_url()
    gateways = []
    for name in ("one", "two"):
        write_config(tmp_path / name, upstream.url)
        gateways.append(RunningGateway(tmp_path / name, SLUICEGATE_STORE__URL=url))
    dead, living = gateways
    with dead, living:
        scripts = [upstream.script(replies.STREAM_HEAD, replies.piece("a"), upstream.gate()) for _ in range(2)]
        with RawClient(dead.url) as theirs, RawClient(living.url) as ours:
            for client, script, name in ((theirs, scripts[0], "dead"), (ours, scripts[1], "living")):
                client.post(request(script, f"{chat_id}-{name}", stream=True))
                client.read_until(b"data:")
            dead.signal(signal.SIGKILL)
            dead.ended()
            assert (living.audit(f"{chat_id}-dead") or {})["status"] == "prepared"
            dead.start()
            audit = living.audit(f"{chat_id}-dead") or {}
            assert (audit["status"], audit["errorCode"]) == ("failed", "GATEWAY_RESTARTED")
            assert (dead.audit(f"{chat_id}-living") or {})["status"] == "prepared"
