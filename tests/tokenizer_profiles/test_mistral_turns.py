from __future__ import annotations

import random
from functools import cache
from typing import Any

import pytest
from mistral_common.exceptions import MistralCommonException
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

from tokenizer_profiles import PromptCount
from tokenizer_profiles.mistral import MISTRAL_FILES, MistralProfile
from tokenizer_profiles.mistral_chat import MistralChat
from tokenizer_profiles.package_data import package_file


@cache
def chat_of(name: str) -> MistralChat:
    return MistralProfile(name)._loaded()


@cache
def reference(name: str) -> Any:
    path = package_file("mistral_common", f"data/{MISTRAL_FILES[name]}")
    assert path is not None
    return MistralTokenizer.from_file(path)


def count(name: str, messages: list[dict[str, Any]]) -> PromptCount:
    return chat_of(name).count(messages, {})


def reference_total(name: str, messages: list[dict[str, Any]]) -> int:
    return len(reference(name).encode_chat_completion(ChatCompletionRequest.from_openai(messages)).tokens)


def shuffled_chat(chance: random.Random) -> list[dict[str, Any]]:
    """Turns with calls, with fewer or more results than calls, and unfinished ones; some messages may be out of order."""
    messages = [{"role": "system", "content": "Be brief."}] * (chance.random() < 0.3)
    for _ in range(chance.randrange(4)):
        calls = [
            {"id": "".join(chance.choices("abc019", k=9)), "type": "function", "function": {"name": "f", "arguments": "{}"}}
            for _ in range(chance.choice([0, 0, 1, 1, 2]))
        ]
        ids = [call["id"] for call in calls] if chance.random() < 0.8 else ["a" * chance.choice([8, 9])]
        asked = [{"role": "assistant", "content": "", "tool_calls": calls}] if calls else []
        results = [{"role": "tool", "tool_call_id": one, "name": "f", "content": "1"} for one in ids]
        answer = [{"role": "assistant", "content": chance.choice(["a", "b"])}] * (chance.random() < 0.9)
        messages += [{"role": "user", "content": chance.choice(["x", "y"])}, *asked, *results, *answer]
    messages += [{"role": "user", "content": "z"}] * (chance.random() < 0.8)
    if messages and chance.random() < 0.3:
        messages.insert(chance.randrange(len(messages)), chance.choice(messages))
    return messages


class Validator:
    """Notes the messages that it is shown."""

    def __init__(self, validator: Any, shown: list[Any]) -> None:
        self._validator = validator
        self._shown = shown

    def validate_messages(self, messages: list[Any]) -> None:
        self._shown += messages
        self._validator.validate_messages(messages)


@pytest.mark.parametrize("name", ["mistral-v1", "mistral-v2", "mistral-v3", "mistral-v7", "mistral-tekken"])
def test_a_chat_is_taken_whenever_mistral_common_takes_it(name: str) -> None:
    """Its validator is asked turn by turn, and again of chats that share turns with those before."""
    chance = random.Random(name)  # noqa: S311
    taken = []
    for _ in range(500):
        messages = shuffled_chat(chance)
        try:
            total = reference_total(name, messages)
        except (MistralCommonException, ValueError, AssertionError):
            total = None
        counted = count(name, messages)
        assert counted.template.approximate == (total is None), messages
        assert total in (None, counted.total), messages
        taken.append(total is not None)
    assert 20 < sum(taken) < 480


def test_the_second_version_takes_one_result_since_the_last_user_message() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": "{}"}}
    asked = {"role": "assistant", "content": "", "tool_calls": [{"id": "aaaaaaaa1", **call}, {"id": "aaaaaaaa2", **call}]}
    results = [{"role": "tool", "tool_call_id": one["id"], "name": "f", "content": "1"} for one in asked["tool_calls"]]
    chat = [{"role": "user", "content": "x"}, asked, *results]
    later = [*chat, {"role": "assistant", "content": "y"}, {"role": "user", "content": "z"}]
    assert count("mistral-v2", chat).approximate
    assert not count("mistral-v2", later).approximate
    assert count("mistral-v2", later).total == reference_total("mistral-v2", later)
    assert not count("mistral-v3", chat).approximate


@pytest.mark.parametrize("name", ["mistral-v2", "mistral-v3", "mistral-v7"])
def test_one_more_turn_validates_only_what_is_new(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chat: list[dict[str, Any]] = []
    for at in range(50):
        call = {"id": f"call{at:05}", "type": "function", "function": {"name": "f", "arguments": "{}"}}
        chat += [
            {"role": "user", "content": f"question {at}"},
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": call["id"], "name": "f", "content": f"{at}"},
            {"role": "assistant", "content": f"answer {at}"},
        ]
    chat.append({"role": "user", "content": "And then?"})
    assert not count(name, chat).approximate
    validated: list[Any] = []
    turns = chat_of(name)._turns
    monkeypatch.setattr(turns, "_validator", Validator(turns._validator, validated))
    assert not count(name, chat).approximate
    assert validated == []
    assert not count(name, [*chat, {"role": "assistant", "content": "Nothing."}, {"role": "user", "content": "So?"}]).approximate
    assert len(validated) <= 3
