"""A real nginx on a loopback port, with the file that `deploy/` shows and nothing of the machine's own nginx.

The file is taken as it stands but for the addresses: where nginx listens, and where the gateways are.
"""

from __future__ import annotations

import grp
import os
import pwd
import socket
import subprocess
from collections.abc import Sequence
from contextlib import closing, suppress
from pathlib import Path

from requirements import system
from tests.house.tree import ROOT
from tests.scenarios.loopback.waiting import until

SHOWN = ROOT / "deploy" / "nginx.conf"
SHOWN_GATEWAYS = ("gateway-1:8787", "gateway-2:8787")
SHOWN_LISTEN = "listen 8080;"
_AROUND = """\
{user}
worker_processes 2;
pid nginx.pid;
events {{}}
http {{
    log_format gateways '$status $upstream_addr';
    access_log access.log gateways;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path fastcgi;
    uwsgi_temp_path uwsgi;
    scgi_temp_path scgi;
    include sluicegate.conf;
}}
"""


def free_port() -> int:
    """A loopback port that nobody listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def with_addresses(shown: str, port: int, gateways: Sequence[int]) -> str:
    """The shown file for loopback ports. Fails where the file doesn't hold exactly the addresses it should."""
    for old, new in [(SHOWN_LISTEN, port), *zip(SHOWN_GATEWAYS, gateways, strict=True)]:
        assert shown.count(old) == 1, f"{SHOWN.name} must hold {old!r} once"
        shown = shown.replace(old, f"listen 127.0.0.1:{new};" if old == SHOWN_LISTEN else f"127.0.0.1:{new}")
    return shown


def _same_user() -> str:
    """As root the workers would be somebody else, who can't reach the folder; everybody else can't choose."""
    if os.geteuid() != 0:
        return ""
    return f"user {pwd.getpwuid(0).pw_name} {grp.getgrgid(0).gr_name};"


class NginxServer:
    """nginx in front of gateways at these loopback ports. Entered, it answers; at the end it is stopped."""

    def __init__(self, folder: Path, gateways: Sequence[int]) -> None:
        self.folder = folder
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._gateways = gateways
        self._process: subprocess.Popen[bytes]

    def __enter__(self) -> NginxServer:
        program = system.found()
        assert program is not None, system.MISSING
        text = with_addresses(SHOWN.read_text(encoding="utf-8"), self.port, self._gateways)
        (self.folder / "sluicegate.conf").write_text(text)
        (self.folder / "nginx.conf").write_text(_AROUND.format(user=_same_user()))
        command = [str(program), "-p", str(self.folder), "-e", "error.log", "-c", "nginx.conf"]
        tested = subprocess.run([*command, "-t"], capture_output=True, text=True, check=False, timeout=30)  # noqa: S603  # our own
        assert tested.returncode == 0, tested.stderr
        assert "[warn]" not in tested.stderr, tested.stderr
        self._process = subprocess.Popen([*command, "-g", "daemon off;"], stdin=subprocess.DEVNULL)  # noqa: S603  # our own
        until(self._listens, "nginx listens")
        return self

    def __exit__(self, *exception: object) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(10)
            raise

    def _listens(self) -> bool:
        assert self._process.poll() is None, (self.folder / "error.log").read_text()
        with suppress(ConnectionRefusedError), closing(socket.create_connection(("127.0.0.1", self.port), 5)):
            return True
        return False

    def served(self) -> list[str]:
        """Every request that has ended, as its status and the gateways that were asked for it, one after the other."""
        return (self.folder / "access.log").read_text().splitlines()
