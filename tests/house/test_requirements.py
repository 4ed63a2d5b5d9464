"""What is installed: the locks hold all that pyproject.toml asks for, hashed and up to date; the wheel holds both packages."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from requirements import lock
from tests.house import tree

PROJECT = tomllib.loads((tree.ROOT / "pyproject.toml").read_text())
COMPROMISED = ("1.82.7", "1.82.8", "1.107.0")


def asked() -> dict[str, list[str]]:
    """What each lock must satisfy, as pyproject.toml spells it."""
    project, groups = PROJECT["project"], PROJECT["dependency-groups"]
    extras = project["optional-dependencies"]
    users = [*project["dependencies"], *(line for name in lock.USER_EXTRAS for line in extras[name])]
    every = [line for extra in extras.values() for line in extra]
    others = {f"{path.parent.name}/{path.stem}": path.read_text().split("\n")[:-1] for path in lock.FOLDER.glob("*/*.in")}
    return {"users": users, "setup": groups["setup"], "developers": [*users, *every, *groups["dev"], *groups["setup"]]} | others


LOCKED = {name: lock.pins(lock.lock_file(name).read_text()) for name in lock.LOCKS}
ASKED = [(name, line) for name, lines in asked().items() for line in lines]


@pytest.mark.parametrize(("name", "line"), ASKED, ids=[f"{name}-{line}" for name, line in ASKED])
def test_a_dependency_is_locked_at_a_version_that_satisfies_it(name: str, line: str) -> None:
    wanted = Requirement(line)
    versions = [pin.version for pin in LOCKED[name] if pin.name == wanted.name]
    assert versions
    assert all(wanted.specifier.contains(version) for version in versions)


def test_every_lock_is_looked_at() -> None:
    there = {path.relative_to(lock.FOLDER).with_suffix("").as_posix() for path in lock.FOLDER.rglob("*.txt")}
    assert set(lock.LOCKS) == set(asked()) == there


@pytest.mark.parametrize("version", COMPROMISED)
def test_compromised_litellm_releases_are_excluded(version: str) -> None:
    (litellm,) = PROJECT["project"]["optional-dependencies"]["litellm"]
    assert f"!={version}" in litellm
    assert not [pin for pins in LOCKED.values() for pin in pins if (pin.name, pin.version) == ("litellm", version)]


@pytest.mark.parametrize("name", lock.LOCKS)
def test_every_pin_has_a_hash_and_no_address(name: str) -> None:
    text = lock.lock_file(name).read_text()
    entries = [entry for entry in text.split("\n") if "==" in entry and not entry.startswith((" ", "#"))]
    assert len(entries) == len(LOCKED[name]) > 0
    assert all(entry.endswith("\\") for entry in entries), "a pin without a hash"
    assert "://" not in text


def test_every_package_for_node_has_a_hash_and_no_address() -> None:
    (_, *packages) = json.loads((lock.NODE_CLIENTS / "package-lock.json").read_text())["packages"].values()
    assert packages
    assert [package for package in packages if not package.get("integrity") or "resolved" in package] == []


@pytest.mark.parametrize("name", ["users", "setup", *(f"clients/{name}" for name in lock.CURRENT_CLIENTS)])
def test_smaller_locks_agree_with_the_developers_lock(name: str) -> None:
    everything = {(pin.name, pin.version) for pin in LOCKED["developers"]}
    assert {(pin.name, pin.version) for pin in LOCKED[name]} <= everything


def test_dependencies_that_would_compile_for_minutes_are_left_out() -> None:
    assert not {"llm", "llama-cpp-python"} & {pin.name for pin in LOCKED["developers"]}


@pytest.mark.parametrize("name", lock.LOCKS)
def test_a_fresh_compile_would_change_nothing(name: str) -> None:
    try:
        assert lock.differences(name) == [], "run `make lock`"
    except subprocess.CalledProcessError as failure:
        pytest.fail(f"the lock could not be compiled (a package index must be within reach): {failure.stderr}")


def test_a_pin_is_read_with_its_marker() -> None:
    windows = 'uvloop==0.23.0 ; sys_platform != "win32" \\\n    --hash=sha256:00\n    # via sluicegate\n'
    assert lock.pins(windows + "uv==1.0 \\\n    --hash=sha256:11\n") == {
        lock.Pin("uvloop", "0.23.0", 'sys_platform != "win32"'),
        lock.Pin("uv", "1.0", ""),
    }


def test_the_wheel_holds_both_packages_with_their_data(tmp_path: Path) -> None:
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(tmp_path)]
    subprocess.run(build, cwd=tree.ROOT, check=True, capture_output=True)
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        held = {name for name in archive.namelist() if ".dist-info/" not in name}
    sources = {tree.name_of(path) for path in tree.files()}
    assert held == {name for name in sources if name.startswith(("gateway/", "tokenizer_profiles/"))}
