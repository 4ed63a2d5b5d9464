"""Several processes at one SQLite file: who is killed leaves no audit behind that waits for ever, who lives is left alone."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import gateway
from gateway.stores.base import AuditStatus, StoredAudit
from gateway.stores.sqlite import SqliteStore

SCRIPT = Path(__file__).with_name("neighbour.py")
ROOT = Path(gateway.__file__).parents[1]

Start = Callable[[str, str], "subprocess.Popen[str]"]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "var" / "audits.db"


@pytest.fixture
def start(file: Path) -> Iterator[Start]:
    """Starts neighbours, and kills those that are left."""
    started: list[subprocess.Popen[str]] = []

    def begin(story: str, name: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-W", "error", str(SCRIPT), str(file), story, name]
        environment = {**os.environ, "PYTHONPATH": str(ROOT)}
        started.append(subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment))  # noqa: S603  # our own
        return started[-1]

    yield begin
    for process in started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def prepared(process: subprocess.Popen[str]) -> None:
    assert process.stdout is not None
    assert process.stdout.readline() == "prepared\n"


async def found_by_a_newcomer(file: Path, *chats: str) -> list[StoredAudit]:
    store = SqliteStore(file)
    await store.open()
    try:
        found = [await store.latest("", chat) for chat in chats]
    finally:
        await store.aclose()
    return [audit for audit in found if audit is not None]


def test_what_a_killed_process_left_is_failed_and_the_living_are_left_alone(file: Path, start: Start) -> None:
    doomed, living = start("hold", "doomed"), start("hold", "living")
    prepared(doomed)
    prepared(living)

    before = asyncio.run(found_by_a_newcomer(file, "doomed", "living"))
    assert [audit.outcome for audit in before] == [None, None]

    os.kill(doomed.pid, signal.SIGKILL)
    doomed.wait()
    failed, untouched = asyncio.run(found_by_a_newcomer(file, "doomed", "living"))
    assert failed.outcome is not None
    assert failed.outcome.status is AuditStatus.FAILED
    assert failed.outcome.error_code == "GATEWAY_RESTARTED"
    assert failed.outcome.finished_at >= failed.head.created_at
    assert untouched.outcome is None
    assert len(list(file.with_name("audits.db.owners").iterdir())) == 1


def test_an_owner_without_a_lock_file_is_dead(file: Path, start: Start) -> None:
    doomed = start("hold", "doomed")
    prepared(doomed)
    doomed.kill()
    doomed.wait()
    for lock in file.with_name("audits.db.owners").iterdir():
        lock.unlink()
    (failed,) = asyncio.run(found_by_a_newcomer(file, "doomed"))
    assert failed.outcome is not None
    assert failed.outcome.error_code == "GATEWAY_RESTARTED"


def test_three_processes_at_one_chat_leave_one_whole_audit(file: Path, start: Start) -> None:
    hammers = [start("hammer", name) for name in ("one", "two", "three")]
    assert [process.wait(timeout=30) for process in hammers] == [0, 0, 0]
    (audit,) = asyncio.run(found_by_a_newcomer(file, "shared"))
    assert audit.head.document == audit.head.key.generation_id.encode()
    assert audit.body == audit.head.document * 500
    assert audit.outcome is not None
    assert audit.outcome.status is AuditStatus.COMPLETED
    assert list(file.with_name("audits.db.owners").iterdir()) == []


def test_a_store_that_nobody_closed_does_not_keep_a_process_alive(file: Path, start: Start) -> None:
    assert start("forget", "chat").wait(timeout=20) == 0
    (audit,) = asyncio.run(found_by_a_newcomer(file, "chat"))
    assert audit.outcome is not None
    assert audit.outcome.error_code == "GATEWAY_RESTARTED"
