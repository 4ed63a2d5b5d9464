"""The profiles `gguf:FILE`: exact prompt tokens of a llama.cpp server, offline, from the model file that it loads.

Read is what stands before the weights: vocabulary, merges, the name of the splitting rule, BOS, EOS and the chat template. That
needs neither the server nor numpy, and takes about as long for a model of 50 GB as for a small one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from tokenizer_profiles.errors import ProfileDataMissing
from tokenizer_profiles.gguf_metadata import read_metadata
from tokenizer_profiles.gguf_tokenizer import adds_bos, build_tokenizer, special_token
from tokenizer_profiles.images import ImageRule
from tokenizer_profiles.kinds import ProfileKind, ProfileRequest
from tokenizer_profiles.template_profile import TemplateProfile
from tokenizer_profiles.tokenizer_data import TokenizerData

_LISTS = {
    "tokenizer.ggml.tokens": str,
    "tokenizer.ggml.token_type": int,
    "tokenizer.ggml.merges": str,
    "tokenizer.ggml.scores": float,
}
_VALUES = {
    "tokenizer.ggml.model": str,
    "tokenizer.ggml.pre": str,
    "tokenizer.ggml.bos_token_id": int,
    "tokenizer.ggml.eos_token_id": int,
    "tokenizer.chat_template": str,
}
# What the server renders with when the file has no template (llama.cpp, common/chat.cpp: ChatML).
_CHATML = (
    "{%- for message in messages -%}"
    "{{- '<|im_start|>' + message.role + '\\n' + message.content + '<|im_end|>\\n' -}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{- '<|im_start|>assistant\\n' -}}{%- endif -%}"
)


def read_gguf(path: Path) -> TokenizerData:
    """The tokenizer and the chat template of a GGUF model file, as a llama.cpp server uses them.

    Raises ProfileDataMissing when the file is missing, damaged or not a GGUF, has no vocabulary, or has one of a kind that is not
    counted exactly.
    """
    metadata = read_metadata(path)
    try:
        _check(metadata)
        tokenizer = build_tokenizer(metadata)
    except ProfileDataMissing as missing:
        raise ProfileDataMissing(f"{path}: {missing}") from missing
    return TokenizerData(
        tokenizer=tokenizer,
        chat_template=metadata.get("tokenizer.chat_template") or _CHATML,
        variables={"bos_token": special_token(metadata, "bos"), "eos_token": special_token(metadata, "eos")},
        dialect="llama.cpp",
        bos_tokens=int(adds_bos(metadata)),
    )


class GgufKind(ProfileKind):
    """Makes one profile for each file and each way to price images."""

    takes_argument = True

    def __init__(self, image_rule_for: Callable[[str], ImageRule]) -> None:
        self._image_rule_for = image_rule_for
        self._made: dict[tuple[str, ImageRule], TemplateProfile] = {}

    def make(self, request: ProfileRequest) -> TemplateProfile:
        """See `ProfileKind`; the argument is the file's path."""
        rule = self._image_rule_for(request.model)
        key = (request.argument, rule)
        made = self._made.get(key)
        if made is None:
            path = Path(request.argument).expanduser()
            made = self._made.setdefault(key, TemplateProfile(f"gguf:{request.argument}", partial(read_gguf, path), rule))
        return made


def _check(metadata: Mapping[str, Any]) -> None:
    """Raises ProfileDataMissing when the metadata are not those of a chat model that is read here."""
    if not metadata.get("tokenizer.ggml.tokens"):
        raise ProfileDataMissing("no vocabulary inside: give the first file of a split model, not a later part or an adapter")
    lists = [key for key, kind in _LISTS.items() if not _is_list(metadata.get(key, []), kind)]
    values = [key for key, kind in _VALUES.items() if not isinstance(metadata.get(key, kind()), kind)]
    if lists or values:
        raise ProfileDataMissing(f"{', '.join(lists + values)}: not of the type that llama.cpp reads; download the file again")
    if metadata.get("tokenizer.ggml.add_eos_token"):
        raise ProfileDataMissing("a model that ends every prompt with EOS is not counted exactly here: use the profile remote")
    if "tokenizer.chat_template.tool_use" in metadata:
        raise ProfileDataMissing("a second chat template, for tools, is not read here: use the profile remote")


def _is_list(values: object, kind: type) -> bool:
    """Whether it is a list of a kind; those of a GGUF hold one kind only."""
    return isinstance(values, list) and all(isinstance(value, kind) for value in values[:1])
