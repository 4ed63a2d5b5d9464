"""Who of those that opened a SQLite store still lives. Part of `sqlite`; knows files and locks, nothing of audits.

Every open store holds an flock on a file of its own, named after its owner id. The operating system lets go of the lock when
the process ends, however it ends; so a lock that can be taken, or a file that is missing, means: dead, for good. Ids are never
used twice. Without fcntl (Windows) nobody else can be told alive: every other owner counts as dead, and one process at a time
should use the file.
"""

from __future__ import annotations

import os
from pathlib import Path
from uuid import uuid4

try:
    import fcntl
except ImportError:  # pragma: no cover  # Windows; the tests set it to None
    fcntl = None  # type: ignore[assignment]


class OwnerLock:
    """The sign of life of one open store, and the eye for those of others."""

    def __init__(self, folder: Path) -> None:
        self.id = uuid4().hex
        self._folder = folder
        self._descriptor: int | None = None

    def hold(self) -> None:
        """Takes the lock, unless it is held already.

        The file gets its name only when it is locked, so that nobody finds it unlocked while its owner lives.
        """
        if self._descriptor is not None:
            return
        self._folder.mkdir(mode=0o700, exist_ok=True)
        unnamed = self._folder / f"{self.id}.new"
        descriptor = os.open(unnamed, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600)
        try:
            _take(descriptor)
            unnamed.rename(self._path(self.id))
        except OSError:
            unnamed.unlink(missing_ok=True)
            os.close(descriptor)
            raise
        self._descriptor = descriptor

    def release(self) -> None:
        """Ends the sign of life; the file goes first, a lock without a file harms nobody."""
        if self._descriptor is None:
            return
        self._path(self.id).unlink(missing_ok=True)
        os.close(self._descriptor)
        self._descriptor = None

    def living(self) -> frozenset[str]:
        """The ids of all owners alive, this one among them. Removes the files of the dead."""
        others = (path.stem for path in self._folder.glob("*.lock") if path.stem != self.id)
        return frozenset({self.id, *(owner for owner in others if self._alive(owner))})

    def _alive(self, owner: str) -> bool:
        try:
            descriptor = os.open(self._path(owner), os.O_RDWR)
        except FileNotFoundError:
            return False
        try:
            if fcntl is not None and not _take(descriptor):
                return True
            self._path(owner).unlink(missing_ok=True)
            return False
        finally:
            os.close(descriptor)

    def _path(self, owner: str) -> Path:
        return self._folder / f"{owner}.lock"


def _take(descriptor: int) -> bool:
    """Locks an open file without waiting; False when another holds it."""
    if fcntl is None:
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
