"""What belongs to the repository: every file that git would keep, or, without git, everything but what tools leave behind."""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
LEFT_BEHIND = {".git", ".venv", "var", "build", "dist", "__pycache__", ".hypothesis"}


@cache
def files() -> tuple[Path, ...]:
    """Every file of the repository."""
    listing = ["git", "-C", str(ROOT), "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        names = subprocess.run(listing, check=True, capture_output=True, text=True).stdout.split("\0")
        found = [ROOT / name for name in names if name]
    except (OSError, subprocess.CalledProcessError):
        found = list(walk(ROOT))
    return tuple(sorted(path for path in found if path.is_file()))


def walk(folder: Path) -> Iterator[Path]:
    """Every file below, less what tools leave behind."""
    for path in folder.iterdir():
        if path.name in LEFT_BEHIND or path.name.endswith(("_cache", ".egg-info")):
            continue
        if path.is_dir():
            yield from walk(path)
        else:
            yield path


def python_files(*folders: str) -> list[Path]:
    """The Python files, of some folders only when these are named."""
    return [path for path in files() if path.suffix == ".py" and (not folders or path.relative_to(ROOT).parts[0] in folders)]


def name_of(path: Path) -> str:
    """The path as people write it."""
    return path.relative_to(ROOT).as_posix()


@cache
def tree_of(path: Path) -> ast.Module:
    """The parsed file."""
    return ast.parse(path.read_text(encoding="utf-8"), str(path))
