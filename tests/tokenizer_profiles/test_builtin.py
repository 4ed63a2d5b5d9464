from __future__ import annotations

import json
from importlib.metadata import files

import pytest
import tiktoken

from tokenizer_profiles.builtin import image_rule, profile_name_for
from tokenizer_profiles.images import PatchRule, TileRule

O200K = """gpt-4o gpt-4o-mini gpt-4o-2024-08-06 gpt-4o-mini-2024-07-18 gpt-4o-audio-preview gpt-4o-mini-search-preview-2025-03-11
chatgpt-4o-latest gpt-4.1 gpt-4.1-nano gpt-4.5-preview gpt-5 gpt-5-chat-latest gpt-5.1-codex-max gpt-5-mini-2025-08-07 o1
o1-preview o3-mini-high o3-deep-research o4-mini openai/gpt-4o openrouter/openai/gpt-4o:free azure/gpt-4o GPT-4O
ft:gpt-4o-mini-2024-07-18:acme::Ab12"""
CL100K = """gpt-4 gpt-4-0613 gpt-4-32k-0613 gpt-4-turbo gpt-4-turbo-2024-04-09 gpt-4-1106-vision-preview gpt-3.5-turbo
gpt-3.5-turbo-0125 gpt-3.5-turbo-instruct-0914 gpt-35-turbo gpt-35-turbo-16k ft:gpt-3.5-turbo-0613:acme::x"""
UNKNOWN = """gpt-4o-clone-by-x gpt-4-all gpt4o my-gpt-4o azure/my-deployment-eu claude-sonnet-4 llama-3 o2 o10 gpt-6 gpt-oss-20b
gpt-4omni ../gpt-4o acme/gpt-4o gpt-4o:clone smollm2 ft:acme gpt-35 o1js gpt-5x"""


@pytest.mark.parametrize("model", O200K.split())
def test_newer_openai_models_are_o200k(model: str) -> None:
    assert profile_name_for(model) == "o200k_base"


@pytest.mark.parametrize("model", CL100K.split())
def test_older_openai_models_are_cl100k(model: str) -> None:
    assert profile_name_for(model) == "cl100k_base"


@pytest.mark.parametrize("model", [*UNKNOWN.split(), "", "gpt-4o mini"])
def test_what_is_not_known_is_only_estimated(model: str) -> None:
    assert profile_name_for(model) == "approximate"


def test_the_catalogue_agrees_with_tiktoken() -> None:
    path = next(path for path in files("litellm") or () if path.name == "model_prices_and_context_window_backup.json")
    catalogue = json.loads(path.read_text(encoding="utf-8"))
    names = [
        name for name, entry in catalogue.items() if entry.get("litellm_provider") == "openai" and entry.get("mode") == "chat"
    ]
    exact = [name for name in names if profile_name_for(name) != "approximate"]
    assert len(exact) > 0.75 * len(names)
    for name in exact:  # tiktoken takes the fine-tunes of gpt-4.1 for those of gpt-4: ask it without the prefix
        known = tiktoken.model.encoding_name_for_model(name.removeprefix("openai/").removeprefix("ft:"))
        assert profile_name_for(name) == known, name


def test_images_are_priced_by_the_model() -> None:
    assert image_rule("gpt-4o-mini-2024-07-18") == TileRule(2833, 5667)
    assert image_rule("gpt-4.1-mini") == PatchRule(1.62)
    assert image_rule("gpt-4.1-nano") == PatchRule(2.46)
    assert image_rule("openai/gpt-5.1-codex-mini") == PatchRule(1.2)
    assert image_rule("gpt-5-nano") == PatchRule(1.5)
    assert image_rule("gpt-5.2") == TileRule(70, 140)
    assert image_rule("o3-pro") == TileRule(75, 150)
    assert image_rule("o4-mini") == PatchRule(1.72)
    assert image_rule("gpt-4.1") == image_rule("anything") == TileRule(85, 170)
