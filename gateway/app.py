"""The composition root: what the gateway is made of. Opens and closes everything; what is not named here does not exist."""

from __future__ import annotations

import asyncio
import logging
import os
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Router
from starlette.types import ASGIApp

from gateway import __version__
from gateway.config_watch import ConfigWatch
from gateway.counting import PromptCounting
from gateway.errors import StoreUnavailable
from gateway.generation import GenerationService
from gateway.learned import Lesson
from gateway.learned_limits import LearnedLimits
from gateway.model_catalog import ModelCatalog, require_known
from gateway.model_limits import ModelLimits
from gateway.plugins.host import PluginHost
from gateway.plugins.loader import load_plugins
from gateway.preparation import Ports, Preferences, PromptPreparer, Relevance
from gateway.providers.base import Provider, ProviderConfig, Retries, Timeouts
from gateway.providers.builtin import BUILTIN as PROVIDER_KINDS
from gateway.recorder import AuditRecorder
from gateway.recovery import OverflowRecovery
from gateway.relevance.builtin import BUILTIN as SCORERS
from gateway.relevance.endpoint import Endpoint
from gateway.relevance.recall import with_relevance
from gateway.sentence_splitting import split_sentences
from gateway.settings import ProviderSettings, Settings, load_settings, require_safe_bind
from gateway.shifting import ContextStrategyRegistry
from gateway.shifting.strategies.summarize import Summarize
from gateway.stores.base import AuditStore, UnknownStore
from gateway.stores.builtin import open_store
from gateway.telemetry import Telemetry
from gateway.tenants import Tenants
from gateway.toml_tree import ConfigError, Place
from gateway.unbuilt import require_built
from gateway.web.context_headers import EXPOSED_HEADERS
from gateway.web.guards import Guards
from gateway.web.rooms import Engine, Rooms
from gateway.web.routes import application
from gateway.web.wire import ChatReader
from gateway.web.wire_messages import MessageReader
from tokenizer_profiles.registry import ProfileRegistry

CONFIG_VARIABLE = "SLUICEGATE_CONFIG"  # how worker processes learn the configuration directory
PURGE_EVERY_S = 3600.0
DRAIN_S = 5.0  # so long open audits may take to end once the server has stopped
_DAY_S = 86_400.0
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Configuration:
    """One validated configuration tree, with the plug-ins that it names and those that are installed."""

    settings: Settings
    models: ModelCatalog
    plugins: PluginHost


def load_configuration(config_dir: Path, environ: Mapping[str, str]) -> Configuration:
    """Reads and validates the whole tree. Raises ConfigError, which names file and key."""
    settings = load_settings(config_dir, environ)
    models = ModelCatalog.load(config_dir, settings, environ)
    require_built(settings, models)
    _store(settings)  # names an unknown kind; opens nothing
    plugins = load_plugins(settings, own_strategies())
    try:
        require_known(
            settings,
            models,
            strategies=plugins.strategies.names(),
            profiles=ProfileRegistry.with_builtins().names(),
            providers=tuple(settings.providers),
        )
    except ConfigError:
        plugins.close()
        raise
    return Configuration(settings, models, plugins)


