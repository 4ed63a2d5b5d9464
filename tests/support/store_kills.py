"""Kills processes that write audits, and looks at what the next one finds: `python -m tests.support.store_kills N`.

A small process forks every victim, so that a kill costs milliseconds. A victim tells what it does through a pipe, before and
after each step; `store_journal` knows what may be found after that. Prints one JSON object with the figures.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from contextlib import closing, suppress
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from gateway.stores.base import AuditHead, AuditKey, AuditOutcome, AuditStatus
from gateway.stores.sqlite import SqliteStore
from gateway.stores.sqlite_file import MIGRATIONS
from tests.support.store_journal import AGED, Figures, Journal, Row, body, document

CHATS = 4  # each written by a task of its own, all at once
LONGEST_S = 0.025
LONGEST_PAUSE_S = 0.005  # before a generation; so audits that have ended are found, too
QUIET_EVERY, QUIET_S = 40, 0.2  # now and then a victim stops writing before it is killed: then nothing may be missing
OLD_FILE_EVERY = 10
Tell = Callable[..., None]
_ROWS = """
SELECT chat_id, generation_id, status, error_code, heads.document, bodies.document, tenant
FROM heads LEFT JOIN bodies ON head_id = id AND bodies.owner = heads.owner AND bodies.revision = heads.revision"""


def old_file(file: Path, chat: str) -> None:
    """A file of the first schema with a prepared audit, as a gateway of that time left it when it was killed."""
    for part in file.parent.glob(f"{file.name}*"):
        if part.is_file():
            part.unlink()
    with closing(sqlite3.connect(file, isolation_level=None)) as connection:
        for statement in MIGRATIONS[0]:
            connection.execute(statement)
        values = (chat, "old", document("old", amended=False))
        connection.execute(
            "INSERT INTO heads (tenant, chat_id, generation_id, owner, revision, status, model, created_at, auxiliary, document) "
            "VALUES ('', ?, ?, 'nobody', 0, 'prepared', 'gpt-4o', 10.0, 0, ?)",
            values,
        )
        connection.execute("PRAGMA user_version = 1")


async def turn(store: SqliteStore, tell: Tell, chat: str, generation: str, chance: random.Random) -> None:
    """One generation, and now and then what comes after it."""
    created = 1.0 if chat == AGED else 10.0
    key = AuditKey("", chat, generation)
    head = AuditHead(key, "gpt-4o", created, document(generation, amended=False))
    await asyncio.sleep(chance.random() * LONGEST_PAUSE_S)
    tell("replacing", chat, generation)
    await store.replace(head, body(generation, amended=False))
    tell("replaced", chat, generation)
    if chance.random() < 0.3:
        tell("amending", chat, generation)
        shorter = AuditHead(key, "gpt-4o", created, document(generation, amended=True))
        await store.amend(shorter, body(generation, amended=True))
        tell("amended", chat, generation)
    if chance.random() < 0.9:
        tell("finishing", chat, generation)
        await store.finish(key, AuditOutcome(AuditStatus.COMPLETED, time.time()))
    if chat == AGED or chance.random() < 0.2:
        tell("deleting", chat, generation)
        await (store.purge(2.0) if chat == AGED else store.delete_chat("", chat))
        tell("deleted", chat, generation)


async def work(file: Path, name: str, chance: random.Random, quiet: bool, tell: Tell) -> None:
    """Opens the store and writes until it is killed; a quiet one stops after some turns."""
    store = SqliteStore(file)
    await store.open()
    tell("opened")

    async def talk(chat: str) -> None:
        number = 0
        while not quiet or number < 5:
            await turn(store, tell, chat, f"{name}-{chat}-{number}", chance)
            number += 1

    await asyncio.gather(*(talk(chat) for chat in [AGED, *(f"chat-{number}" for number in range(CHATS))]))
    tell("quiet")
    await asyncio.sleep(60)


async def look(file: Path) -> list[Any]:
    """What a newcomer finds: what is wrong with the file, and all audits."""
    store = SqliteStore(file)
    await store.open()
    try:
        with closing(sqlite3.connect(file)) as connection:
            problems = [text for (text,) in connection.execute("PRAGMA integrity_check") if text != "ok"]
            (orphans,) = connection.execute("SELECT count(*) FROM bodies WHERE head_id NOT IN (SELECT id FROM heads)").fetchone()
            rows = [[part.decode() if isinstance(part, bytes) else part for part in row] for row in connection.execute(_ROWS)]
    finally:
        await store.aclose()
    problems += [f"{orphans} bodies without a head"] if orphans else []
    left = [path.name for path in file.with_name(f"{file.name}.owners").iterdir()]
    return [problems + [f"left behind: {name}" for name in left], rows]


class Child:
    """A process that runs a coroutine and tells through a pipe; forked, so that it costs no imports."""

    def __init__(self, story: Callable[[Tell], Coroutine[Any, Any, Any]]) -> None:
        self._told, writing = os.pipe()
        self.pid = os.fork()
        if self.pid:
            os.close(writing)
            return
        os.close(self._told)

        def tell(*what: object) -> None:
            os.write(writing, json.dumps([*what, time.monotonic()]).encode() + b"\n")

        code = 1
        try:
            result = asyncio.run(story(tell))
            with open(writing, "wb", closefd=False) as pipe:
                pipe.write(json.dumps(["result", result]).encode() + b"\n")
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)

    def wait_for(self, word: str) -> list[Any]:
        """What it tells up to this word, or to its end."""
        told: list[Any] = []
        while (line := self._line()) is not None:
            told.append(line)
            if line[0] == word:
                break
        return told

    def _line(self) -> Any:
        line = b""
        while not line.endswith(b"\n"):
            data = os.read(self._told, 1)
            if not data:
                return None  # a line may have been cut off by the end
            line += data
        return json.loads(line)

    def rest(self) -> list[Any]:
        """Everything else it told, once it has ended."""
        with open(self._told, "rb") as pipe:
            return [json.loads(line) for line in pipe if line.endswith(b"\n")]

    def kill(self) -> float:
        """Kills it, unless it has ended; when, by the monotonic clock."""
        at = time.monotonic()
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        return at


def looked(file: Path) -> tuple[list[str], list[Row]]:
    """What a newcomer of its own process finds."""
    child = Child(lambda _: look(file))
    told = child.rest()
    os.waitpid(child.pid, 0)
    problems, rows = told[-1][1] if told else (["a newcomer could not open the file"], [])
    return problems, [Row(*row) for row in rows]


def kill_at_random(file: Path, kills: int, seed: int) -> Figures:
    """So many victims, each killed while it opens the file or writes."""
    chance = random.Random(seed)  # noqa: S311  # no secret
    journal = Journal()
    for number in range(kills):
        if number % OLD_FILE_EVERY == 0:
            old_file(file, "chat-0")
            journal.start_over("chat-0", "old")
        quiet = number % QUIET_EVERY == QUIET_EVERY - 1
        turns = random.Random(chance.random())  # noqa: S311
        child = Child(partial(work, file, f"g{number}", turns, quiet))
        told = child.wait_for("quiet") if quiet else child.wait_for("opened") if chance.random() < 0.8 else []
        time.sleep(QUIET_S if quiet else chance.uniform(0, LONGEST_S))
        killed_at = child.kill()
        journal.take_up([*told, *child.rest()])
        journal.compare(*looked(file), killed_at, quiet=quiet)
    return journal.figures


async def every_step(file: Path, tell: Tell) -> None:
    """Opens the store, then one of each, one after the other."""
    store = SqliteStore(file)
    await store.open()
    for chat, chosen in (("chat-0", 0.0), ("chat-1", 0.0), (AGED, 0.0)):
        await turn(store, tell, chat, f"g-{chat}", _Always(chosen))
    await store.aclose()


class _Always(random.Random):
    """No chance: every turn does all there is."""

    def __init__(self, value: float) -> None:
        super().__init__(0)
        self._value = value

    def random(self) -> float:
        return self._value


def kill_at_statement(file: Path, number: int, *, after: bool) -> tuple[Figures, bool]:
    """A victim that does one of everything with an old file, killed before or after a statement; whether it got as far."""
    left = [number]

    class Fatal(sqlite3.Connection):
        def execute(self, *statement: Any) -> sqlite3.Cursor:
            left[0] -= 1
            if left[0] < 0 and not after:
                os.kill(os.getpid(), signal.SIGKILL)
            cursor = super().execute(*statement)
            if left[0] < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return cursor

    real, journal = sqlite3.connect, Journal()
    old_file(file, "chat-0")
    journal.start_over("chat-0", "old")
    with patch.object(sqlite3, "connect", lambda *where, **how: real(*where, **how, factory=Fatal)):
        child = Child(lambda tell: every_step(file, tell))
    told = child.rest()
    killed, at = os.WIFSIGNALED(os.waitpid(child.pid, 0)[1]), time.monotonic()
    journal.take_up([line for line in told if line[0] != "result"])
    journal.compare(*looked(file), at, quiet=not killed)
    return journal.figures, killed


def kill_at_every_statement(file: Path) -> Figures:
    """Each statement of a victim that does one of everything, before and after it."""
    figures = Figures()
    for after in (False, True):
        number, killed = 0, True
        while killed:
            found, killed = kill_at_statement(file, number, after=after)
            figures.add(found)
            number += 1
    return figures


def main() -> None:
    """Prints the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kills", help="how many at random, or `statements`: at each statement of a store's life")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "audits.db")
        if options.kills == "statements":
            figures = kill_at_every_statement(file)
        else:
            figures = kill_at_random(file, int(options.kills), options.seed)
    sys.stdout.write(json.dumps({**figures.told(), "seconds": round(time.monotonic() - began, 1)}) + "\n")


if __name__ == "__main__":
    main()
