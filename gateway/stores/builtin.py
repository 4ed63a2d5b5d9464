"""The list of stores: from a URL to the store it names. The only module that knows more than one member of the family.

A new store is one file and one line here. Its factory gets the whole URL and raises `UnknownStore` for one it can't read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

from gateway.stores.base import AuditStore, UnknownStore
from gateway.stores.memory import MemoryStore
from gateway.stores.sqlite import SqliteStore


def _postgresql(url: str) -> AuditStore:
    try:
        from gateway.stores.postgresql import PostgresqlStore
    except ModuleNotFoundError as missing:
        raise UnknownStore(f'"postgresql:" needs the package {missing.name}: install sluicegate[postgresql]') from None
    return PostgresqlStore.from_url(url)


BUILTIN: Mapping[str, Callable[[str], AuditStore]] = MappingProxyType(
    {
        "memory": MemoryStore.from_url,
        "postgresql": _postgresql,  # its modules are imported where it is configured
        "sqlite": SqliteStore.from_url,
    }
)


def open_store(url: str) -> AuditStore:
    """The store that a URL names, not opened yet: `await store.open()` follows, `await store.aclose()` at the end.

    Raises UnknownStore; its text holds the scheme alone, for the rest of a URL may be a password.
    """
    scheme, colon, _ = url.partition(":")
    if not colon:
        raise UnknownStore(f"A store is named by a URL; it starts with one of {_schemes()}")
    factory = BUILTIN.get(scheme)
    if factory is None:
        raise UnknownStore(f'No store answers to "{scheme}:"; there are {_schemes()}')
    return factory(url)


def _schemes() -> str:
    return ", ".join(f"{scheme}:" for scheme in sorted(BUILTIN))