class Gateway:
    """The running gateway: an ASGI application, and the parts behind it."""

    def __init__(self, configuration: Configuration, config_dir: Path | None = None, *, worker: str = "") -> None:
        """With a directory its changes are picked up while the gateway runs. `worker` names one of several processes."""
        settings = configuration.settings
        self._config_dir = config_dir
        self._bound_host = settings.server.host
        self._profiles = ProfileRegistry.with_builtins()
        self._configuration = configuration
        self._telemetry = Telemetry(__version__, worker)
        self._telemetry.before_reading = self._read_watch
        self._store = _store(settings)
        self._recorder = AuditRecorder(self._store, self._telemetry)
        self._learned = LearnedLimits(self._store, changed=self._telemetry.learned)
        self._providers: list[Provider] = []
        self._watch: ConfigWatch[Configuration] | None = None
        self._chores: set[asyncio.Task[object]] = set()
        self._counting: PromptCounting
        self.rooms = Rooms(
            self._engine(configuration), ChatReader(MessageReader()), self._store, self._problem, self._plugin_problems
        )
        app: ASGIApp = Guards(application(self.rooms, self._lifespan), self.rooms, settings.server.host, self._telemetry)
        if settings.server.cors_origins:
            app = CORSMiddleware(
                app,
                allow_origins=settings.server.cors_origins,
                allow_methods=["GET", "POST", "PUT", "PATCH", "DELETE"],
                allow_headers=["*", "Authorization"],
                expose_headers=EXPOSED_HEADERS,
            )
        self.app = app

    async def take_up_lessons(self) -> None:
        """For a gateway that doesn't serve: what overflows taught others, so that it fits prompts as they do."""
        self._learned.take_up(await stored_lessons(self._configuration.settings))

    def drain(self) -> None:
        """No new work from now on."""
        self.rooms.draining = True

    def _engine(self, configuration: Configuration) -> Engine:
        settings, models = configuration.settings, configuration.models
        providers = make_providers(settings)
        self._providers += providers.values()
        self._learned.remember_s = settings.overflow.remember_hours * 3600
        limits = ModelLimits(providers, self._learned)
        self._counting = PromptCounting(self._profiles, {name: provider.ask for name, provider in providers.items()})
        ports = Ports(self._counting, limits, relevance_of(configuration, providers))
        preparer = PromptPreparer(models.resolve, configuration.plugins, ports, preferences_of(settings))
        recovery = OverflowRecovery(preparer, self._learned, providers)
        generations = GenerationService(preparer, self._recorder, providers, recovery, self._telemetry)
        return Engine(settings, models, Tenants(settings.auth), limits, preparer, generations, providers)

    def _swap(self, configuration: Configuration) -> None:
        """Takes up a new configuration; requests under way end with the parts they started with."""
        before, after = self._configuration.settings, configuration.settings
        old, self._providers = self._providers, []
        self._do(_close_later(old, self._configuration.plugins, before.timeouts.total_s))
        self._configuration = configuration
        self.rooms.engine = self._engine(configuration)
        self._do(self._warm_up())
        if (before.server.host, before.server.port, before.store.url) != (after.server.host, after.server.port, after.store.url):
            _log.warning("server.host, server.port and store.url change only with a restart")

    async def aclose(self) -> None:
        """Closes providers and plug-ins; of a gateway that never served that is all it has opened."""
        for provider in self._providers:
            await provider.aclose()
        await asyncio.to_thread(self._configuration.plugins.close)

    def _plugin_problems(self) -> list[str]:
        return self._configuration.plugins.problems()

    def _problem(self) -> str | None:
        return None if self._watch is None else self._watch.problem

    def _read_watch(self) -> None:
        watch = self._watch
        if watch is not None:
            self._telemetry.configuration(reloads=watch.reloads, failures=watch.failures, broken=watch.problem is not None)

    @asynccontextmanager
    async def _lifespan(self, app: Router) -> AsyncIterator[dict[str, object]]:
        await self._store.open()
        self._do(self._warm_up())
        self._do(self._purge())
        await self._learned.refresh()
        self._do(self._learned.keep_fresh())
        if self._config_dir is not None:
            self._watch = ConfigWatch(self._config_dir, self._load, self._configuration, swap=self._swap)
            self._do(self._watch.run())
        try:
            yield {"drain": self.drain}
        finally:
            self.drain()
            await self._recorder.wait_idle(DRAIN_S)
            await self._stop_chores()
            await self.aclose()
            await self._store.aclose()

    def _load(self) -> Configuration:
        """The tree as it is now; one that would open the bound address to everybody is as broken as any other."""
        configuration = load_configuration(self._config_dir or Path(), os.environ)
        settings = configuration.settings
        require_safe_bind(replace(settings, server=replace(settings.server, host=self._bound_host)))
        return configuration

    def _do(self, chore: object) -> None:
        task = asyncio.ensure_future(chore)  # type: ignore[call-overload]
        self._chores.add(task)
        task.add_done_callback(self._chores.discard)

    async def _stop_chores(self) -> None:
        chores = list(self._chores)
        for chore in chores:
            chore.cancel()
        await asyncio.gather(*chores, return_exceptions=True)

    async def _warm_up(self) -> None:
        """Loads the tokenizers of configured models once the port answers, so that no first request waits for them."""
        for config in self.rooms.engine.models.models():
            await self._counting.ready_profile(config, config.upstream_name(config.name))

    async def _purge(self) -> None:
        """Forgets audits beyond their retention, every hour."""
        while True:
            days = self.rooms.engine.settings.store.retention_days
            with suppress(StoreUnavailable):
                await self._store.purge(time.time() - days * _DAY_S)
            await asyncio.sleep(PURGE_EVERY_S)


