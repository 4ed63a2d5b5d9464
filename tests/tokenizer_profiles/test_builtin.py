from __future__ import annotations

from tokenizer_profiles.builtin import FAMILY_NAMES, MISTRAL_NAMES, builtin_kinds, image_rule
from tokenizer_profiles.families import family_kinds
from tokenizer_profiles.huggingface import HuggingFaceKind
from tokenizer_profiles.images import PatchRule, TileRule
from tokenizer_profiles.kinds import LateKind
from tokenizer_profiles.mistral import mistral_kinds
from tokenizer_profiles.model_families import MODEL_FAMILIES

OPENAI = {"o200k_base", "o200k_harmony", "cl100k_base", "p50k_base", "r50k_base"}


def test_the_kinds_are_there_and_fresh() -> None:
    kinds = builtin_kinds()
    assert {"remote", "approximate"} | OPENAI <= set(kinds)
    assert kinds["o200k_base"] is not builtin_kinds()["o200k_base"]
    assert [name for name, kind in kinds.items() if kind.approximate] == ["approximate"]


def test_what_is_loaded_late_is_what_its_modules_hold() -> None:
    assert list(family_kinds(image_rule)) == list(FAMILY_NAMES)
    assert list(mistral_kinds()) == list(MISTRAL_NAMES)
    kinds = builtin_kinds()
    for name, whole in {**family_kinds(image_rule), **mistral_kinds(), "hf": HuggingFaceKind(image_rule)}.items():
        late = kinds[name]
        assert isinstance(late, LateKind)
        told = (late.approximate, late.takes_argument, late.install, late.data_present)
        assert told == (whole.approximate, whole.takes_argument, whole.install, whole.data_present)


def test_every_family_has_its_kind() -> None:
    assert {family.profile for family in MODEL_FAMILIES} <= set(builtin_kinds())


def test_images_are_priced_by_the_model() -> None:
    assert image_rule("gpt-4o-mini-2024-07-18") == TileRule(2833, 5667)
    assert image_rule("gpt-4.1-mini") == PatchRule(1.62)
    assert image_rule("gpt-4.1-nano") == PatchRule(2.46)
    assert image_rule("openai/gpt-5.1-codex-mini") == PatchRule(1.2)
    assert image_rule("gpt-5-nano") == PatchRule(1.5)
    assert image_rule("gpt-5.2") == TileRule(70, 140)
    assert image_rule("o3-pro") == TileRule(75, 150)
    assert image_rule("azure/eu/o4-mini") == PatchRule(1.72)
    assert image_rule("gpt-4.1") == image_rule("anything") == TileRule(85, 170)
