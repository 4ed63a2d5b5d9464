"""Two gateways as on two machines: a folder and a configuration each, one PostgreSQL database, one address in front."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.scenarios.loopback.raw_client import RawClient
from tests.scenarios.loopback.running_gateway import RunningGateway, write_config
from tests.support.nginx_server import NginxServer, free_port

MAX_BODY_BYTES = 4_000_000
KEYS = {"team-a": "sg-key-of-team-a", "team-b": "sg-key-of-team-b"}
_SERVER = f"max_body_bytes = {MAX_BODY_BYTES}\nshutdown_grace_s = 20"
_AUTH = "[auth]\nallow_anonymous = true\n" + "\n".join(
    f'[[auth.keys]]\nname = "{name}"\nsha256 = "{hashlib.sha256(key.encode()).hexdigest()}"' for name, key in KEYS.items()
)


class Front(RunningGateway):
    """What clients see: one address, asked as if a single gateway stood there. It has no process of its own."""

    def __init__(self, folder: Path, url: str) -> None:
        super().__init__(folder)
        self.url = url
        self.http.base_url = url

    def client(self) -> RawClient:
        """A connection of one's own."""
        return RawClient(self.url)


@dataclass(frozen=True)
class TwoMachines:
    """The gateways, and the nginx in front of them."""

    gateways: tuple[RunningGateway, RunningGateway]
    nginx: NginxServer
    front: Front


@contextmanager
def two_machines(folder: Path, upstream_url: str, store_url: str) -> Iterator[TwoMachines]:
    """Both gateways and nginx, running. A gateway that is started again has its old port."""
    ports, folders = (free_port(), free_port()), (folder / "one", folder / "two")
    for each in folders:
        write_config(each, upstream_url, server=_SERVER, provider='api_key = "sk-of-the-gateways"', more=_AUTH)
    (folder / "nginx").mkdir()
    one, two = (
        RunningGateway(each, "--port", str(port), SLUICEGATE_STORE__URL=store_url)
        for each, port in zip(folders, ports, strict=True)
    )
    with one, two, NginxServer(folder / "nginx", ports) as nginx:
        front = Front(folder, nginx.url)
        with front.http:
            yield TwoMachines((one, two), nginx, front)
    one.require_clean_log()
    two.require_clean_log()
