"""Files that ship inside installed packages, found without importing the package. Knows no tokenizer and never downloads."""

from __future__ import annotations

import zipfile
from importlib.util import find_spec
from pathlib import Path

from tokenizer_profiles.errors import ProfileDataMissing


def package_file(package: str, name: str) -> Path | None:
    """Where the file `name` (with forward slashes) of a top-level package lies; None when either is not on this machine."""
    spec = find_spec(package)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        path = Path(folder, name)
        if path.is_file():
            return path
    return None


def wanted_file(package: str, name: str, extra: str) -> Path:
    """`package_file`, of a package that the extra `extra` of this distribution brings. Raises ProfileDataMissing."""
    path = package_file(package, name)
    if path is None:
        raise ProfileDataMissing(
            f"the file {name} of the package {package} is not on this machine: install sluicegate[{extra}], which brings it"
        )
    return path


def zipped_file(path: Path, name: str) -> bytes:
    """The content of one file of a zip archive. Raises ProfileDataMissing when it is broken or lacks the file."""
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.read(name)
    except (OSError, KeyError, zipfile.BadZipFile) as error:
        raise ProfileDataMissing(f"{path} cannot be read as a zip archive with the file {name}: {error}") from error
