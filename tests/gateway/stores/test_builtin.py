"""URLs lead to stores, and what leads nowhere says so without giving itself away."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from gateway.stores.base import UnknownStore
from gateway.stores.builtin import BUILTIN, open_store
from gateway.stores.memory import MemoryStore
from gateway.stores.sqlite import SqliteStore


def test_memory_is_a_store_in_memory() -> None:
    assert isinstance(open_store("memory:"), MemoryStore)


@pytest.mark.parametrize("url", ["sqlite:///var/sluicegate.db", "sqlite:////srv/sluicegate.db"])
def test_sqlite_is_a_store_in_a_file(url: str) -> None:
    assert isinstance(open_store(url), SqliteStore)


def test_naming_a_store_touches_no_disk(tmp_path: Path) -> None:
    open_store(f"sqlite:///{tmp_path}/new/a.db")
    assert os.listdir(tmp_path) == []


def test_an_unknown_scheme_names_the_known_ones_and_no_secret() -> None:
    with pytest.raises(UnknownStore) as caught:
        open_store("redis://user:hunter2@host/0")
    assert isinstance(caught.value, ValueError)
    assert all(f"{scheme}:" in str(caught.value) for scheme in BUILTIN)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    ["", "sqlite", "var/a.db", "sqlite:", "sqlite://", "sqlite:///", "sqlite:////", "sqlite::memory:", "memory:x", "memory"],
)
def test_a_malformed_url_is_refused(url: str) -> None:
    with pytest.raises(UnknownStore):
        open_store(url)
