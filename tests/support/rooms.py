"""A gateway put together from small parts, without files, sockets or a lifespan."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

import httpx

from gateway.counting import PromptCounting
from gateway.generation import GenerationService
from gateway.learned_limits import LearnedLimits
from gateway.model_catalog import ModelCatalog
from gateway.model_limits import ModelLimits
from gateway.plugins.host import PluginHost
from gateway.preparation import Ports, Preferences, PromptPreparer
from gateway.recorder import AuditRecorder
from gateway.recovery import OverflowRecovery
from gateway.relevance.none import NoRelevance
from gateway.relevance.recall import with_relevance
from gateway.settings import Settings
from gateway.shifting import ContextStrategyRegistry
from gateway.stores.base import AuditStore, StoredAudit
from gateway.stores.memory import MemoryStore
from gateway.telemetry import Telemetry
from gateway.tenants import Tenants
from gateway.web.asgi import Receive, Scope, Send
from gateway.web.guards import Client, Guards
from gateway.web.rooms import Engine, Rooms
from gateway.web.routes import application
from gateway.web.wire import ChatReader
from gateway.web.wire_messages import MessageReader
from tests.support.doubles import FakeProvider
from tests.support.small_chats import WordProfile, encoded, model_config, profiles, turns

T = TypeVar("T")
App = Callable[[Scope, Receive, Send], Awaitable[None]]


def run(work: Awaitable[T]) -> T:
    """Runs a coroutine; whatever hangs fails within ten seconds."""

    async def within() -> T:
        async with asyncio.timeout(10):
            return await work

    return asyncio.run(within())


def open_rooms(
    provider: FakeProvider | None = None,
    *,
    store: AuditStore | None = None,
    settings: Settings | None = None,
    models: list[Any] | None = None,
    telemetry: Telemetry | None = None,
) -> Rooms:
    """Rooms over one provider called `up` and one model called `m`. The store is opened by `ask`."""
    provider, store, settings = provider or FakeProvider(), store or MemoryStore(), settings or Settings()
    providers = {"up": provider}
    catalog = ModelCatalog(models or [model_config()])
    telemetry = telemetry or Telemetry()
    learned = LearnedLimits(store, changed=telemetry.learned)
    limits = ModelLimits(providers, learned)
    counting = PromptCounting(profiles(words=WordProfile(), approximate=WordProfile()), {})
    shifting = PluginHost(ContextStrategyRegistry.with_builtins())
    ports = Ports(counting, limits, partial(with_relevance, scorer=NoRelevance()))
    preparer = PromptPreparer(catalog.resolve, shifting, ports, Preferences(settings.clients.report))
    recovery = OverflowRecovery(preparer, learned, providers)
    recorder = AuditRecorder(store, telemetry)
    generations = GenerationService(preparer, recorder, providers, recovery, telemetry)
    engine = Engine(settings, catalog, Tenants(settings.auth), limits, preparer, generations, providers)
    return Rooms(engine, ChatReader(MessageReader()), store, lambda: None, list)


def application_of(rooms: Rooms) -> App:
    """Everything that the server sees, the guards first."""

    @asynccontextmanager
    async def lifespan(app: object) -> Any:
        yield

    return Guards(application(rooms, lifespan), rooms, "127.0.0.1")


async def fetch(app: App, method: str, path: str, body: Any = b"", headers: Mapping[str, str] | None = None) -> httpx.Response:
    """One request through an ASGI application; a body that is no bytes is sent as JSON."""
    transport = httpx.ASGITransport(app=app, raise_app_exceptions=False)  # type: ignore[arg-type]
    content = body if isinstance(body, bytes) else encoded(body)
    async with httpx.AsyncClient(transport=transport) as client:
        return await client.request(method, f"http://127.0.0.1:8787{path}", content=content, headers=headers)


async def ask(rooms: Rooms, method: str, path: str, body: Any = b"", headers: Mapping[str, str] | None = None) -> httpx.Response:
    """One request to the rooms, whose store is opened first."""
    await rooms.store.open()
    return await fetch(application_of(rooms), method, path, body, headers)


def post_scope(path: str = "/v1/chat/completions", **headers: str) -> dict[str, Any]:
    """The scope of a POST by an anonymous client."""
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    return {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": raw,
        "state": {"client": Client(None, None)},
    }


def body_message(body: Any, *, more: bool = False) -> dict[str, Any]:
    """A piece of the request's body as the server hands it over."""
    content = body if isinstance(body, bytes) else encoded(body)
    return {"type": "http.request", "body": content, "more_body": more}


@dataclass
class Connection:
    """The two ends of one request: what the client sends and when it leaves; what it got."""

    waiting: list[dict[str, Any]] = field(default_factory=list)
    sent: list[dict[str, Any]] = field(default_factory=list)
    leaves: asyncio.Event = field(default_factory=asyncio.Event)
    after_send: Callable[[int], object] = lambda number: None

    async def receive(self) -> Any:
        if self.waiting:
            return self.waiting.pop(0)
        await self.leaves.wait()
        return {"type": "http.disconnect"}

    async def send(self, message: Any) -> None:
        self.sent.append(message)
        self.after_send(len(self.sent))
        await asyncio.sleep(0)

    @property
    def status(self) -> int | None:
        return self.sent[0]["status"] if self.sent else None

    @property
    def body(self) -> bytes:
        return b"".join(message.get("body", b"") for message in self.sent[1:])


def chat(*, model: str = "m", **more: Any) -> dict[str, Any]:
    """The JSON of a small request."""
    return {"model": model, "messages": turns(3), **more}


async def only_audit(store: AuditStore, chat_id: str = "c", tenant: str = "") -> StoredAudit:
    """The audit of a chat that must be there."""
    found = await store.latest(tenant, chat_id)
    assert found is not None
    return found
