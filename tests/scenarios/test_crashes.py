"""A gateway that is killed at any moment: the next one finds every audit ended, nothing lost, nothing damaged."""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.house.tree import ROOT
from tests.scenarios.loopback import replies
from tests.scenarios.loopback.chats import conversation
from tests.scenarios.loopback.raw_client import RawClient
from tests.scenarios.loopback.running_gateway import DATABASE, RunningGateway, environment, write_config
from tests.scenarios.loopback.upstream import Script, Upstream
from tests.scenarios.loopback.waiting import until

SHORT = [{"role": "user", "content": "Name three rivers."}]
TOO_LONG_LIMIT = 128
TOO_LONG = {"code": 400, "message": "request (190 tokens) exceeds the available context size (128 tokens)"}
OVERFLOW = {"error": {**TOO_LONG, "type": "exceed_context_size_error", "n_prompt_tokens": 120, "n_ctx": TOO_LONG_LIMIT}}
WRITTEN_S = 0.3  # ends and bodies are written within some 10 ms, here much later they must have been
RANDOM_KILLS, CLIENTS = 15, 6
FAILED, COMPLETED = ("failed", "GATEWAY_RESTARTED"), ("completed", None)


class Stored(NamedTuple):
    """What is said of an audit in the file itself."""

    generation: str
    how: tuple[str, str | None]


