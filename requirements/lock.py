"""Locks every version and hash with uv: `python requirements/lock.py` writes the files, `--upgrade` takes newer versions.

`--check` says whether a fresh compile, keeping the pins that are there, would give the same names, versions and markers.
Client generations (`clients/NAME.in`, and for Node `tests/clients/package.json`) are locked likewise; `npm ci` checks the latter.
The files hold no addresses: any index or mirror that serves the same files will do. Run it from the project's own environment.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
COMPILE = ["pip", "compile", "--quiet", "--universal", "--python-version", "3.11", "--generate-hashes"]
COMPILE += ["--no-emit-index-url", "--no-header"]
KEEP_TO_DEVELOPERS = ["--constraint", "requirements/developers.txt"]
USER_EXTRAS = ("litellm", "transformers", "gguf", "recall", "postgresql", "local-model")  # the others are large and for few
LOCKS = {  # in this order: the others take their versions from the first
    "developers": ["pyproject.toml", "--all-extras", "--group", "dev", "--group", "setup"],
    "users": ["pyproject.toml", *(f"--extra={name}" for name in USER_EXTRAS), *KEEP_TO_DEVELOPERS],
    "setup": ["--group", "setup", *KEEP_TO_DEVELOPERS],
}
CURRENT_CLIENTS = ("openai-3", "langchain-openai-1", "litellm-1")  # the developers' versions; older generations keep their own
LOCKS |= {
    f"clients/{path.stem}": [
        f"requirements/clients/{path.name}",
        *(KEEP_TO_DEVELOPERS if path.stem in CURRENT_CLIENTS else []),
    ]
    for path in sorted(FOLDER.glob("clients/*.in"))
}
LOCKS |= {f"peers/{path.stem}": [f"requirements/peers/{path.name}"] for path in sorted(FOLDER.glob("peers/*.in"))}
NODE_CLIENTS = ROOT / "tests" / "clients"
NPM_OPTIONS = ["--package-lock-only", "--omit-lockfile-registry-resolved", "--ignore-scripts", "--no-audit", "--no-fund"]
PIN = re.compile(r"^([a-z0-9][a-z0-9._-]*)==([^\s;\\]+)\s*(?:;\s*([^\\]+?))?\s*\\?$", re.MULTILINE)


class Pin(NamedTuple):
    """One line of a lock; a name may have several, each with its marker."""

    name: str
    version: str
    marker: str


def pins(text: str) -> set[Pin]:
    """The lines of a lock; hashes and comments don't count."""
    return {Pin(*found) for found in PIN.findall(text)}


def lock_file(name: str) -> Path:
    """Where the lock of that name lies."""
    return FOLDER / f"{name}.txt"


def compile_lock(name: str, output: Path, *options: str) -> None:
    """Lets uv write one lock; pins already in `output` are kept. Raises CalledProcessError with uv's own words."""
    command = [sys.executable, "-m", "uv", *COMPILE, *LOCKS[name], *options, "--output-file", str(output)]
    environment = {"UV_SYSTEM_CERTS": "1"} | dict(os.environ)
    subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)


def lock_node_clients(*, upgrade: bool) -> None:
    """Lets npm write the lock of the clients for Node, without addresses. Raises CalledProcessError, FileNotFoundError."""
    command = ["npm", "update" if upgrade else "install", *NPM_OPTIONS, "--loglevel=error"]
    subprocess.run(command, cwd=NODE_CLIENTS, check=True, capture_output=True, text=True)


def differences(name: str) -> list[str]:
    """What a fresh compile would change in a lock, one line for each pin."""
    with tempfile.TemporaryDirectory() as folder:
        fresh = Path(folder, "fresh.txt")
        shutil.copy(lock_file(name), fresh)
        compile_lock(name, fresh)
        wanted, present = pins(fresh.read_text()), pins(lock_file(name).read_text())
    gone, new = sorted(present - wanted), sorted(wanted - present)
    return [f"{name}.txt holds {pin}" for pin in gone] + [f"{name}.txt lacks {pin}" for pin in new]


def main() -> int:
    """The command line: writes the locks, or only compares."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 when a lock is out of date")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions that pyproject.toml allows")
    options = parser.parse_args()
    try:
        if options.check:
            stale = [line for name in LOCKS for line in differences(name)]
            print("\n".join(stale) or "the locks are up to date")
            return 1 if stale else 0
        for name in LOCKS:
            compile_lock(name, lock_file(name), *(["--upgrade"] if options.upgrade else []))
        lock_node_clients(upgrade=options.upgrade)
    except FileNotFoundError:
        print("the clients for Node are not locked: npm is not on the PATH", file=sys.stderr)
        return 2
    except subprocess.CalledProcessError as failure:
        print(failure.stderr, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
