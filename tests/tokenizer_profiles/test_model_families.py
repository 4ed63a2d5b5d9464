from __future__ import annotations

import json
from importlib.metadata import files

import pytest
import tiktoken

from tests.tokenizer_profiles.model_name_table import NAMES
from tokenizer_profiles.model_families import MODEL_FAMILIES, family_of
from tokenizer_profiles.model_names import base_model


def profile_of(model: str) -> str:
    family = family_of(model)
    return "approximate" if family is None else family.profile


@pytest.mark.parametrize(("name", "profile"), NAMES)
def test_a_name_belongs_to_the_right_profile(name: str, profile: str) -> None:
    assert profile_of(name) == profile


def test_the_table_is_long_and_says_nothing_twice() -> None:
    assert len({name for name, _ in NAMES}) == len(NAMES) >= 150
    assert {profile for _, profile in NAMES} == {family.profile for family in MODEL_FAMILIES} | {"approximate"}


@pytest.mark.parametrize(
    "name", ["", " ", "gpt-4o mini", "/", ":", "ft:", "gpt-4o\nx", "qwen2.5:", "x" * 100_000, "gpt-4o-" * 20_000]
)
def test_an_odd_name_belongs_nowhere(name: str) -> None:
    assert family_of(name) is None


def test_no_model_belongs_to_two_profiles() -> None:
    for name, _ in NAMES:
        assert len({family.profile for family in MODEL_FAMILIES if family.holds(name)}) <= 1, name


def test_the_catalogue_agrees_with_tiktoken() -> None:
    path = next(path for path in files("litellm") or () if path.name == "model_prices_and_context_window_backup.json")
    catalogue = json.loads(path.read_text(encoding="utf-8"))
    names = [name for name, entry in catalogue.items() if entry.get("litellm_provider") in ("openai", "azure")]
    known = {name: profile_of(name) for name in names if catalogue[name].get("mode") == "chat"}
    exact = {name: profile for name, profile in known.items() if profile.endswith("_base")}
    assert len(exact) > 0.7 * len(known)
    for name, profile in exact.items():  # tiktoken knows neither prefixes nor the fine-tunes of gpt-4.1
        assert tiktoken.model.encoding_name_for_model(base_model(name)) == profile, name
