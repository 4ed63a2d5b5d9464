"""The shipped configuration works on a fresh machine and documents every key, with its default."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from gateway.model_catalog import ModelCatalog, PromptAssets, effective_limits
from gateway.published_limits import published_limits
from gateway.settings import Settings, load_settings
from gateway.toml_tree import keys_of, kinds_of

CONFIG = Path(__file__).parents[2] / "config"


def documented() -> dict[str, Any]:
    """gateway.toml with the keys in comments brought to life."""
    text = (CONFIG / "gateway.toml").read_text(encoding="utf-8")
    return tomllib.loads(re.sub(r"^# (?=\[\[?\w|\w+ = )", "", text, flags=re.MULTILINE))


def keys_in(tree: Mapping[str, Any], prefix: str = "") -> Iterator[str]:
    for name, value in tree.items():
        tables = value if isinstance(value, list) and value and isinstance(value[0], dict) else [value]
        for table in tables:
            if isinstance(table, dict) and table:
                star = ".*." if tables is value else "."
                yield from keys_in(table, prefix + name + star)
            else:
                yield prefix + name


def test_every_key_is_documented_and_every_documented_key_exists() -> None:
    found = {re.sub(r"^providers\.\w+\.", "providers.*.", key) for key in keys_in(documented())}
    assert found == set(keys_of(Settings))


def test_the_documented_values_are_the_defaults() -> None:
    settings = load_settings(CONFIG, {})
    for name in kinds_of(Settings):
        if name != "providers":
            assert getattr(settings, name) == getattr(Settings(), name), name


def test_without_the_file_the_same_provider_is_there(tmp_path: Path) -> None:
    assert load_settings(tmp_path, {}).providers["openai"] == load_settings(CONFIG, {}).providers["openai"]


def test_the_shipped_models_load_on_a_fresh_machine() -> None:
    catalog = ModelCatalog.load(CONFIG, load_settings(CONFIG, {}), {})
    names = ["gpt-3.5-turbo", "gpt-4.1", "gpt-4o", "gpt-4o-mini", "gpt-5", "smollm2"]
    assert [config.model for config in catalog.models()] == names
    assert catalog.default is None
    assert catalog.resolve("gpt-4o-mini-2024-07-18").model == "gpt-4o-mini"


def test_the_local_model_follows_its_port() -> None:
    local = load_settings(CONFIG, {"LOCAL_MODEL_PORT": "9999"}).providers["local"]
    assert str(local.base_url) == "http://127.0.0.1:9999/v1"


def test_the_shipped_limits_are_the_published_ones() -> None:
    assert published_limits("gpt-4o") is not None, "litellm, which ships the catalogue, is not installed"
    for config in ModelCatalog.load(CONFIG, load_settings(CONFIG, {}), {}).models():
        published = published_limits(config.name)
        if published is not None:
            limits = effective_limits(config, None)
            assert (limits.context_limit, limits.max_output) == (published.context_limit, published.max_output), config.name


def test_the_page_on_models_names_every_key() -> None:
    page = (CONFIG / "README.md").read_text(encoding="utf-8")
    catalog = ModelCatalog.load(CONFIG, load_settings(CONFIG, {}), {})
    keys = {*catalog.models()[0].sources, *kinds_of(PromptAssets)}
    assert [key for key in sorted(keys) if key not in page] == []
