"""The built-in profiles by name, and which of them answers for which model under `auto`.

A new kind is one file beside this one and one line in `builtin_kinds`; a new model family is one line in `MODEL_FAMILIES`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from tokenizer_profiles.heuristic import ScriptEstimator
from tokenizer_profiles.images import ImageRule, PatchRule, TileRule
from tokenizer_profiles.kinds import ProfileKind
from tokenizer_profiles.message_counter import ChatRules
from tokenizer_profiles.model_names import base_model
from tokenizer_profiles.openai_chat import OpenAIChatKind
from tokenizer_profiles.remote import RemoteKind
from tokenizer_profiles.tiktoken_bpe import CL100K_BASE, O200K_BASE, BytePairTokenizer

AUTO = "auto"
APPROXIMATE = "approximate"

_VARIANTS = (
    "mini|nano|pro|preview|latest|chat|codex|max|audio|realtime|search|transcribe|tts|deep-research|api|low|medium|high|xhigh"
    "|sol|terra|luna|cyber"
)
_OLD_VARIANTS = "turbo|preview|vision|vision-preview|instruct|16k|32k"


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """Models whose bare name is `stem` with any of the known variants behind it; `label` is for people."""

    label: str
    profile: str
    stem: str
    variants: str = _VARIANTS

    def holds(self, bare_name: str) -> bool:
        """Whether a model (see `base_model`) belongs here; a name with an unknown ending does not."""
        return re.fullmatch(f"(?:{self.stem})(?:-(?:{self.variants}))*", bare_name) is not None


# Encodings as in tiktoken's model table.
MODEL_FAMILIES = (
    ModelFamily("gpt-4o*", "o200k_base", r"(?:chat)?gpt-4o"),
    ModelFamily("gpt-4.1*", "o200k_base", r"gpt-4\.1"),
    ModelFamily("gpt-4.5*", "o200k_base", r"gpt-4\.5"),
    ModelFamily("gpt-5*", "o200k_base", r"gpt-5(?:\.\d{1,2})?"),
    ModelFamily("o1*, o3*, o4*", "o200k_base", r"o[134]"),
    ModelFamily("gpt-4*", "cl100k_base", r"gpt-4", _OLD_VARIANTS),
    ModelFamily("gpt-3.5*", "cl100k_base", r"gpt-3\.5|gpt-35-turbo", _OLD_VARIANTS),
)

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
        "o200k_base": OpenAIChatKind("o200k_base", BytePairTokenizer(O200K_BASE), ChatRules(function_start=7), image_rule),
        "cl100k_base": OpenAIChatKind("cl100k_base", BytePairTokenizer(CL100K_BASE), ChatRules(function_start=10), image_rule),
        "remote": RemoteKind(image_rule),
        APPROXIMATE: OpenAIChatKind(APPROXIMATE, ScriptEstimator(), ChatRules(function_start=10), image_rule),
    }


def profile_name_for(model: str) -> str:
    """The profile that counts exactly for a model's name, else `approximate`."""
    bare = base_model(model)
    return next((family.profile for family in MODEL_FAMILIES if family.holds(bare)), APPROXIMATE)


def image_rule(model: str) -> ImageRule:
    """How a model's images are priced; an unknown model's like gpt-4o's."""
    bare = base_model(model)
    return next(rule for pattern, rule in _IMAGE_RULES if re.match(pattern, bare))
