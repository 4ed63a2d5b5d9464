"""A lock file tells the living from the dead."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway.stores import sqlite_owners
from gateway.stores.sqlite_owners import OwnerLock


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "a.db.owners"


def test_who_holds_his_lock_is_alive_for_the_others(folder: Path) -> None:
    one, other = OwnerLock(folder), OwnerLock(folder)
    one.hold()
    other.hold()
    other.hold()
    assert one.living() == other.living() == {one.id, other.id}
    one.release()
    assert other.living() == {other.id}
    other.release()
    other.release()
    assert list(folder.iterdir()) == []


def test_the_file_of_a_dead_owner_is_removed(folder: Path) -> None:
    one = OwnerLock(folder)
    one.hold()
    (folder / "dead.lock").touch()
    assert one.living() == {one.id}
    assert [path.stem for path in folder.iterdir()] == [one.id]
    one.release()


def test_a_file_that_goes_while_one_looks_is_no_sign_of_life(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one = OwnerLock(folder)
    one.hold()
    monkeypatch.setattr(Path, "glob", lambda *_: iter([folder / "gone.lock"]))
    assert one.living() == {one.id}
    one.release()


def test_a_lock_that_gets_no_name_is_not_held(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise PermissionError

    one = OwnerLock(folder)
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", fail)
        with pytest.raises(PermissionError):
            one.hold()
    one.hold()
    assert one.living() == {one.id}
    one.release()


def test_without_flock_everybody_else_counts_as_dead(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite_owners, "fcntl", None)
    one, other = OwnerLock(folder), OwnerLock(folder)
    one.hold()
    other.hold()
    assert other.living() == {other.id}
    one.release()
    other.release()
