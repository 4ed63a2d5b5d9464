"""A configuration that changes while the gateway runs: what is good is taken up, what is broken is told and changes nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.raw_client import RawClient
from tests.scenarios.loopback.running_gateway import SMALL, RunningGateway, write_config
from tests.scenarios.loopback.upstream import Script, Upstream
from tests.scenarios.loopback.waiting import until

SHORT = [{"role": "user", "content": "Name three rivers."}]
SOON_S = 15.0


@pytest.fixture
def gateway(upstream: Upstream, tmp_path: Path) -> Iterator[RunningGateway]:
    """A gateway whose configuration is a test's own."""
    write_config(tmp_path, upstream.url)
    with RunningGateway(tmp_path) as running:
        yield running
    running.require_clean_log()


def small(context_limit: object) -> str:
    """The model file with another limit."""
    return SMALL.replace("context_limit = 200", f"context_limit = {context_limit}")


def write_model(gateway: RunningGateway, text: str) -> None:
    """Changes the model file."""
    (gateway.folder / "config" / "models" / "small.toml").write_text(text)


def limit(gateway: RunningGateway, script: Script) -> str:
    """The context limit that a new request gets."""
    response = gateway.post({"model": script.model, "messages": SHORT})
    assert response.status_code == 200, response.text
    return response.headers["x-context-limit"]


def problem(gateway: RunningGateway) -> str:
    """What /readyz says of the configuration."""
    found: str = gateway.http.get("/readyz").json()["configuration"]
    return found


def test_a_changed_model_is_taken_up_and_a_broken_one_is_not(gateway: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.plain())
    assert limit(gateway, script) == "200"
    write_model(gateway, small(300))
    until(lambda: limit(gateway, script) == "300", "the new limit", SOON_S)

    write_model(gateway, small('"many"'))
    until(lambda: problem(gateway) != "ok", "the complaint", SOON_S)
    assert "small.toml" in problem(gateway)
    assert "context_limit" in problem(gateway)
    assert gateway.http.get("/readyz").status_code == 200
    assert limit(gateway, script) == "300"

    write_model(gateway, small(400))
    until(lambda: limit(gateway, script) == "400", "the mended limit", SOON_S)
    assert problem(gateway) == "ok"
    log = gateway.log.read_text()
    assert "small.toml" in log
    assert "context_limit" in log


def test_a_request_under_way_keeps_what_it_started_with(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    gate = upstream.gate()
    slow = upstream.script(replies.STREAM_HEAD, replies.piece("The Nile"), gate, replies.FINISH)
    quick = upstream.script(replies.plain())
    with RawClient(gateway.url) as client:
        client.post({"model": slow.model, "messages": SHORT, "stream": True, "contextShift": {"chatId": chat_id}})
        head = client.read_until(b"The Nile")
        assert b"x-context-limit: 200\r\n" in head
        write_model(gateway, small(300))
        until(lambda: limit(gateway, quick) == "300", "the new limit", SOON_S)
        gate.open()
        assert b"[DONE]" in client.read_until(b"[DONE]")
    audit = gateway.audit(chat_id)
    assert audit is not None
    assert (audit["status"], audit["budget"]["contextLimit"]) == ("completed", 200)


def test_a_new_model_and_a_new_provider_are_taken_up(gateway: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.plain(), model="newcomer")
    settings = gateway.folder / "config" / "gateway.toml"
    assert gateway.post({"model": "newcomer", "messages": SHORT}).status_code == 404
    settings.write_text(
        settings.read_text() + f'\n[providers.second]\nbase_url = "{upstream.url}/second"\napi_key = "sk-second"\n'
    )
    model = SMALL.replace('"fake"', '"second"').replace('"small"', '"newcomer"').replace('["small-*"]', "[]")
    (gateway.folder / "config" / "models" / "newcomer.toml").write_text(model)
    until(lambda: gateway.post({"model": "newcomer", "messages": SHORT}).status_code == 200, "the new model", SOON_S)
    call = script.arrival()
    assert call.path.endswith("/second/chat/completions")
    assert call.headers["authorization"] == "Bearer sk-second"
