"""What the endpoints are given. The composition root fills it; endpoints reach nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gateway.generation import GenerationService
from gateway.model_catalog import ModelCatalog
from gateway.preparation import LimitsPort, PromptPreparer
from gateway.providers.base import Provider
from gateway.settings import Settings
from gateway.stores.base import AuditStore
from gateway.tenants import Tenants
from gateway.web.wire import ChatReader


@dataclass(frozen=True, slots=True)
class Engine:
    """Everything that follows from one configuration tree. A request keeps the engine it started with."""

    settings: Settings
    models: ModelCatalog
    tenants: Tenants
    limits: LimitsPort
    preparer: PromptPreparer
    generations: GenerationService
    providers: Mapping[str, Provider]


@dataclass(slots=True)
class Rooms:
    """The parts that outlive a reload, and the engine in force. `problem` says what is wrong with a changed
    configuration, None when nothing is; `plugin_problems` which plug-ins are off."""

    engine: Engine
    reader: ChatReader
    store: AuditStore
    problem: Callable[[], str | None]
    plugin_problems: Callable[[], list[str]]
    draining: bool = False
