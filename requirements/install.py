"""Sets up the project's own environments from the locked files; at once when nothing changed.

    python requirements/install.py users            what `make run` needs, in `.venv`
    python requirements/install.py developers       everything, in `.venv`
    python requirements/install.py clients          the client libraries of `make test-clients`, each in a folder of its own
    python requirements/install.py peers            what benchmarks compare the gateway with, each in a folder of its own

Standard library only: it runs before anything is installed. One run at a time; a set-up that was broken off starts over.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STATE = "set-up.json"  # absent while a set-up is under way
HOME = f"{ROOT} {sys.version}"  # a moved environment, or one of another Python, is made anew
ENVIRONMENT = {"UV_SYSTEM_CERTS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"} | dict(os.environ)
LOCKED = ("--quiet", "--require-hashes", "--no-deps", "--only-binary", ":all:")
CLIENTS = ROOT / "tests" / "clients"
CLIENT_ENVIRONMENTS = CLIENTS / ".venv"
PEER_ENVIRONMENTS = ROOT / "benchmarks" / ".venv"
NODE_FILES = [CLIENTS / "package.json", CLIENTS / "package-lock.json"]


def fingerprint(*files: Path) -> str:
    """Stands for everything that decides what one set-up installs."""
    read = [*files, FOLDER / "setup.txt", Path(__file__)]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in read)).hexdigest()


def read_state(environment: Path) -> dict[str, str]:
    """What is set up there; empty when that is unknown."""
    try:
        state = json.loads((environment / STATE).read_text())
    except (OSError, ValueError):
        return {}
    return dict(state) if state.get("home") == HOME else {}


def write_state(environment: Path, state: dict[str, str]) -> None:
    """Remembers a finished set-up; all or nothing."""
    unfinished = environment / f"{STATE}.new"
    unfinished.write_text(json.dumps(state))
    unfinished.replace(environment / STATE)


def run(*command: str, folder: Path = ROOT) -> None:
    """One step, with its output; raises CalledProcessError."""
    subprocess.run(command, cwd=folder, env=ENVIRONMENT, stdin=subprocess.DEVNULL, check=True, close_fds=False)


def make_venv(folder: Path, *options: str) -> None:
    """An empty environment, whatever lay there before."""
    base = getattr(sys, "_base_executable", sys.executable)  # not the one about to be cleared
    run(base, "-m", "venv", "--clear", *options, str(folder))


def install(name: str) -> None:
    """pip brings uv and the build backend, uv brings the rest; every file is checked against its locked hash."""
    run(str(PYTHON), "-m", "pip", "install", *LOCKED, "--requirement", "requirements/setup.txt")
    uv = (str(PYTHON), "-m", "uv", "pip", "install", "--python", str(PYTHON))
    run(*uv, *LOCKED, "--compile-bytecode", "--requirement", f"requirements/{name}.txt")
    run(*uv, "--quiet", "--no-deps", "--no-build-isolation", "--editable", ".")


def set_up(name: str) -> None:
    """Makes the project's environment hold what the lock says, unless it does already."""
    state = read_state(VENV) if PYTHON.exists() else {}
    wanted = fingerprint(FOLDER / f"{name}.txt", ROOT / "pyproject.toml")
    if state.get(name) == wanted:
        return
    print(f"setting up .venv for {name} (the first time takes a minute)", flush=True)
    if not state:
        make_venv(VENV)
    (VENV / STATE).unlink(missing_ok=True)
    install(name)
    write_state(VENV, {**state, "home": HOME, name: wanted})


def set_up_clients() -> None:
    """Every client generation in an environment of its own; the project's own environment, which holds uv, comes first."""
    for lock in sorted((FOLDER / "clients").glob("*.txt")):
        set_up_client(CLIENT_ENVIRONMENTS / lock.stem, [lock], partial(install_python_client, lock))
    set_up_client(CLIENT_ENVIRONMENTS / "node", NODE_FILES, install_node_clients)


def set_up_peers() -> None:
    """Every peer in an environment of its own, like the clients."""
    for lock in sorted((FOLDER / "peers").glob("*.txt")):
        set_up_client(PEER_ENVIRONMENTS / lock.stem, [lock], partial(install_python_client, lock))


def set_up_client(folder: Path, files: list[Path], make: Callable[[Path], None]) -> None:
    """Makes one client's environment from nothing, unless it holds what its files say already."""
    wanted = fingerprint(*files)
    if read_state(folder).get("client") == wanted:
        return
    print(f"setting up {folder.name}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    make(folder)
    write_state(folder, {"home": HOME, "client": wanted})


def install_python_client(lock: Path, folder: Path) -> None:
    """A Python client, by the project's uv."""
    make_venv(folder, "--without-pip")
    uv = (str(PYTHON), "-m", "uv", "pip", "install", "--python", str(folder / "bin" / "python"))
    run(*uv, *LOCKED, "--requirement", str(lock))


def install_node_clients(folder: Path) -> None:
    """The clients for Node, by npm; no script of a package is run."""
    npm = shutil.which("npm") or sys.exit("the clients for Node need Node.js 20 or newer and npm on the PATH")
    folder.mkdir(parents=True)
    for file in NODE_FILES:
        shutil.copy(file, folder)
    run(npm, "ci", "--ignore-scripts", "--no-audit", "--no-fund", "--loglevel=error", folder=folder)


OTHERS: dict[str, Callable[[], None]] = {"clients": set_up_clients, "peers": set_up_peers}


def main() -> int:
    """The command line: `clients`, `peers`, or the name of one of the project's locks."""
    if len(sys.argv) != 2 or sys.argv[1] not in ("users", "developers", *OTHERS):
        print("usage: install.py users|developers|clients|peers", file=sys.stderr)
        return 2
    with (FOLDER / "setup.txt").open() as gate:
        os.set_inheritable(gate.fileno(), True)  # a step that outlives us still holds the lock
        fcntl.flock(gate, fcntl.LOCK_EX)
        try:
            OTHERS.get(sys.argv[1], partial(set_up, sys.argv[1]))()
        except subprocess.CalledProcessError as failure:
            print(f"set-up failed at: {' '.join(failure.cmd)}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
