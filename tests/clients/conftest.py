"""One provider and one gateway for all clients; every client is asked everything once, behind a door of its own."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.clients.doorway import Doorway
from tests.clients.generations import GENERATIONS, Generation
from tests.clients.scenarios import MODEL, SCENARIOS
from tests.scenarios.loopback.running_gateway import RunningGateway, write_config
from tests.scenarios.loopback.upstream import Script, Upstream

AT_ONCE = 3  # most of the time a client waits before it tries again


@dataclass(frozen=True, slots=True)
class Trial:
    """What one client made of every scenario, what it sent for it, and what of that reached the provider."""

    generation: Generation
    version: str
    outcomes: dict[str, dict[str, Any]]
    requests: dict[str, list[bytes]]
    scripts: dict[str, Script]


def tried(generation: Generation, url: str, upstream: Upstream, folder: Path) -> Trial:
    """Lets a client go through all scenarios."""
    scripts = {scenario.name: scenario.script(upstream) for scenario in SCENARIOS}
    asked = [scenario.request(scripts[scenario.name].model) for scenario in SCENARIOS]
    with Doorway(url) as doorway:
        outcomes = generation.outcomes(f"{doorway.url}/v1", asked, folder)
        requests = {name: doorway.requests_for(script.model) for name, script in scripts.items()}
    version = outcomes.pop("version")["version"]
    return Trial(generation, version, outcomes, requests, scripts)


@pytest.fixture(scope="session")
def upstream() -> Iterator[Upstream]:
    """The provider behind the gateway."""
    with Upstream() as running:
        yield running


@pytest.fixture(scope="session")
def gateway(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """The gateway that all clients ask. Its log must stay free of defects."""
    folder = tmp_path_factory.mktemp("gateway")
    write_config(folder, upstream.url, provider='api_key = "sk-of-the-gateway"', models={"small": MODEL})
    with RunningGateway(folder) as running:
        yield running
    running.require_clean_log()


@pytest.fixture(scope="session")
def trials(
    request: pytest.FixtureRequest, gateway: RunningGateway, upstream: Upstream, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[dict[str, Future[Trial]]]:
    """The trials of the clients that were chosen, some of them at once."""
    params = [getattr(item, "callspec", None) for item in request.session.items]
    chosen = {found.params["trial"] for found in params if found is not None and "trial" in found.params}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        yield {
            each.name: pool.submit(tried, each, gateway.url, upstream, tmp_path_factory.mktemp(each.name))
            for each in GENERATIONS
            if each in chosen
        }


@pytest.fixture(scope="session", params=GENERATIONS, ids=lambda generation: generation.name)
def trial(request: pytest.FixtureRequest, trials: dict[str, Future[Trial]]) -> Trial:
    """The trial of one client."""
    return trials[request.param.name].result()
