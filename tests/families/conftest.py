"""Every store on the list, one after the other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from gateway.stores.builtin import BUILTIN
from tests.families.stores import Tell, using


@pytest.fixture(params=sorted(BUILTIN))
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tell(scheme: str, tmp_path: Path) -> Tell:
    """Runs a story with a store that is open, and closes it."""
    return lambda story: asyncio.run(using(scheme, tmp_path, story))
