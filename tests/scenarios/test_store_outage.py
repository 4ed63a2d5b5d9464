"""A store that does not answer: nothing is sent without an audit, nobody loses an answer, and it heals by itself."""

from __future__ import annotations

import os
import resource
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.house.tree import ROOT
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


@contextmanager
def full(gateway: RunningGateway) -> Iterator[None]:
    """The disk takes no more: the system refuses the gateway every write to a file."""
    (pid,) = [int(path.name) for path in Path("/proc").glob("[0-9]*") if works_in(path, gateway.folder)]
    before = resource.prlimit(pid, resource.RLIMIT_FSIZE)
    resource.prlimit(pid, resource.RLIMIT_FSIZE, (0, before[1]))
    yield
    resource.prlimit(pid, resource.RLIMIT_FSIZE, before)


def works_in(process: Path, folder: Path) -> bool:
    """Whether a process works in this folder."""
    try:
        return (process / "cwd").readlink() == folder
    except OSError:
        return False


@contextmanager
def read_only(gateway: RunningGateway) -> Iterator[None]:
    """The file may only be read. One that is open already goes on to be written, so the gateway has to open it anew."""
    file = gateway.folder / DATABASE
    file.chmod(0o400)
    with locked(gateway):
        assert gateway.http.get("/readyz").status_code == 503
    yield
    file.chmod(0o600)


GIVE_UP_PRIVILEGES = """\
import ctypes

word = ctypes.c_uint32
ctypes.CDLL(None).capset((word * 2)(0x20080522, 0), (word * 6)())  # version 3 of the call, this process, no capability
"""
OUTAGES = {"locked": locked, "full": full, "read-only": read_only}


@pytest.fixture(scope="module")
def without_privileges(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway with a database of its own, for which permissions count though its user may be root."""
    folder = tmp_path_factory.mktemp("outages")
    write_config(folder, upstream.url)
    with RunningGateway(folder, PYTHONPATH=weakened(folder)) as running:
        yield running
    running.require_clean_log()


def weakened(folder: Path) -> str:
    """A path to import from with which a Python process starts by giving up all of root's privileges."""
    drop = (
        "import ctypes\n\nlibc, word = ctypes.CDLL(None), ctypes.c_uint32\nlibc.capset((word * 2)(0x20080522, 0), (word * 6)())\n"
    )
    (folder / "sitecustomize.py").write_text(drop)
    return f"{folder}{os.pathsep}{ROOT}"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("outage", sorted(OUTAGES))
def test_an_outage_costs_no_answer_under_way_and_ends_without_a_restart(
    without_privileges: RunningGateway, upstream: Upstream, chat_id: str, outage: str, stream: bool
) -> None:
    gateway, gate = without_privileges, upstream.gate()
    script = upstream.script(gate, replies.stream() if stream else replies.plain())
    late = upstream.script(replies.plain())
    with RawClient(gateway.url) as client:
        client.post(request(script, chat_id, stream=stream))
        script.arrival()
        with OUTAGES[outage](gateway):
            gate.open()
            answer = client.read_until(b"[DONE]" if stream else b'"usage"')
            response = gateway.post(request(late, f"{chat_id}-late"))
            ready = gateway.http.get("/readyz")
    assert b"HTTP/1.1 200" in answer
    assert replies.TEXT.encode() in answer
    assert b"STORE_UNAVAILABLE" not in answer
    error = checked_answer(response.status_code, response.headers, response.json())
    assert (response.status_code, error["code"], response.headers["retry-after"]) == (503, "STORE_UNAVAILABLE", "1")
    assert str(gateway.folder) not in error["message"]
    assert (ready.status_code, ready.json()["store"]) == (503, "unavailable")
    assert late.calls == []
    audit = gateway.ended_audit(chat_id)
    assert (audit["status"], audit["usage"]) == ("completed", replies.USAGE)
    assert gateway.audit(f"{chat_id}-late") is None
    assert gateway.post(request(late, f"{chat_id}-late")).status_code == 200
    assert gateway.http.get("/readyz").status_code == 200


def test_a_read_only_file_is_said_at_the_start(upstream: Upstream, tmp_path: Path) -> None:
    write_config(tmp_path, upstream.url)
    (tmp_path / DATABASE).touch(0o400)
    run = run_command(tmp_path, "serve", "--config", "config", "--port", "0", PYTHONPATH=weakened(tmp_path))
    assert "The audit store can't be opened" in run.stderr
    assert "Traceback" not in run.stderr
    assert (run.returncode, run.stdout) == (1, "")


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
