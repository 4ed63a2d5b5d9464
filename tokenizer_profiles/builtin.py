"""The built-in profiles by name, and how a model's images are priced.

A new kind is one file beside this one and one line in `builtin_kinds`; which models it answers for under `auto` stands in
`model_families`. Kinds that few models need are imported when the first of them is asked for: together they would be a tenth of
the time in which a gateway starts.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

from tokenizer_profiles.heuristic import ScriptEstimator
from tokenizer_profiles.images import ImageRule, PatchRule, TileRule
from tokenizer_profiles.kinds import LateKind, ProfileKind
from tokenizer_profiles.message_counter import ChatRules
from tokenizer_profiles.model_names import base_model
from tokenizer_profiles.openai_chat import OpenAIChatKind
from tokenizer_profiles.tiktoken_bpe import CL100K_BASE, O200K_BASE, P50K_BASE, R50K_BASE, BytePairTokenizer

AUTO = "auto"
APPROXIMATE = "approximate"

FAMILY_NAMES = ("qwen2.5", "qwen3", "qwen3.5", "deepseek-v3", "deepseek-v3.1", "deepseek-r1", "deepseek-v4", "llama3")
MISTRAL_NAMES = ("mistral-v1", "mistral-v2", "mistral-v3", "mistral-v7", "mistral-tekken", "pixtral", "pixtral-large")

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
        **_late(_families, FAMILY_NAMES),
        **_late(_mistral, MISTRAL_NAMES),
        "hf": LateKind(_hugging_face, takes_argument=True),
        "gguf": LateKind(_gguf, takes_argument=True),
        "remote": LateKind(_remote),
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
        "gpt-oss": LateKind(lambda: _harmony(o200k)),
        "p50k_base": OpenAIChatKind("p50k_base", BytePairTokenizer(P50K_BASE), _UNPUBLISHED, image_rule),
        "r50k_base": OpenAIChatKind("r50k_base", BytePairTokenizer(R50K_BASE), _UNPUBLISHED, image_rule),
    }


def _late(load: Callable[[], dict[str, ProfileKind]], names: tuple[str, ...]) -> dict[str, ProfileKind]:
    """Kinds that are made together, once the first of them is asked for."""
    loaded = cache(load)
    return {name: LateKind(lambda name=name: loaded()[name]) for name in names}  # type: ignore[misc]  # a bound default


def _families() -> dict[str, ProfileKind]:
    from tokenizer_profiles.families import family_kinds

    return family_kinds(image_rule)


def _mistral() -> dict[str, ProfileKind]:
    from tokenizer_profiles.mistral import mistral_kinds

    return mistral_kinds()


def _hugging_face() -> ProfileKind:
    from tokenizer_profiles.huggingface import HuggingFaceKind

    return HuggingFaceKind(image_rule)


def _gguf() -> ProfileKind:
    from tokenizer_profiles.gguf_file import GgufKind

    return GgufKind(image_rule)


def _remote() -> ProfileKind:
    from tokenizer_profiles.remote import RemoteKind

    return RemoteKind(image_rule)


def _harmony(tokenizer: BytePairTokenizer) -> ProfileKind:
    from tokenizer_profiles.harmony import HarmonyKind

    return HarmonyKind("gpt-oss", tokenizer)
