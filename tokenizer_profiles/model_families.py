"""Which models belong together under one profile. Knows names only, neither profiles nor their data.

A name that is not wholly understood belongs nowhere: a fine-tune, a base model or a later version may have another template. So
do aliases that move with time (`deepseek-chat`, `mistral-large-latest`).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from tokenizer_profiles.model_names import base_model, hosted_model, open_model

_SIZE = r"\d+(?:\.\d+)?b"
_VARIANTS = (
    "mini|nano|pro|preview|latest|chat|codex|max|audio|realtime|search|transcribe|tts|deep-research|api|low|medium|high|xhigh"
    "|sol|terra|luna|cyber"
)
_OLD_VARIANTS = "turbo|preview|vision|vision-preview|instruct|16k|32k"


@dataclass(frozen=True, slots=True)
class ModelFamily:
    """Models whose bare name, as `bare` makes it, is all of `pattern`; `label` is for people."""

    label: str
    profile: str
    pattern: str
    bare: Callable[[str], str] = open_model

    def holds(self, model: str) -> bool:
        """Whether a model belongs here; a name with an unknown ending does not."""
        return re.fullmatch(self.pattern, self.bare(model)) is not None


def _openai(label: str, profile: str, stem: str, variants: str) -> ModelFamily:
    return ModelFamily(label, profile, f"(?:{stem})(?:-(?:{variants}))*", base_model)


# Encodings as in tiktoken's model table.
_OPENAI = (
    _openai("gpt-4o*", "o200k_base", r"(?:chat)?gpt-4o", _VARIANTS),
    _openai("gpt-4.1*", "o200k_base", r"gpt-4\.1", _VARIANTS),
    _openai("gpt-4.5*", "o200k_base", r"gpt-4\.5", _VARIANTS),
    _openai("gpt-5*", "o200k_base", r"gpt-5(?:\.\d{1,2})?", _VARIANTS),
    _openai("o1*, o3*, o4*", "o200k_base", r"o[134]", _VARIANTS),
    _openai("gpt-4*", "cl100k_base", r"gpt-4", _OLD_VARIANTS),
    _openai("gpt-3.5*", "cl100k_base", r"gpt-3\.5|gpt-35-turbo", _OLD_VARIANTS),
    ModelFamily("davinci-002, babbage-002", "cl100k_base", r"(?:davinci|babbage)-002", base_model),
    ModelFamily("text-embedding-*", "cl100k_base", r"text-embedding-(?:ada-002|3-small|3-large)", base_model),
    ModelFamily("text-davinci-002, -003", "p50k_base", r"text-davinci-00[23]", base_model),
    ModelFamily("code-davinci-*, code-cushman-*", "p50k_base", r"code-(?:davinci|cushman)-00[12]", base_model),
    ModelFamily(
        "text-davinci-001, davinci", "r50k_base", r"text-(?:davinci|curie|babbage|ada)-001|davinci|curie|babbage", base_model
    ),
)

# Ollama's tags name instruct models; without a tag a size alone is a base model, which has another template. Ollama's tags 4b,
# 30b and 235b of qwen3 have become a later version, its deepseek-r1 is a distilled model.
_OPEN = (
    ModelFamily(
        "Qwen2.5 Instruct, Coder", "qwen2.5", rf"qwen-?v?2\.5(?:-coder)?(?:-{_SIZE}-instruct|:latest|:{_SIZE}(?:-instruct)?)?"
    ),
    ModelFamily(
        "Qwen3 of April 2025",
        "qwen3",
        r"qwen-?3(?:-(?:0\.6b|1\.7b|4b|8b|14b|32b|30b-a3b|235b-a22b)|:(?:0\.6b|1\.7b|8b|14b|32b|latest))?",
    ),
    ModelFamily("Qwen3.5 from 27B", "qwen3.5", r"qwen3\.5[-:](?:27b|35b(?:-a3b)?|122b(?:-a10b)?|397b(?:-a17b)?)"),
    ModelFamily("DeepSeek-V3", "deepseek-v3", r"deepseek-v3(?::(?:latest|671b))?"),
    ModelFamily("DeepSeek-V3.1", "deepseek-v3.1", r"deepseek-v3\.1(?::(?:latest|671b))?"),
    ModelFamily("DeepSeek-V4", "deepseek-v4", r"deepseek-v4-(?:flash|pro)(?:-\d{4})?"),
    ModelFamily("DeepSeek-R1", "deepseek-r1", r"deepseek-r1", hosted_model),
    ModelFamily(
        "Llama 3 to 3.3 Instruct",
        "llama3",
        r"(?:meta-)?llama-?v?3(?:[._-][123])?-(?:1b|3b|8b|70b|405b)-(?:instruct|instant|versatile)"
        rf"|llama3(?:\.[123])?(?::latest|[-:]{_SIZE}(?:-instruct|-8192)?)?",
    ),
    ModelFamily(
        "Mistral 7B v0.1, v0.2, Mixtral 8x7B",
        "mistral-v1",
        r"mistral[-:]7b-instruct-v0\.[12]|mixtral[-:]8x7b-instruct(?:-v0\.1)?|open-mixtral-8x7b|mixtral:8x7b|mistral-medium-2312",
    ),
    ModelFamily("Mistral Small and Large of 2402", "mistral-v2", r"mistral-(?:tiny|small)-2312|mistral-(?:small|large)-2402"),
    ModelFamily(
        "Mistral 7B v0.3, Large 2407, Mixtral 8x22B, Codestral 2405",
        "mistral-v3",
        r"mistral[-:]7b-instruct-v0\.3|mistral:7b|mistral-tiny-2407|mistral-large-(?:instruct-)?2407|mistral-small-instruct-2409"
        r"|codestral-(?:2405|22b-v0\.1)|codestral:22b|mixtral[-:]8x22b-instruct(?:-v0\.1)?|open-mixtral-8x22b(?:-2404)?",
    ),
    ModelFamily("Mistral Large 2411", "mistral-v7", r"mistral-large-(?:instruct-)?2411(?:-001)?"),
    ModelFamily(
        "Mistral Nemo, Ministral 8B 2410",
        "mistral-tekken",
        r"(?:open-)?mistral-nemo(?::12b|-12b)?(?:-instruct)?(?:-2407)?|ministral-8b-(?:instruct-)?2410|mistral-small-2409",
    ),
    ModelFamily("Pixtral 12B", "pixtral", r"pixtral-12b(?:-2409)?"),
    ModelFamily("Pixtral Large", "pixtral-large", r"pixtral-large(?:-instruct)?-2411"),
    ModelFamily("gpt-oss", "gpt-oss", r"gpt-oss(?:[-:](?:20b|120b|latest))?"),
)

MODEL_FAMILIES = (*_OPENAI, *_OPEN)


def family_of(model: str) -> ModelFamily | None:
    """The family that a model's name belongs to, if any."""
    return next((family for family in MODEL_FAMILIES if family.holds(model)), None)
