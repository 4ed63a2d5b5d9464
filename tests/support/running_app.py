"""A whole gateway from a configuration directory, started and stopped by its lifespan, without a socket."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests.support.rooms import App

GATEWAY = """
[store]
url = "memory:"
[providers.up]
base_url = "http://127.0.0.1:9/v1"
"""
MODEL = """
model = "m"
provider = "up"
context_limit = 100
tokenizer = "approximate"
"""


def write_tree(folder: Path, gateway: str = GATEWAY, **models: str) -> Path:
    """Writes a configuration: gateway.toml, and models by file name (a model `m` where none is named)."""
    (folder / "models").mkdir(exist_ok=True, parents=True)
    (folder / "gateway.toml").write_text(gateway, encoding="utf-8")
    for name, text in (models or {"m": MODEL}).items():
        (folder / "models" / f"{name}.toml").write_text(text, encoding="utf-8")
    return folder


@asynccontextmanager
async def started(app: App) -> AsyncIterator[dict[str, Any]]:
    """Runs the lifespan around the block; gives its state."""
    inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    outbox: asyncio.Queue[Any] = asyncio.Queue()
    state: dict[str, Any] = {}
    task = asyncio.ensure_future(app({"type": "lifespan", "state": state, "asgi": {}}, inbox.get, outbox.put))
    await inbox.put({"type": "lifespan.startup"})
    assert (await outbox.get())["type"] == "lifespan.startup.complete"
    try:
        yield state
    finally:
        await inbox.put({"type": "lifespan.shutdown"})
        assert (await outbox.get())["type"] == "lifespan.shutdown.complete"
        await task
