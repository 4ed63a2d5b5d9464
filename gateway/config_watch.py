"""Notices a changed configuration directory and swaps in what it now says. Knows nothing of what the files hold.

A broken tree changes nothing: the old value stays, `problem` says why, and the next good tree heals it. Polling follows symbolic
links, because a mounted ConfigMap changes by swapping one.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Generic, TypeVar

from gateway.toml_tree import ConfigError

T = TypeVar("T")
Fingerprint = Mapping[str, tuple[int, ...]]

UNWATCHED = ("var", "__pycache__", ".git", "*.db", "*.db-*", "*.log", "*.pyc")
"""Names of files and folders that change while the gateway runs and configure nothing."""

_log = logging.getLogger(__name__)


class ConfigWatch(Generic[T]):
    """Holds the current value of a configuration directory and keeps it current."""

    def __init__(
        self,
        config_dir: Path,
        load: Callable[[], T],
        current: T,
        *,
        swap: Callable[[T], None] = lambda value: None,
        interval_s: float = 2.0,
        unwatched: tuple[str, ...] = UNWATCHED,
    ) -> None:
        """`load` runs in a thread and raises ConfigError for a broken tree; `swap` gets each new value, in the event loop."""
        self.current = current
        self.problem: str | None = None
        self.reloads = 0
        self.failures = 0
        self._config_dir = config_dir
        self._load = load
        self._swap = swap
        self._interval_s = interval_s
        self._unwatched = unwatched
        self._seen = self._fingerprint()
        self._one_at_a_time = asyncio.Lock()

    async def run(self) -> None:
        """Checks again and again until cancelled."""
        while True:
            await asyncio.sleep(self._interval_s)
            await self.check()

    async def check(self, *, force: bool = False) -> bool:
        """Loads the tree if it changed, was broken, or by force. True when a new value was swapped in."""
        async with self._one_at_a_time:
            fingerprint = await asyncio.to_thread(self._fingerprint)
            if fingerprint == self._seen and self.problem is None and not force:
                return False
            self._seen = fingerprint
            try:
                value = await asyncio.to_thread(self._load)
            except ConfigError as error:
                self._fail(str(error))
                return False
            self._accept(value)
            return True

    def _accept(self, value: T) -> None:
        self.current = value
        self.problem = None
        self.reloads += 1
        self._swap(value)
        _log.info("configuration reloaded from %s", self._config_dir)

    def _fail(self, problem: str) -> None:
        if problem != self.problem:
            self.failures += 1
            _log.error("configuration not reloaded, the old one stays: %s", problem)
        self.problem = problem

    def _fingerprint(self) -> Fingerprint:
        return dict(self._files(self._config_dir, set()))

    def _files(self, folder: Path, visited: set[tuple[int, int]]) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Every watched file with what changes when it does; a folder reached twice is read once."""
        try:
            here = folder.stat()
            entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
        except OSError:
            yield str(folder), ()
            return
        if (here.st_dev, here.st_ino) in visited:
            return
        visited.add((here.st_dev, here.st_ino))
        for entry in entries:
            if any(fnmatchcase(entry.name, pattern) for pattern in self._unwatched):
                continue
            if os.path.isdir(entry.path):
                yield from self._files(Path(entry.path), visited)
            else:
                yield entry.path, _stamp(entry)


def _stamp(entry: os.DirEntry[str]) -> tuple[int, ...]:
    try:
        found = os.stat(entry.path)
    except OSError:
        return ()
    return (found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev)
