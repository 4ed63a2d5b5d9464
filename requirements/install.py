"""Sets up the project's own environment in `.venv` from the locked files; at once when nothing changed.

    python requirements/install.py users            what `make run` needs
    python requirements/install.py developers       everything

Standard library only: it runs before anything is installed. One run at a time; a set-up that was broken off starts over.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
VENV = ROOT / ".venv"
PYTHON = VENV / "bin" / "python"
STATE = VENV / "set-up.json"  # absent while a set-up is under way
HOME = f"{ROOT} {sys.version}"  # a moved environment, or one of another Python, is made anew
ENVIRONMENT = {"UV_SYSTEM_CERTS": "1", "PIP_DISABLE_PIP_VERSION_CHECK": "1"} | dict(os.environ)


def fingerprint(name: str) -> str:
    """Stands for everything that decides what one set-up installs."""
    files = [FOLDER / f"{name}.txt", FOLDER / "setup.txt", ROOT / "pyproject.toml", Path(__file__)]
    return hashlib.sha256(b"\0".join(path.read_bytes() for path in files)).hexdigest()


def read_state() -> dict[str, str]:
    """What is set up; empty when that is unknown."""
    try:
        state = json.loads(STATE.read_text())
    except (OSError, ValueError):
        return {}
    return dict(state) if state.get("home") == HOME and PYTHON.exists() else {}


def write_state(state: dict[str, str]) -> None:
    """Remembers a finished set-up; all or nothing."""
    unfinished = STATE.with_suffix(".new")
    unfinished.write_text(json.dumps(state))
    unfinished.replace(STATE)


def run(*command: str) -> None:
    """One step, with its output; raises CalledProcessError."""
    subprocess.run(command, cwd=ROOT, env=ENVIRONMENT, stdin=subprocess.DEVNULL, check=True, close_fds=False)


def make_venv() -> None:
    """An empty environment, whatever lay there before."""
    base = getattr(sys, "_base_executable", sys.executable)  # not the one about to be cleared
    run(base, "-m", "venv", "--clear", str(VENV))


def install(name: str) -> None:
    """pip brings uv and the build backend, uv brings the rest; every file is checked against its locked hash."""
    locked = ("--quiet", "--require-hashes", "--no-deps", "--only-binary", ":all:")
    run(str(PYTHON), "-m", "pip", "install", *locked, "--requirement", "requirements/setup.txt")
    uv = (str(PYTHON), "-m", "uv", "pip", "install", "--python", str(PYTHON))
    run(*uv, *locked, "--compile-bytecode", "--requirement", f"requirements/{name}.txt")
    run(*uv, "--quiet", "--no-deps", "--no-build-isolation", "--editable", ".")


def set_up(name: str) -> None:
    """Makes the environment hold what the lock says, unless it does already."""
    state = read_state()
    wanted = fingerprint(name)
    if state.get(name) == wanted:
        return
    print(f"setting up .venv for {name} (the first time takes a minute)", flush=True)
    if not state:
        make_venv()
    STATE.unlink(missing_ok=True)
    install(name)
    write_state({**state, "home": HOME, name: wanted})


def main() -> int:
    """The command line: one name of a lock."""
    if len(sys.argv) != 2 or not (FOLDER / f"{sys.argv[1]}.txt").is_file():
        print("usage: install.py users|developers", file=sys.stderr)
        return 2
    with (FOLDER / "setup.txt").open() as gate:
        os.set_inheritable(gate.fileno(), True)  # a step that outlives us still holds the lock
        fcntl.flock(gate, fcntl.LOCK_EX)
        try:
            set_up(sys.argv[1])
        except subprocess.CalledProcessError as failure:
            print(f"set-up failed at: {' '.join(failure.cmd)}", file=sys.stderr)
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
