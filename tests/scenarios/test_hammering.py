"""Many processes, one chat: never two audits, never one made of two, never one that had been replaced or deleted."""

from __future__ import annotations

import asyncio
import itertools
import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway.stores.base import StoredAudit
from gateway.stores.builtin import open_store
from tests.families.stores import URLS
from tests.house.tree import ROOT
from tests.scenarios.loopback import replies
from tests.scenarios.loopback.running_gateway import DATABASE, RunningGateway, environment, write_config
from tests.scenarios.loopback.upstream import Script, Upstream
from tests.scenarios.loopback.waiting import until
from tests.support.history import Event, contradictions
from tests.support.store_hammer import CHAT, is_whole

SECONDS = 2.5
CLIENTS = 6  # threads that ask a gateway
SHARED = sorted(URLS.keys() - {"memory"})  # what several processes can share


def hammered(url: str, processes: int) -> list[list[Any]]:
    """What so many processes tell of hammering one store at once."""
    command = [sys.executable, "-W", "error", "-m", "tests.support.store_hammer", url]
    started = [
        subprocess.Popen(  # noqa: S603  # our own command
            [*command, f"p{number}", str(SECONDS)],
            cwd=ROOT,
            env=environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(processes)
    ]
    try:
        for process in started:
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in started:
            assert process.stdin is not None
            process.stdin.write("begin\n")
            process.stdin.flush()
        told = [process.communicate(timeout=60)[0] for process in started]
    finally:
        for process in started:
            process.kill()
            process.communicate()
    assert [process.returncode for process in started] == [0] * processes
    return [json.loads(line) for text in told for line in text.splitlines()]


async def left_in(url: str) -> tuple[StoredAudit | None, int]:
    """What a newcomer finds in the chat, and how many chats there are."""
    store = open_store(url)
    await store.open()
    try:
        return await store.latest("", CHAT), len(await store.chats("", 10))
    finally:
        await store.aclose()


@pytest.mark.parametrize("processes", [2, 8])
@pytest.mark.parametrize("scheme", SHARED)
def test_processes_that_hammer_one_chat_leave_and_see_one_whole_audit(scheme: str, processes: int, tmp_path: Path) -> None:
    url = URLS[scheme](tmp_path)
    told = hammered(url, processes)
    began = time.monotonic()
    audit, rows = asyncio.run(left_in(url))
    assert [line for line in told if line[0] == "wrong"] == []
    generation = None if audit is None else audit.head.key.generation_id
    events = [*(Event(*line) for line in told), Event("read", generation, began, time.monotonic())]
    assert contradictions(events) == []
    assert rows == (audit is not None)
    if audit is not None:
        assert is_whole(audit)
        assert None not in (audit.outcome, audit.body)
    assert {event.generation is None for event in events if event.what == "read"} == {False, True}
    assert sum(event.what == "put" for event in events) > 20 * processes


class Client:
    """Asks one gateway in one chat, from a thread of its own: generations, the audit, the list, deletions."""

    def __init__(self, url: str, script: Script, name: str, end: float) -> None:
        self.events: list[Event] = []
        self.wrong: list[object] = []
        self.seen: list[tuple[str, str]] = []  # a generation, and what its prompt said where the body was there
        self.sent: dict[str, str] = {}  # the same, as it was sent
        self._script, self._name, self._end = script, name, end
        self._http = httpx.Client(base_url=url, trust_env=False, timeout=30, headers={"connection": "close"})
        self.thread = threading.Thread(target=self._run)

    def _run(self) -> None:
        with self._http:
            for number in itertools.count():
                if time.monotonic() > self._end:
                    return
                self._generate(f"{self._name}-{number}", stream=number % 2 == 1)
                self._timed("read", self._audit)
                if number % 3 == 0:
                    self._timed("delete", self._delete)
                    self._timed("read", self._listed)

    def _timed(self, what: str, call: Callable[[], str | None]) -> None:
        began = time.monotonic()
        generation = call()
        self.events.append(Event(what, generation, began, time.monotonic()))

    def _generate(self, text: str, *, stream: bool) -> None:
        messages = [{"role": "user", "content": text}]
        body = {"model": self._script.model, "messages": messages, "stream": stream, "contextShift": {"chatId": CHAT}}

        def post() -> str | None:
            response = self._http.post("/v1/chat/completions", json=body)
            if response.status_code != 200 or "error" in response.text:
                self.wrong.append((response.status_code, response.text))
                return None
            generation = response.headers["x-context-generation-id"]
            self.sent[generation] = text
            return generation

        self._timed("put", post)

    def _audit(self) -> str | None:
        response = self._http.get(f"/api/v2/chats/{CHAT}/context-audit")
        if response.status_code == 404:
            return None
        audit = response.json()["audit"]
        if (audit["status"], audit["errorCode"]) not in [("prepared", None), ("completed", None)]:
            self.wrong.append(audit)
        said = [message["content"] for message in audit["providerMessages"]]
        self.seen += [(audit["generationId"], text) for text in said]
        return str(audit["generationId"])

    def _listed(self) -> str | None:
        chats = self._http.get("/api/v2/chats").json()["chats"]
        if len(chats) > 1:
            self.wrong.append(chats)
        return chats[0]["generationId"] if chats else None

    def _delete(self) -> None:
        response = self._http.delete(f"/api/v2/chats/{CHAT}")
        if response.status_code not in (204, 404):
            self.wrong.append(response.status_code)


@pytest.mark.parametrize(("scheme", "workers"), [("sqlite", 2), ("sqlite", 8), ("postgresql", 2)])
def test_workers_that_hammer_one_chat_leave_and_show_one_whole_audit(
    upstream: Upstream, tmp_path: Path, scheme: str, workers: int
) -> None:
    write_config(tmp_path, upstream.url)
    script = upstream.script(replies.plain())
    with RunningGateway(tmp_path, "--workers", str(workers), SLUICEGATE_STORE__URL=URLS[scheme](tmp_path)) as gateway:
        if scheme == "sqlite":
            locks = tmp_path / f"{DATABASE}.owners"
            until(lambda: len(list(locks.glob("*.lock"))) == workers, "all workers have opened the store", 30)
        end = time.monotonic() + SECONDS
        clients = [Client(gateway.url, script, f"client-{number}", end) for number in range(CLIENTS)]
        for client in clients:
            client.thread.start()
        for client in clients:
            client.thread.join(60)
            assert not client.thread.is_alive()
        events = [event for client in clients for event in client.events]
        last = gateway.audit(CHAT)
        if last is not None:
            assert gateway.ended_audit(CHAT)["status"] == "completed"
    gateway.require_clean_log()
    assert [client.wrong for client in clients] == [[]] * CLIENTS
    assert contradictions(events) == []
    sent = {generation: text for client in clients for generation, text in client.sent.items()}
    seen = {(generation, text) for client in clients for generation, text in client.seen}
    assert seen
    assert seen <= sent.items()
    assert {event.generation is None for event in events if event.what == "read"} == {False, True}


PUT, SECOND = Event("put", "g1", 1.0, 2.0), Event("put", "g2", 3.0, 4.0)
GONE = Event("delete", None, 5.0, 6.0)


@pytest.mark.parametrize(
    "events",
    [
        [PUT, SECOND, Event("read", "g1", 3.5, 3.6)],
        [PUT, SECOND, Event("read", "g1", 1.5, 5.0), Event("read", None, 0.0, 1.5)],
        [PUT, SECOND, GONE, Event("read", "g2", 5.5, 5.6), Event("read", None, 5.5, 5.6), Event("read", None, 7.0, 8.0)],
        [PUT, Event("delete", None, 1.5, 3.0), Event("read", "g1", 4.0, 5.0), Event("read", None, 4.0, 5.0)],
    ],
)
def test_what_can_have_happened_one_after_the_other_is_no_contradiction(events: list[Event]) -> None:
    assert contradictions(events) == []


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([PUT, SECOND, Event("read", "g1", 4.5, 5.0)], "replaced or deleted"),
        ([PUT, GONE, Event("read", "g1", 6.5, 7.0)], "replaced or deleted"),
        ([PUT, Event("read", "g1", 0.0, 0.5)], "before it was put"),
        ([Event("read", "g1", 0.0, 0.5)], "before it was put"),
        ([PUT, Event("read", None, 2.5, 3.0), GONE], "nothing was found"),
        ([GONE, Event("put", "g3", 7.0, 8.0), Event("read", None, 8.5, 9.0)], "nothing was found"),
    ],
)
def test_what_can_not_have_happened_is_a_contradiction(events: list[Event], words: str) -> None:
    (found,) = contradictions(events)
    assert words in found
