"""The built-in profiles by name, and how a model's images are priced.

A new kind is one file beside this one and one line in `builtin_kinds`; which models it answers for under `auto` stands in
`model_families`.
"""

from __future__ import annotations

import re

from tokenizer_profiles.families import family_kinds
from tokenizer_profiles.gguf_file import GgufKind
from tokenizer_profiles.harmony import HarmonyKind
from tokenizer_profiles.heuristic import ScriptEstimator
from tokenizer_profiles.huggingface import HuggingFaceKind
from tokenizer_profiles.images import ImageRule, PatchRule, TileRule
from tokenizer_profiles.kinds import ProfileKind
from tokenizer_profiles.message_counter import ChatRules
from tokenizer_profiles.mistral import mistral_kinds
from tokenizer_profiles.model_names import base_model
from tokenizer_profiles.openai_chat import OpenAIChatKind
from tokenizer_profiles.remote import RemoteKind
from tokenizer_profiles.tiktoken_bpe import CL100K_BASE, O200K_BASE, P50K_BASE, R50K_BASE, BytePairTokenizer

AUTO = "auto"
APPROXIMATE = "approximate"

_O200K_RULES = ChatRules(function_start=7)
_OLD_RULES = ChatRules(function_start=10)
_UNPUBLISHED = ChatRules(function_start=10, published=False)

# OpenAI's published prices of images in tokens; the first pattern that begins the bare name decides.
_IMAGE_RULES: tuple[tuple[str, ImageRule], ...] = (
    (r"gpt-4o-mini", TileRule(2833, 5667)),
    (r"gpt-4\.1-mini", PatchRule(1.62)),
    (r"gpt-4\.1-nano", PatchRule(2.46)),
    (r"o4-mini", PatchRule(1.72)),
    (r"gpt-5[.\d]*(?:-codex)?-mini", PatchRule(1.2)),
    (r"gpt-5[.\d]*-nano", PatchRule(1.5)),
    (r"gpt-5", TileRule(70, 140)),
    (r"o[13]", TileRule(75, 150)),
    (r"", TileRule(85, 170)),
)


def builtin_kinds() -> dict[str, ProfileKind]:
    """Fresh kinds by profile name; each holds its own vocabulary once it is loaded."""
    return {
        **_openai_kinds(),
        **family_kinds(image_rule),
        **mistral_kinds(),
        "hf": HuggingFaceKind(image_rule),
        "gguf": GgufKind(image_rule),
        "remote": RemoteKind(image_rule),
        APPROXIMATE: OpenAIChatKind(APPROXIMATE, ScriptEstimator(), _OLD_RULES, image_rule),
    }


def image_rule(model: str) -> ImageRule:
    """How a model's images are priced; an unknown model's like gpt-4o's."""
    bare = base_model(model)
    return next(rule for pattern, rule in _IMAGE_RULES if re.match(pattern, bare))


def _openai_kinds() -> dict[str, ProfileKind]:
    o200k = BytePairTokenizer(O200K_BASE)  # o200k_harmony has the same ranks; only its special tokens are its own
    return {
        "o200k_base": OpenAIChatKind("o200k_base", o200k, _O200K_RULES, image_rule),
        "o200k_harmony": OpenAIChatKind("o200k_harmony", o200k, _UNPUBLISHED, image_rule),
        "cl100k_base": OpenAIChatKind("cl100k_base", BytePairTokenizer(CL100K_BASE), _OLD_RULES, image_rule),
        "gpt-oss": HarmonyKind("gpt-oss", o200k),
        "p50k_base": OpenAIChatKind("p50k_base", BytePairTokenizer(P50K_BASE), _UNPUBLISHED, image_rule),
        "r50k_base": OpenAIChatKind("r50k_base", BytePairTokenizer(R50K_BASE), _UNPUBLISHED, image_rule),
    }
