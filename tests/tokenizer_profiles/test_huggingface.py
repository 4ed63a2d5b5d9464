from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest
from tokenizers import AddedToken, Tokenizer, processors

from tests.tokenizer_profiles.toy_tokenizer import TEMPLATE, TURNS, toy_tokenizer
from tokenizer_profiles import ProfileDataMissing, ProfileRegistry, PromptCount
from tokenizer_profiles.huggingface import HuggingFaceKind, read_folder
from tokenizer_profiles.images import TileRule
from tokenizer_profiles.kinds import ProfileRequest

CHAT = [{"role": "system", "content": "sys"}, {"role": "user", "content": "one"}]
IMAGES = TileRule(85, 170)


def write(folder: Path, tokenizer: Tokenizer | None = None, config: dict[str, Any] | None = None, **texts: str) -> Path:
    """A folder; keyword arguments are the texts of further files, two underscores for a dot."""
    folder.mkdir(parents=True, exist_ok=True)
    (tokenizer or toy_tokenizer(*TURNS)).save(str(folder / "tokenizer.json"))
    if config is not None:
        (folder / "tokenizer_config.json").write_text(json.dumps(config), encoding="utf-8")
    for name, text in texts.items():
        (folder / name.replace("__", ".")).write_text(text, encoding="utf-8")
    return folder


def count(folder: Path, **request: object) -> PromptCount:
    profile = HuggingFaceKind(lambda _: IMAGES).make(ProfileRequest(argument=str(folder)))
    return asyncio.run(profile.count_prompt(CHAT, request))


def total(*, bos: int) -> int:
    return bos + (1 + 7 + 3 + 1) + (1 + 5 + 3 + 1) + (1 + 10)


