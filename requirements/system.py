"""Brings what the tests need beside Python packages: nginx, from Debian's package, into `.venv`; at once when it is there.

    python requirements/system.py

The package is fetched and checked by apt and only unpacked: nothing is installed, nothing is started, no right is needed. An
nginx that is on the PATH is taken as it is. Standard library only.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

VENV = Path(__file__).resolve().parents[1] / ".venv"
BROUGHT = VENV / "nginx" / "usr" / "sbin" / "nginx"
PACKAGE = "nginx"
PLACES = os.pathsep.join((os.environ.get("PATH", os.defpath), "/usr/sbin", "/usr/local/sbin"))  # where users seldom look
MISSING = "the tests need nginx: install it from your system's packages, so that it is on the PATH"


def found() -> Path | None:
    """The program, when there is one."""
    installed = shutil.which("nginx", path=PLACES)
    if installed is not None:
        return Path(installed)
    return BROUGHT if BROUGHT.exists() else None


def bring() -> bool:
    """Unpacks Debian's package; an older list of packages may no longer do, then a fresh one is read, for this once."""
    if not (shutil.which("apt-get") and shutil.which("dpkg-deb")):
        return False
    print("setting up nginx for the tests", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        own = ("-qq", "-o", "APT::Sandbox::User=", "-o", f"Dir::Cache={folder}/cache")
        fresh = (*own, "-o", f"Dir::State::Lists={folder}/lists")
        (folder / "lists" / "partial").mkdir(parents=True)
        if not runs(folder, "apt-get", *own, "download", PACKAGE):
            runs(folder, "apt-get", *fresh, "update")
            runs(folder, "apt-get", *fresh, "download", PACKAGE)
        packages = [str(package) for package in folder.glob("*.deb")]
        if not packages or not runs(folder, "dpkg-deb", "--extract", packages[0], "tree"):
            return False
        shutil.rmtree(VENV / "nginx", ignore_errors=True)
        shutil.move(folder / "tree", VENV / "nginx")
    return runs(VENV, str(BROUGHT), "-v")


def runs(folder: Path, *command: str) -> bool:
    """Whether a step went well; what it says of a failure is seen."""
    done = subprocess.run(command, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, check=False)
    return done.returncode == 0


def main() -> int:
    """The command line; it ends with 0 when the program is there."""
    if found() is None and not bring():
        print(MISSING, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
