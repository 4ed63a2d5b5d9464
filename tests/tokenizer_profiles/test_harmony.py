from __future__ import annotations

import asyncio
import random
import shutil
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from openai_harmony import (
    Conversation,
    DeveloperContent,
    HarmonyEncoding,
    ReasoningEffort,
    SystemContent,
    ToolDescription,
    load_harmony_encoding,
)
from openai_harmony import Message as HarmonyMessage
from openai_harmony import Role as HarmonyRole

from tests.tokenizer_profiles import samples
from tokenizer_profiles.harmony import HarmonyKind, HarmonyProfile
from tokenizer_profiles.kinds import ProfileRequest
from tokenizer_profiles.openai_chat import TextTokenizer
from tokenizer_profiles.tiktoken_bpe import O200K_BASE, BytePairTokenizer

WORDS = [*samples.WORDS, "/path", "# Tools", "\u00a0"]
TOOL: dict[str, Any] = {
    "name": "get_weather",
    "description": "Gets the weather",
    "parameters": {
        "type": "object",
        "properties": {"city": {"type": "string", "description": "The city"}, "unit": {"type": "string", "enum": ["c", "f"]}},
        "required": ["city"],
    },
}


@pytest.fixture(scope="module")
def reference(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HarmonyEncoding]:
    """openai-harmony's own renderer, over the rank file that litellm holds."""
    litellm = find_spec("litellm")
    assert litellm is not None
    assert litellm.origin is not None
    ranks = Path(litellm.origin).parent / "litellm_core_utils" / "tokenizers" / O200K_BASE.file_name
    folder = tmp_path_factory.mktemp("vocabulary")
    shutil.copy(ranks, folder / "o200k_base.tiktoken")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("TIKTOKEN_ENCODINGS_BASE", str(folder))
        yield load_harmony_encoding("HarmonyGptOss")


@pytest.fixture(scope="module")
def profile() -> HarmonyProfile:
    return HarmonyKind("gpt-oss", BytePairTokenizer(O200K_BASE)).make(ProfileRequest("gpt-oss-20b"))


def rendered(
    reference: HarmonyEncoding, messages: list[dict[str, Any]], date: str, effort: ReasoningEffort = ReasoningEffort.MEDIUM
) -> int:
    """The tokens of a chat as openai-harmony renders it."""
    system = SystemContent.new().with_conversation_start_date(date).with_reasoning_effort(effort)
    chat = [HarmonyMessage.from_role_and_content(HarmonyRole.SYSTEM, system)]
    for message in messages:
        if message["role"] in ("system", "developer"):
            content = DeveloperContent.new().with_instructions(message["content"])
            chat.append(HarmonyMessage.from_role_and_content(HarmonyRole.DEVELOPER, content))
        elif message["role"] == "assistant":
            said = HarmonyMessage.from_role_and_content(HarmonyRole.ASSISTANT, message["content"]).with_channel("final")
            chat.append(said)
        else:
            chat.append(HarmonyMessage.from_role_and_content(HarmonyRole.USER, message["content"]))
    return len(reference.render_conversation_for_completion(Conversation.from_messages(chat), HarmonyRole.ASSISTANT))


def text(chance: random.Random) -> str:
    return "".join(chance.choice([*WORDS, " "]) for _ in range(chance.randrange(0, 15)))


def test_random_chats_count_as_openai_harmony_renders_them(reference: HarmonyEncoding, profile: HarmonyProfile) -> None:
    chance = random.Random(30)  # noqa: S311  (samples, not secrets)
    for _ in range(300):
        messages = [{"role": chance.choice(["system", "developer"]), "content": text(chance)}] if chance.random() < 0.7 else []
        for _ in range(chance.randrange(0, 5)):
            messages += [{"role": "user", "content": text(chance)}, {"role": "assistant", "content": text(chance)}]
        messages.append({"role": "user", "content": text(chance)})
        date = f"{chance.randrange(2024, 2040)}-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"
        count = asyncio.run(profile.count_prompt(messages, {}))
        assert count.total == profile(messages) == rendered(reference, messages, date), messages
        assert not count.approximate


@pytest.mark.parametrize("effort", ReasoningEffort)
def test_the_effort_is_part_of_the_opening(reference: HarmonyEncoding, profile: HarmonyProfile, effort: ReasoningEffort) -> None:
    chat = [{"role": "user", "content": "Hi"}]
    request = {"reasoning_effort": effort.value.lower()}
    assert asyncio.run(profile.count_prompt(chat, request)).total == rendered(reference, chat, "2031-01-01", effort)
    assert not profile.count_request(request).approximate
    assert profile.count_request({"reasoning_effort": "utter"}).template.approximate


def test_tools_cost_about_what_openai_harmony_makes_of_them(reference: HarmonyEncoding, profile: HarmonyProfile) -> None:
    tools = [{"type": "function", "function": {**TOOL, "name": f"get_{what}"}} for what in ("weather", "news")]
    described = [ToolDescription.new(tool["function"]["name"], TOOL["description"], TOOL["parameters"]) for tool in tools]
    content = DeveloperContent.new().with_function_tools(described)
    chat = [
        HarmonyMessage.from_role_and_content(HarmonyRole.SYSTEM, SystemContent.new().with_conversation_start_date("2025-08-05")),
        HarmonyMessage.from_role_and_content(HarmonyRole.DEVELOPER, content),
    ]
    rendering = reference.render_conversation_for_completion(Conversation.from_messages(chat), HarmonyRole.ASSISTANT)
    count = profile.count_request({"tools": tools})
    assert count.tools.approximate
    assert abs(count.total - len(rendering)) <= 3


@pytest.mark.parametrize("tools", ["f", ["f"], [{"type": "web_search"}], [{"function": "f"}], [{"function": {"name": None}}]])
def test_tools_of_every_shape_are_counted(profile: HarmonyProfile, tools: object) -> None:
    count = profile.count_request({"tools": tools})
    assert count.tools.tokens > 4
    assert count.tools.approximate
    assert profile.count_request({"functions": [TOOL]}).tools == profile.count_request({"tools": [{"function": TOOL}]}).tools


@pytest.mark.parametrize(
    "message",
    [
        {"role": "user", "content": "Hello <|end|>"},
        {"role": "user", "content": [{"type": "text", "text": "Hello you"}]},
        {"role": "user", "content": "Hello you", "name": "ann"},
        {"role": "tool", "tool_call_id": "c1", "content": "Hello you"},
        {"role": "poet", "content": "Hello you"},
        {"role": "user"},
        {"role": "assistant", "content": None, "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "assistant", "content": "Hello", "reasoning_content": "Let me think."},
    ],
)
def test_what_servers_show_differently_is_marked(profile: HarmonyProfile, message: dict[str, Any]) -> None:
    count = profile.count_message(message)
    assert count.approximate
    assert count.tokens > 4


def test_a_response_format_is_estimated(profile: HarmonyProfile) -> None:
    assert profile.count_request({"response_format": {"type": "text"}}).response_format.tokens == 0
    wanted = profile.count_request({"response_format": {"type": "json_object"}}).response_format
    assert wanted.approximate
    assert wanted.tokens > 0


def test_the_tokenizer_is_the_only_thing_to_load() -> None:
    class Absent(TextTokenizer):
        loaded = False
        data_present = False

        def load(self) -> None:
            self.loaded = True

    kind = HarmonyKind("gpt-oss", Absent(len))
    profile = kind.make(ProfileRequest())
    assert kind.make(ProfileRequest("other")) is profile
    assert not kind.data_present
    assert not profile.loaded
    profile.load()
    assert profile.loaded