def test_the_bos_of_the_template_is_the_only_one(tmp_path: Path) -> None:
    tokenizer = toy_tokenizer(*TURNS)
    tokenizer.post_processor = processors.TemplateProcessing(single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", 1)])
    tokenizer.enable_truncation(5)
    tokenizer.enable_padding(length=500)
    counted = count(write(tmp_path, tokenizer, {"chat_template": TEMPLATE, "bos_token": "<s>"}))
    assert counted.total == total(bos=1)
    assert not counted.approximate


@pytest.mark.parametrize("bos", ["<s>", {"content": "<s>", "lstrip": False}])
def test_special_tokens_are_texts_or_objects(tmp_path: Path, bos: object) -> None:
    config = {"chat_template": TEMPLATE, "bos_token": bos, "eos_token": None, "pad_token": {"odd": 1}}
    data = read_folder(write(tmp_path, config=config, special_tokens_map__json='{"bos_token": "x", "unk_token": "?"}'))
    assert data.variables == {"bos_token": "<s>", "unk_token": "?"}


def test_the_file_of_the_template_wins(tmp_path: Path) -> None:
    assert (
        read_folder(
            write(tmp_path, config={"chat_template": "config"}, chat_template__json='{"chat_template": "json"}')
        ).chat_template
        == "json"
    )
    assert read_folder(write(tmp_path, chat_template__jinja="jinja")).chat_template == "jinja"


def test_tools_have_a_template_of_their_own(tmp_path: Path) -> None:
    ask = "{% if add_generation_prompt %}:{% endif %}"
    named = [
        {"name": "default", "template": "\nplain" + ask + "\n"},
        {"name": "tool_use", "template": "with {{ tools | length }} tools" + ask},
        {"name": "rag"},
        "odd",
    ]
    folder = write(tmp_path, config={"chat_template": named})
    assert count(folder).total == len("\nplain:")
    assert count(folder, tools=[{"type": "function"}]).total == len("with 1 tools:")
    (folder / "additional_chat_templates").mkdir()
    (folder / "additional_chat_templates" / "tool_use.jinja").write_text("tools\n", encoding="utf-8")
    (folder / "chat_template.jinja").write_text("file", encoding="utf-8")
    assert (count(folder).total, count(folder, tools=[{"type": "function"}]).total) == (4, 5)


def test_tokens_of_the_configuration_alone_are_added(tmp_path: Path) -> None:
    listed = {
        "7": {"content": "<turn>", "lstrip": False, "rstrip": False, "normalized": False, "single_word": False, "special": True},
        "8": {"content": "</turn>", "normalized": False, "special": "odd"},
        "9": {"content": 5},
        "10": "odd",
    }
    config = {"chat_template": TEMPLATE, "bos_token": "<s>", "added_tokens_decoder": listed}
    assert count(write(tmp_path, toy_tokenizer(), config)).total == total(bos=1)
    known = {token.content for token in read_folder(tmp_path).tokenizer.get_added_tokens_decoder().values()}
    assert known == set(TURNS)


def test_tokens_of_the_file_keep_their_flags(tmp_path: Path) -> None:
    tokenizer = toy_tokenizer(AddedToken("<s>", rstrip=True, normalized=False))
    listed = {"7": {"content": "<s>", "rstrip": False}}
    data = read_folder(write(tmp_path, tokenizer, {"bos_token": "<s>", "added_tokens_decoder": listed}))
    assert [token.rstrip for token in data.tokenizer.get_added_tokens_decoder().values()] == [True]


@pytest.mark.parametrize("config", [None, {}, {"chat_template": 5}, {"chat_template": []}, {"added_tokens_decoder": []}])
def test_without_a_template_texts_are_exact_and_chats_are_not(tmp_path: Path, config: dict[str, Any] | None) -> None:
    profile = HuggingFaceKind(lambda _: IMAGES).make(ProfileRequest(argument=str(write(tmp_path, config=config))))
    counted = asyncio.run(profile.count_prompt(CHAT, {}))
    assert counted.total == 2 * (3 + 1) + 3 + 3 + 3
    assert counted.template.approximate
    assert profile.last_failure == "the model has no chat template"


def test_a_folder_without_a_tokenizer_is_told(tmp_path: Path) -> None:
    with pytest.raises(ProfileDataMissing, match=r"tokenizer\.json is not there"):
        read_folder(tmp_path / "none")


@pytest.mark.parametrize("text", ["", "{}", "[1]", '{"model": {"type": "BPE"}}'])
def test_a_broken_tokenizer_is_told(tmp_path: Path, text: str) -> None:
    (tmp_path / "tokenizer.json").write_text(text, encoding="utf-8")
    with pytest.raises(ProfileDataMissing, match="is no tokenizer"):
        read_folder(tmp_path)


@pytest.mark.parametrize("content", [b"{", b"\xff", b'"\xed\xa0"'])
def test_a_broken_configuration_is_told(tmp_path: Path, content: bytes) -> None:
    write(tmp_path)
    (tmp_path / "tokenizer_config.json").write_bytes(content)
    with pytest.raises(ProfileDataMissing, match=r"tokenizer_config\.json cannot be read"):
        read_folder(tmp_path)


def test_a_configuration_of_another_kind_is_none(tmp_path: Path) -> None:
    write(tmp_path, tokenizer_config__json="[]")
    assert read_folder(tmp_path).variables == {}


def test_a_missing_package_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path)
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ProfileDataMissing, match=r"sluicegate\[transformers\]"):
        read_folder(tmp_path)


def test_a_folder_is_read_once_for_all_its_profiles(tmp_path: Path) -> None:
    rules = {"a": TileRule(1, 2), "b": TileRule(3, 4)}
    kind = HuggingFaceKind(rules.__getitem__)
    folder = str(write(tmp_path, config={"chat_template": TEMPLATE}))
    first, again, other = (kind.make(ProfileRequest(model, folder)) for model in "aab")
    assert first is again
    assert first is not other
    first.load()
    (tmp_path / "tokenizer.json").unlink()
    other.load()
    assert first.name == other.name == f"hf:{folder}"


def test_the_registry_takes_the_folder_behind_the_colon(tmp_path: Path) -> None:
    registry = ProfileRegistry({"hf": HuggingFaceKind(lambda _: IMAGES)})
    assert registry.names()[1:] == ("hf:",)
    folder = write(tmp_path, config={"chat_template": TEMPLATE, "bos_token": "<s>"})
    assert asyncio.run(registry.resolve(f"hf:{folder}").count_prompt(CHAT, {})).total == total(bos=1)
