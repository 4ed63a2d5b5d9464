"""Limits from litellm's catalogue, read as a file."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterator
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import Any

import pytest

from gateway import published_limits as module
from gateway.published_limits import PublishedLimits, published_limits

CATALOGUE = {
    "sample_spec": {"max_input_tokens": "max input tokens, if the provider specifies it"},
    "both": {"max_tokens": 5, "max_input_tokens": 100, "max_output_tokens": 10, "litellm_provider": "openai"},
    "only-input": {"max_input_tokens": 100},
    "only-output": {"max_tokens": 4096, "max_output_tokens": 4096},
    "openai/prefixed": {"max_input_tokens": 200},
    "openrouter/org/routed": {"max_input_tokens": 300},
    "fraction": {"max_input_tokens": 1.5},
}


def install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str) -> None:
    (tmp_path / "model_prices_and_context_window_backup.json").write_text(content)
    spec = ModuleSpec("litellm", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path)]
    found(monkeypatch, spec)


def found(monkeypatch: pytest.MonkeyPatch, spec: Any) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    module._catalogue.cache_clear()


@pytest.fixture(autouse=True)
def _forgotten() -> Iterator[None]:
    yield
    module._catalogue.cache_clear()


@pytest.mark.parametrize(
    ("model", "limits"),
    [
        ("both", PublishedLimits(100, 10)),
        ("only-input", PublishedLimits(100, None)),
        ("only-output", None),
        ("prefixed", PublishedLimits(200, None)),
        ("org/routed", PublishedLimits(300, None)),
        ("openai/both", PublishedLimits(100, 10)),
        ("another/both", None),
        ("sample_spec", None),
        ("fraction", None),
        ("unknown", None),
    ],
)
def test_a_name_is_found_with_and_without_its_provider(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, model: str, limits: PublishedLimits | None
) -> None:
    install(monkeypatch, tmp_path, json.dumps(CATALOGUE))
    assert published_limits(model) == limits


@pytest.mark.parametrize("content", ["", "[]", '{"a": 3}'])
def test_a_broken_catalogue_publishes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, content: str) -> None:
    install(monkeypatch, tmp_path, content)
    assert published_limits("a") is None


def test_without_the_package_nothing_is_published(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    found(monkeypatch, None)
    assert published_limits("both") is None
    spec = ModuleSpec("litellm", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path / "gone")]
    found(monkeypatch, spec)
    assert published_limits("both") is None


def test_a_package_without_a_spec_publishes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(name: str) -> None:
        raise ValueError(f"{name}.__spec__ is None")

    monkeypatch.setattr(importlib.util, "find_spec", refuse)
    module._catalogue.cache_clear()
    assert published_limits("both") is None