def stored(folder: Path) -> dict[str, Stored]:
    """The audits in the file by chat; the file is sound, and whoever is in it has a chat and an end or a living owner."""
    with closing(sqlite3.connect(folder / DATABASE)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        rows = connection.execute("SELECT chat_id, generation_id, status, error_code FROM heads WHERE tenant = ''").fetchall()
        (heads,) = connection.execute("SELECT count(*) FROM heads").fetchone()
        (orphans,) = connection.execute("SELECT count(*) FROM bodies WHERE head_id NOT IN (SELECT id FROM heads)").fetchone()
    found = {chat: Stored(generation, (status, code)) for chat, generation, status, code in rows}
    assert (len(found), orphans, "" in found) == (heads, 0, False)
    return found


def request(script: Script, chat_id: str, **fields: Any) -> dict[str, Any]:
    """A request in a chat."""
    return {"model": script.model, "messages": SHORT, "contextShift": {"chatId": chat_id}, **fields}


def killed_and_started_again(gateway: RunningGateway) -> dict[str, Stored]:
    """What the next gateway makes of what this one leaves when it is killed now. All of it has ended."""
    gateway.signal(signal.SIGKILL)
    assert gateway.ended() == -signal.SIGKILL
    gateway.start()
    found = stored(gateway.folder)
    assert [chat for chat, audit in found.items() if audit.how[0] == "prepared"] == []
    return found


@pytest.fixture(scope="module")
def doomed(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway that is killed by every test and runs again after it."""
    folder = tmp_path_factory.mktemp("doomed")
    write_config(folder, upstream.url)
    with RunningGateway(folder) as running:
        yield running
    running.require_clean_log()


def test_killed_while_it_reads_a_request_it_leaves_nothing(doomed: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    body = json.dumps(request(upstream.script(replies.plain()), chat_id)).encode()
    with RawClient(doomed.url) as client:
        head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: {client.host}\r\ncontent-type: application/json\r\n"
        client.send(f"{head}content-length: {len(body)}\r\n\r\n".encode() + body[:-1])
        assert chat_id not in killed_and_started_again(doomed)


@pytest.mark.parametrize("wait_s", [0.0, 0.001, 0.002, 0.004, 0.008])
def test_killed_around_the_commit_of_the_head_it_has_sent_nothing_without_an_audit(
    doomed: RunningGateway, upstream: Upstream, chat_id: str, wait_s: float
) -> None:
    script = upstream.script(upstream.gate())
    with RawClient(doomed.url) as client:
        client.post(request(script, chat_id))
        time.sleep(wait_s)  # nothing tells from outside that the head is being committed
        found = killed_and_started_again(doomed)
    assert script.calls == [] or found[chat_id].how == FAILED
    assert found.get(chat_id, Stored("", FAILED)).how == FAILED


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_killed_as_soon_as_the_provider_is_called_it_leaves_a_failed_audit(
    doomed: RunningGateway, upstream: Upstream, chat_id: str, stream: bool
) -> None:
    script = upstream.script(upstream.gate())
    with RawClient(doomed.url) as client:
        client.post(request(script, chat_id, stream=stream))
        script.arrival()  # the body may still wait to be written
        assert killed_and_started_again(doomed)[chat_id].how == FAILED
    audit = doomed.audit(chat_id)
    assert audit is not None
    assert (audit["status"], audit["errorCode"], audit["finishReason"], audit["usage"]) == (*FAILED, None, None)
    assert audit["finishedAt"] >= audit["createdAt"]


@pytest.mark.parametrize("pieces", [1, 20])
def test_killed_in_the_middle_of_a_stream_it_leaves_a_failed_audit(
    doomed: RunningGateway, upstream: Upstream, chat_id: str, pieces: int
) -> None:
    texts = [replies.piece(f"part {number}") for number in range(pieces)]
    script = upstream.script(replies.STREAM_HEAD, *texts, upstream.gate())
    with RawClient(doomed.url) as client:
        client.post(request(script, chat_id, stream=True))
        head = client.read_until(f"part {pieces - 1}".encode())
        found = killed_and_started_again(doomed)[chat_id]
    assert found.how == FAILED
    assert f"x-context-generation-id: {found.generation}".encode() in head.lower()


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_killed_while_the_end_waits_to_be_written_it_leaves_a_whole_or_a_failed_audit(
    doomed: RunningGateway, upstream: Upstream, chat_id: str, stream: bool
) -> None:
    script = upstream.script(replies.stream() if stream else replies.plain())
    with RawClient(doomed.url) as client:
        client.post(request(script, chat_id, stream=stream))
        client.read_until(b"[DONE]" if stream else b'"usage"')
        assert killed_and_started_again(doomed)[chat_id].how in (COMPLETED, FAILED)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_killed_some_time_after_the_end_it_leaves_a_completed_audit(
    doomed: RunningGateway, upstream: Upstream, chat_id: str, stream: bool
) -> None:
    script = upstream.script(replies.stream() if stream else replies.plain())
    with RawClient(doomed.url) as client:
        client.post(request(script, chat_id, stream=stream))
        client.read_until(b"[DONE]" if stream else b'"usage"')
        time.sleep(WRITTEN_S)
        killed_and_started_again(doomed)
    audit = doomed.audit(chat_id)
    assert audit is not None
    assert (audit["status"], audit["usage"], audit["providerMessages"]) == ("completed", replies.USAGE, SHORT)


def test_killed_after_an_overflow_it_leaves_the_audit_of_what_was_sent_last(
    doomed: RunningGateway, upstream: Upstream, chat_id: str
) -> None:
    script = upstream.script(replies.answer(json.dumps(OVERFLOW).encode(), 400), then=(upstream.gate(),))
    with RawClient(doomed.url) as client:
        client.post(request(script, chat_id, messages=conversation(turns=8)))
        script.arrival(2)
        killed_and_started_again(doomed)
    audit = doomed.audit(chat_id)
    assert audit is not None
    assert (audit["status"], audit["errorCode"]) == FAILED
    assert audit["budget"]["contextLimit"] == TOO_LONG_LIMIT
    sent = [call.json["messages"] for call in script.calls]
    assert len(sent[1]) < len(sent[0])
    assert audit["providerMessages"] in (sent[1], [])  # its body may not have been written


def test_killed_after_a_deletion_it_brings_nothing_back(doomed: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    gate = upstream.gate()
    script = upstream.script(gate, replies.plain())
    with RawClient(doomed.url) as client:
        client.post(request(script, chat_id))
        script.arrival()
        assert doomed.http.delete(f"/api/v2/chats/{chat_id}").status_code == 204
        gate.open()
        client.read_until(b'"usage"')
        assert chat_id not in killed_and_started_again(doomed)


def test_killed_at_random_under_load_it_loses_nothing(doomed: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(replies.stream())
    chance = random.Random(5)  # noqa: S311  # no secret
    seen_whole = restarted = 0
    for number in range(RANDOM_KILLS):
        load = Load(doomed, script, f"{chat_id}-{number}")
        load.start()
        until(lambda load=load: load.whole, "an answer")
        time.sleep(chance.uniform(0, 0.1))
        killed_at = time.monotonic()
        found = killed_and_started_again(doomed)
        load.join()
        sent = {call.json["messages"][0]["content"] for call in script.calls} - found.keys()
        assert sent == set(), "was sent, and nobody remembers"
        early = {chat for chat, at in load.whole.items() if killed_at - at > WRITTEN_S}
        assert {chat: found[chat].how for chat in early} == dict.fromkeys(early, COMPLETED)
        assert {audit.how for audit in found.values()} <= {COMPLETED, FAILED}
        seen_whole += len(load.whole)
        restarted += sum(audit.how == FAILED for chat, audit in found.items() if chat.startswith(load.name))
    assert seen_whole > RANDOM_KILLS
    assert restarted > 0, "no kill has hit a generation under way"


class Load:
    """Clients that ask, each request in a chat of its own that its message names, until the gateway is gone."""

    def __init__(self, gateway: RunningGateway, script: Script, name: str) -> None:
        self.name = name
        self.whole: dict[str, float] = {}  # by chat, when its end was seen
        self._url, self._script = gateway.url, script
        self._threads = [threading.Thread(target=self._ask, args=(number,)) for number in range(CLIENTS)]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(20)
            assert not thread.is_alive()

    def _ask(self, client: int) -> None:
        number = 0
        while True:
            chat, number = f"{self.name}-{client}-{number}", number + 1
            body = request(self._script, chat, stream=True, messages=[{"role": "user", "content": chat}])
            try:
                with RawClient(self._url) as connection:
                    connection.post(body)
                    if b"[DONE]" not in connection.read_until(b"[DONE]"):
                        return
            except OSError:
                return
            self.whole[chat] = time.monotonic()


def test_what_another_living_gateway_has_under_way_is_left_alone(upstream: Upstream, tmp_path: Path, chat_id: str) -> None:
    write_config(tmp_path, upstream.url)
    gate = upstream.gate()
    script = upstream.script(gate, replies.plain())
    chats = [f"{chat_id}-doomed", f"{chat_id}-living"]
    with RunningGateway(tmp_path) as doomed, RunningGateway(tmp_path) as living:
        with RawClient(doomed.url) as lost, RawClient(living.url) as client:
            for number, (connection, chat) in enumerate(zip((lost, client), chats, strict=True), 1):
                connection.post(request(script, chat))
                script.arrival(number)
            doomed.signal(signal.SIGKILL)
            doomed.ended()
            assert [stored(tmp_path)[chat].how[0] for chat in chats] == ["prepared", "prepared"]
            doomed.start()
            assert [stored(tmp_path)[chat].how for chat in chats] == [FAILED, ("prepared", None)]
            gate.open()
            assert b"HTTP/1.1 200" in client.read_until(b'"usage"')
        assert living.ended_audit(chats[1])["status"] == "completed"
        assert doomed.ended_audit(chats[1])["usage"] == replies.USAGE


def children_of(pid: int) -> list[int]:
    """The worker processes of a gateway; what else a parent of processes keeps is no worker."""
    listed = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    commands = {int(child): Path(f"/proc/{child}/cmdline").read_bytes() for child in listed}
    return [child for child, command in commands.items() if b"spawn_main" in command]


class WithWorkers(RunningGateway):
    """A gateway of two processes, which are known by their ids."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, "--workers", "2")

    @property
    def workers(self) -> list[int]:
        """The ids of those that live."""
        return children_of(self._process.pid)


def test_a_killed_worker_is_replaced_and_its_audits_end(upstream: Upstream, tmp_path: Path, chat_id: str) -> None:
    write_config(tmp_path, upstream.url)
    script = upstream.script(upstream.gate())
    with WithWorkers(tmp_path) as gateway, RawClient(gateway.url) as client:
        locks = tmp_path / f"{DATABASE}.owners"
        until(lambda: len(list(locks.glob("*.lock"))) == 2, "both workers have opened the store")
        before = gateway.workers
        client.post(request(script, chat_id))
        script.arrival()
        for worker in before:  # nothing tells from outside which of them has the request
            os.kill(worker, signal.SIGKILL)
        assert client.read_until(b"\r\n\r\n") == b""
        until(lambda: stored(tmp_path)[chat_id].how == FAILED, "the audit ends")
        again = upstream.script(replies.plain())
        assert httpx.post(f"{gateway.url}/v1/chat/completions", json=request(again, chat_id), trust_env=False).status_code == 200
        assert set(gateway.workers).isdisjoint(before)


def figures_of(*arguments: str) -> dict[str, Any]:
    """What came of kills below the gateway, where they are cheap."""
    command = [sys.executable, "-m", "tests.support.store_kills", *arguments]
    done = subprocess.run(  # noqa: S603  # our own command
        command, cwd=ROOT, env=environment(), capture_output=True, text=True, timeout=240, check=True
    )
    figures: dict[str, Any] = json.loads(done.stdout)
    return figures


def test_five_hundred_kills_at_random_leave_nothing_lost_and_nothing_open() -> None:
    figures = figures_of("500")
    assert figures["wrong"] == []
    assert figures["kills"] == 500
    assert 0 < figures["restarted"] < figures["audits"]


def test_a_kill_at_any_statement_leaves_nothing_lost_and_nothing_open() -> None:
    figures = figures_of("statements")
    assert figures["wrong"] == []
    assert figures["kills"] > 80
    assert figures["restarted"] > 0
