from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest

from tokenizer_profiles import ProfileDataMissing
from tokenizer_profiles.package_data import package_file, wanted_file, zipped_file


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package whose import would fail."""
    folder = tmp_path / "brittle_vocabulary"
    (folder / "data").mkdir(parents=True)
    (folder / "__init__.py").write_text("raise RuntimeError('imported')")
    (folder / "data" / "ranks").write_text("a 0")
    (tmp_path / "lone_module.py").write_text("raise RuntimeError('imported')")
    monkeypatch.syspath_prepend(str(tmp_path))
    return "brittle_vocabulary"


def test_a_file_is_found_without_importing_its_package(package: str) -> None:
    path = package_file(package, "data/ranks")
    assert path is not None
    assert path == wanted_file(package, "data/ranks", "tiny")
    assert path.read_text() == "a 0"
    assert package not in sys.modules


@pytest.mark.parametrize("name", ["brittle_vocabulary", "lone_module", "no_such_package"])
def test_what_is_missing_is_named_with_the_extra_that_brings_it(package: str, name: str) -> None:
    assert package_file(name, "data/none") is None
    with pytest.raises(ProfileDataMissing, match=rf"data/none of the package {name} .* install sluicegate\[tiny\]"):
        wanted_file(name, "data/none", "tiny")


def test_a_zipped_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("tokenizer.json", "{}")
    assert zipped_file(path, "tokenizer.json") == b"{}"
    with pytest.raises(ProfileDataMissing, match="with the file other"):
        zipped_file(path, "other")


@pytest.mark.parametrize("content", [b"", b"not a zip", None])
def test_a_broken_archive_is_missing_data(tmp_path: Path, content: bytes | None) -> None:
    path = tmp_path / "a.zip"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ProfileDataMissing, match="cannot be read"):
        zipped_file(path, "tokenizer.json")
