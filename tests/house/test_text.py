"""The repository's text names no machine: no paths of somebody's computer, no package registry's address."""

from __future__ import annotations

import re

import pytest

from tests.house import tree

# Put together from pieces, so that this file doesn't find itself.
FOLDERS = ["wo" + "rk", "ro" + "ot", "ho" + "me", "Us" + "ers"]
HOSTS = [
    "pypi" + ".org",
    "python" + "hosted.org",
    "npm" + "js.org",
    "npm" + "js.com",
    "deb" + "ian.org",
    "crates" + ".io",
    "golang" + ".org",
]
MACHINE_PATH = re.compile(r"(?<![\w.$}/-])/(?:" + "|".join(FOLDERS) + r")/\w")
REGISTRY_HOST = re.compile("|".join(re.escape(host) for host in HOSTS))


def lines_with(pattern: re.Pattern[str]) -> list[str]:
    """Where the repository's text holds it."""
    found = []
    for path in tree.files():
        try:
            text = path.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            continue
        lines = enumerate(text.splitlines(), start=1) if pattern.search(text) else ()
        found += [f"{tree.name_of(path)}:{number}" for number, line in lines if pattern.search(line)]
    return found


def test_no_path_of_somebodys_machine() -> None:
    assert lines_with(MACHINE_PATH) == []


def test_no_address_of_a_package_registry() -> None:
    assert lines_with(REGISTRY_HOST) == []


@pytest.mark.parametrize("folder", FOLDERS)
def test_a_machine_path_is_seen(folder: str) -> None:
    assert MACHINE_PATH.search(f"reads /{folder}/me/x")
    assert not MACHINE_PATH.search(f"GET example/{folder}/me")
