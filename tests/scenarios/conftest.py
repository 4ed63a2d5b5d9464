"""Shared by the scenarios: one scripted provider and one real gateway in front of it, for the whole session."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest

from tests.scenarios.loopback.running_gateway import RunningGateway, write_config
from tests.scenarios.loopback.upstream import Upstream

MAX_BODY_BYTES = 200_000
_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def upstream() -> Iterator[Upstream]:
    """The provider behind every gateway of these tests."""
    with Upstream() as running:
        yield running


@pytest.fixture(scope="session")
def gateway(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway for tests that neither change its configuration nor end it. Its log must stay free of defects."""
    folder = tmp_path_factory.mktemp("gateway")
    write_config(folder, upstream.url, server=f"max_body_bytes = {MAX_BODY_BYTES}", provider='api_key = "sk-of-the-gateway"')
    with RunningGateway(folder) as running:
        yield running
    running.require_clean_log()


@pytest.fixture
def chat_id() -> str:
    """A chat of one's own."""
    return f"chat-{next(_numbers)}"
