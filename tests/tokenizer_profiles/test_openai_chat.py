from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest

from tokenizer_profiles import AdditiveProfile, Message, ProfileRegistry, TokenCount


def additive(registry: ProfileRegistry, name: str, model: str = "") -> AdditiveProfile:
    profile = registry.resolve(name, model)
    assert isinstance(profile, AdditiveProfile)
    return profile


# The two chats whose usage OpenAI's documentation shows: 19 prompt tokens in the reference of chat completions, 129 in the
# cookbook's "How to count tokens with tiktoken" (129 for cl100k models, 124 for gpt-4o).
GREETING = [{"role": "system", "content": "You are a helpful assistant."}, {"role": "user", "content": "Hello!"}]
JARGON: list[dict[str, Any]] = [
    {
        "role": "system",
        "content": "You are a helpful, pattern-following assistant that translates corporate jargon into plain English.",
    },
    {"role": "system", "name": "example_user", "content": "New synergies will help drive top-line growth."},
    {"role": "system", "name": "example_assistant", "content": "Things working well together will increase revenue."},
    {
        "role": "system",
        "name": "example_user",
        "content": "Let's circle back when we have more bandwidth to touch base on opportunities for increased leverage.",
    },
    {"role": "system", "name": "example_assistant", "content": "Let's talk later when we're less busy about how to do better."},
    {"role": "user", "content": "This late pivot means we don't have time to boil the ocean for the client deliverable."},
]


@pytest.mark.parametrize("model", ["gpt-4o", "gpt-4"])
def test_a_chat_counts_as_openai_documents_it(registry: ProfileRegistry, model: str) -> None:
    profile = additive(registry, "auto", model)
    assert profile(GREETING) == 19
    assert profile(JARGON) == {"gpt-4o": 124, "gpt-4": 129}[model]


def test_the_parts_of_a_prompt_add_up(registry: ProfileRegistry) -> None:
    profile = additive(registry, "o200k_base")
    count = asyncio.run(profile.count_prompt(GREETING, {"model": "gpt-4o", "tools": [{"function": {"name": "f"}}]}))
    assert count.template.tokens == 3
    assert [part.tokens for part in count.messages] == [profile.count_message(message).tokens for message in GREETING]
    assert count.total == profile(GREETING) + count.tools.tokens
    assert count.approximate
    assert not count.template.approximate


def test_a_plain_chat_is_exact(registry: ProfileRegistry) -> None:
    count = asyncio.run(registry.resolve("o200k_base").count_prompt(GREETING, {"tool_choice": "auto", "temperature": 1}))
    assert not count.approximate


@pytest.mark.parametrize("name", ["o200k_harmony", "p50k_base", "r50k_base"])
def test_where_no_chat_rules_are_published_texts_are_exact_and_prompts_are_not(registry: ProfileRegistry, name: str) -> None:
    count = asyncio.run(registry.resolve(name).count_prompt(GREETING, {}))
    assert not registry.resolve(name).approximate
    assert not any(message.approximate for message in count.messages)
    assert count.template.approximate
    assert count.approximate


def test_harmony_has_the_ranks_of_o200k_and_reads_them_once(registry: ProfileRegistry) -> None:
    base, harmony = additive(registry, "o200k_base"), additive(registry, "o200k_harmony")
    base.load()
    assert harmony.loaded
    assert harmony.count_text("<|start|>user") == base.count_text("<|start|>user") > 2


def test_an_estimate_says_so_everywhere(registry: ProfileRegistry) -> None:
    profile = additive(registry, "approximate")
    count = asyncio.run(profile.count_prompt(GREETING, {}))
    assert profile.approximate
    assert count.template.approximate
    assert all(part.approximate for part in count.messages)
    assert not count.tools.approximate


def test_long_texts_are_counted_off_the_event_loop(registry: ProfileRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    profile = additive(registry, "approximate")
    threads: list[int] = []

    def count_message(message: Message) -> TokenCount:
        threads.append(threading.get_ident())
        return TokenCount(1)

    monkeypatch.setattr(profile, "count_message", count_message)
    for size in (100, 70_000):
        asyncio.run(profile.count_prompt([{"role": "user", "content": "x " * (size // 2)}], {}))
    assert threads[0] == threading.get_ident()
    assert threads[1] != threading.get_ident()


def test_other_work_goes_on_while_a_long_text_is_counted(registry: ProfileRegistry) -> None:
    profile = additive(registry, "o200k_base")
    profile.load()

    async def both() -> int:
        counting = asyncio.create_task(profile.count_prompt([{"role": "user", "content": "a" * 1_000_000}], {}))
        turns = 0
        while not counting.done():
            await asyncio.sleep(0.001)
            turns += 1
        return turns

    assert asyncio.run(both()) >= 10


def test_profiles_of_one_tokenizer_share_its_memory(registry: ProfileRegistry) -> None:
    wide, narrow = additive(registry, "o200k_base", "gpt-4o"), additive(registry, "o200k_base", "gpt-4o-mini")
    assert wide is not narrow
    assert wide is additive(registry, "auto", "gpt-4.1")
    picture = {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "x", "detail": "low"}}]}
    assert wide.count_message(picture).tokens == 4 + 85
    assert narrow.count_message(picture).tokens == 4 + 2833
    assert wide.count_text("hello world") == narrow.count_text("hello world") == 2