def preferences_of(settings: Settings) -> Preferences:
    """What the configuration says of fitting."""
    return Preferences(settings.clients.report, settings.summarize.budget_share, settings.summarize.max_tokens)


def own_strategies() -> ContextStrategyRegistry:
    """The built-in strategies, with what they take from outside of the pure core."""
    strategies = ContextStrategyRegistry.with_builtins()
    strategies.register("summarize", Summarize(split_sentences))
    return strategies


def relevance_of(configuration: Configuration, providers: Mapping[str, Provider]) -> Relevance:
    """How blocks get a relevance that the request doesn't give: by the scorer of `[recall]`."""
    recall, models = configuration.settings.recall, configuration.models

    def endpoint() -> Endpoint:
        name = recall.endpoint_model or ""
        config = models.resolve(name)
        return Endpoint(config.upstream_name(name), partial(providers[config.provider].ask_below, "POST", "/embeddings"))

    return partial(with_relevance, scorer=SCORERS[recall.scorer](endpoint))


def make_providers(settings: Settings) -> dict[str, Provider]:
    """The configured providers, by name. Nothing is connected yet."""
    return {
        name: PROVIDER_KINDS[provider.kind](_provider_config(name, provider, settings))
        for name, provider in settings.providers.items()
    }


def app_from_environment() -> ASGIApp:
    """The application of a worker process, which learns its configuration directory from the environment."""
    config_dir = Path(os.environ[CONFIG_VARIABLE])
    try:
        configuration = load_configuration(config_dir, os.environ)
        require_safe_bind(configuration.settings)
    except ConfigError as error:  # changed since the others started: they go on, and this one is tried again
        _log.error("a worker can't start: %s", error)
        raise SystemExit(1) from None
    return create_app(configuration, config_dir, worker=str(os.getpid()))


def create_app(configuration: Configuration, config_dir: Path | None = None, *, worker: str = "") -> ASGIApp:
    """The gateway as an ASGI application. `worker` names one of several processes."""
    return Gateway(configuration, config_dir, worker=worker).app


def _store(settings: Settings) -> AuditStore:
    try:
        return open_store(settings.store.url.reveal())
    except UnknownStore as error:
        raise Place(settings.provenance.file, "store.url").error(str(error)) from None


async def require_store(settings: Settings) -> None:
    """Raises ConfigError when the store can't be opened, before a server would say so in its own way."""
    store = _store(settings)
    try:
        await store.open()
    except StoreUnavailable as error:
        raise Place(settings.provenance.file, "store.url").error(error.message) from None
    await store.aclose()


async def stored_lessons(settings: Settings) -> list[Lesson]:
    """What overflows taught, as the store has it; nothing where there is no store yet or it can't be read."""
    store = _store(settings)
    if not store.present:
        return []
    try:
        await store.open()
        return await store.lessons(time.time())
    except StoreUnavailable:
        return []
    finally:
        await store.aclose()


async def _close_later(providers: list[Provider], plugins: PluginHost, seconds: float) -> None:
    try:
        await asyncio.sleep(seconds)
    finally:
        for provider in providers:
            await provider.aclose()
        await asyncio.to_thread(plugins.close)


def _provider_config(name: str, provider: ProviderSettings, settings: Settings) -> ProviderConfig:
    timeouts, retries = settings.timeouts, settings.retries
    return ProviderConfig(
        name,
        provider.base_url.reveal() if provider.base_url is not None else "",
        provider.api_key.reveal() or None,
        {key: value.reveal() for key, value in provider.headers.items()},
        {key: value.reveal() for key, value in provider.query.items()},
        Timeouts(timeouts.connect_s, timeouts.first_token_s, timeouts.idle_s, timeouts.total_s),
        Retries(retries.attempts, retries.longest_wait_s),
    )
