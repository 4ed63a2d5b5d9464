from __future__ import annotations

import asyncio
import json
import random
import sys
from functools import cache
from itertools import pairwise
from typing import Any

import pytest
from mistral_common.protocol.instruct.request import ChatCompletionRequest
from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

from tests.tokenizer_profiles import samples
from tokenizer_profiles import ProfileDataMissing, PromptCount, mistral, mistral_chat
from tokenizer_profiles.kinds import ProfileRequest
from tokenizer_profiles.mistral import (
    MISTRAL_FILES,
    MistralImageRule,
    MistralProfile,
    mistral_kinds,
)
from tokenizer_profiles.mistral_text import SENTENCEPIECE_CUT, TEKKEN_CUT, Cut, cut_text
from tokenizer_profiles.package_data import package_file

WORDS = [*samples.WORDS, "[INST]", "</s>", "<s>"]
WORDS += ["/path", "[/INST] ", "\u00a0", "a\u0301", "{}", '"quoted"', "...", "\n", " x", "www.example.com/?q=1", "\0", "\u2028"]
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Wetter, für eine Stadt.",
        "parameters": {
            "type": "object",
            "properties": {"city": {"type": "string", "enum": ["Köln", "Rome"]}},
            "required": ["city"],
        },
    },
}


@cache
def profile(name: str) -> MistralProfile:
    made = mistral_kinds()[name].make(ProfileRequest())
    assert isinstance(made, MistralProfile)
    return made


@cache
def reference(name: str) -> Any:
    path = package_file("mistral_common", f"data/{MISTRAL_FILES[name]}")
    assert path is not None
    return MistralTokenizer.from_file(path)


def count(name: str, messages: list[dict[str, Any]], **request: Any) -> PromptCount:
    counted = asyncio.run(profile(name).count_prompt(messages, request))
    parts = [counted.tools, counted.response_format, counted.template, *counted.messages]
    assert counted.total == sum(part.tokens for part in parts)
    assert all(part.tokens >= 0 for part in parts)
    return counted


def reference_total(name: str, messages: list[dict[str, Any]], tools: list[dict[str, Any]] | None) -> int:
    return len(reference(name).encode_chat_completion(ChatCompletionRequest.from_openai(messages, tools)).tokens)


def text(chance: random.Random, most: int = 12) -> str:
    return "".join(chance.choice([*WORDS, " "]) + chance.choice(["", " "]) for _ in range(chance.randrange(1, most)))


def content(chance: random.Random) -> Any:
    if chance.random() < 0.8:
        return text(chance)
    return [{"type": "text", "text": text(chance)} for _ in range(chance.randrange(1, 4))]


def tool_turn(chance: random.Random, version: str) -> list[dict[str, Any]]:
    """Calls and their results; the second version takes only one, and no call has text beside it before the seventh."""
    ids = ["".join(chance.choices("abcXYZ019", k=9)) for _ in range(1 if version == "mistral-v2" else chance.randrange(1, 4))]
    calls = [
        {"id": call, "type": "function", "function": {"name": "get_weather", "arguments": json.dumps({"city": text(chance)})}}
        for call in ids
    ]
    said = text(chance) if version in ("mistral-v7", "pixtral-large") and chance.random() < 0.5 else chance.choice([None, ""])
    results = [
        {
            "role": "tool",
            "tool_call_id": call,
            "name": "get_weather",
            "content": chance.choice([text(chance), '{"a":  1}', "3.50"]),
        }
        for call in ids
    ]
    return [{"role": "assistant", "content": said, "tool_calls": calls}, *results]


def random_chat(chance: random.Random, version: str) -> tuple[list[dict[str, Any]], list[dict[str, Any]] | None]:
    """A chat that mistral-common takes."""
    tools = chance.choice([None, [TOOL], [TOOL, TOOL]]) if version != "mistral-v1" else None
    messages = [{"role": "system", "content": content(chance)} for _ in range(chance.choice([0, 1, 1, 2]))]
    for _ in range(chance.randrange(0, 5)):
        messages += [{"role": "user", "content": content(chance)} for _ in range(chance.choice([1, 1, 1, 2]))]
        if tools and chance.random() < 0.5:
            messages += tool_turn(chance, version)
        messages.append({"role": "assistant", "content": text(chance).strip(" ") + "."})
    messages.append({"role": "user", "content": content(chance)})
    if tools and chance.random() < 0.3:
        messages += tool_turn(chance, version)
    return messages, tools


def is_shared(messages: list[dict[str, Any]], name: str) -> bool:
    """Whether messages share tokens: neighbours of one role, and system messages that older formats put before another."""
    roles = [message["role"] for message in messages]
    apart = ("tool",) if name in ("mistral-v7", "pixtral-large") else ("tool", "system")
    merged = any(one == other not in ("tool", "system") for one, other in pairwise(roles))
    return merged or ("system" in apart and roles.count("system") > 1)


@pytest.mark.parametrize(
    ("name", "chats"), [(name, 500 if name in ("mistral-v3", "mistral-tekken") else 40) for name in MISTRAL_FILES]
)
def test_random_chats_count_as_mistral_common_counts_them(name: str, chats: int) -> None:
    chance = random.Random(name)  # noqa: S311
    for _ in range(chats):
        messages, tools = random_chat(chance, name)
        counted = count(name, messages, **({"tools": tools} if tools else {}))
        assert counted.total == reference_total(name, messages, tools), messages
        assert counted.approximate == is_shared(messages, name), messages
        assert not counted.tools.approximate


@pytest.mark.parametrize("name", MISTRAL_FILES)
def test_long_texts_are_cut_without_a_trace(name: str) -> None:
    chance = random.Random(name)  # noqa: S311
    for _ in range(12):
        messages = [
            {"role": "system", "content": "\n".join(text(chance, 40) for _ in range(100))},
            {"role": "user", "content": "\n\n".join(text(chance, 40) for _ in range(100))},
        ]
        assert count(name, messages).total == reference_total(name, messages, None)


@pytest.mark.parametrize(
    ("body", "cut", "pieces"), [("x\n", TEKKEN_CUT, 2), ("x\n", SENTENCEPIECE_CUT, 2), ("\n ", TEKKEN_CUT, 1)]
)
def test_a_text_is_cut_only_where_its_pieces_stay_exact(body: str, cut: Cut, pieces: int) -> None:
    long = body * 3000
    found = list(cut_text(long, cut))
    assert "".join(found) == long
    assert len(found) == pieces


@pytest.mark.parametrize("name", ["mistral-v3", "mistral-v7", "mistral-tekken"])
def test_one_more_turn_encodes_only_new_text(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    chance = random.Random(7)  # noqa: S311
    chat = [{"role": "system", "content": "\n".join(f"Rule {at}: {text(chance, 40)}" for at in range(300))}]
    for at in range(100):
        chat += [
            {"role": "user", "content": f"{at}" + text(chance, 60)},
            {"role": "assistant", "content": f"{at}" + text(chance, 60)},
        ]
    chat.append({"role": "user", "content": "And then?"})
    cold = count(name, chat).total
    encoded: list[str] = []
    texts = profile(name)._loaded().texts
    encode = texts._encode
    monkeypatch.setattr(texts, "_encode", lambda s: encoded.append(s) or encode(s))
    assert count(name, chat).total == cold
    assert encoded == []
    longer = [*chat, {"role": "assistant", "content": "Nothing."}, {"role": "user", "content": "Really?"}]
    assert count(name, longer).total > cold
    assert 0 < sum(map(len, encoded)) < 6000  # what is new, and the end of the system text that moved to the new user message


def test_what_was_forgotten_is_counted_again(monkeypatch: pytest.MonkeyPatch) -> None:
    chat = [{"role": role, "content": f"{role} {at}"} for at in range(4) for role in ("user", "assistant")]
    chat.append({"role": "user", "content": "last"})
    before = count("mistral-v7", chat)
    monkeypatch.setattr(mistral_chat, "_REMEMBERED_RUNS", 2)
    made = profile("mistral-v7")._loaded()
    made.count([{"role": "user", "content": "one more than is kept"}], {})
    assert [made.count(chat, {}) for _ in range(3)] == [before] * 3
    assert len(made._young) <= 2


def test_the_parts_of_a_prompt_belong_to_their_messages() -> None:
    chat = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hi"}]
    with_system, without = count("mistral-v3", chat), count("mistral-v3", chat[1:])
    assert with_system.messages[1] == without.messages[0]
    assert with_system.messages[0].tokens == with_system.total - without.total
    assert (without.template.tokens, without.tools.tokens) == (1, 0)
    assert count("mistral-v3", chat, tools=[TOOL]).tools.tokens > 20
    alone = count("mistral-v3", chat[:1])
    assert alone.messages[0].tokens > 0
    assert alone.template.tokens > 1  # the empty user message that the format wants in front


def test_neighbours_of_one_role_share_their_tokens() -> None:
    pair = [{"role": "user", "content": "one two three four five"}, {"role": "user", "content": "six"}]
    counted = count("mistral-v3", pair)
    assert [part.approximate for part in counted.messages] == [True, True]
    assert counted.messages[0].tokens > counted.messages[1].tokens
    assert counted.total == reference_total("mistral-v3", pair, None)


ODD: list[list[dict[str, Any]]] = [
    [],
    [{"role": "assistant", "content": "Hi"}],
    [{"role": "user", "content": None}],
    [{"role": "user"}],
    [{"content": "no role"}],
    [{"role": 7, "content": 8}],
    [{"role": "user", "content": {"text": "holder"}}],
    [{"role": "user", "content": [{"type": "odd", "x": 1}, "text", None, 3]}],
    [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": ""}],
    [{"role": "user", "content": "lone \ud800"}],
    [{"role": "function", "name": "f", "content": "1"}],
    [{"role": "tool", "content": "1"}],
    [{"role": "tool", "tool_call_id": "call_abc", "content": [{"type": "image_url", "image_url": {"url": "x"}}]}],
    [{"role": "user", "content": "x"}, {"role": "assistant", "content": "y", "tool_calls": [{"id": 1, "function": "f"}]}],
    [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "y", "tool_calls": [{"id": "call_1", "function": {"name": "f", "arguments": "{"}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "1"},
    ],
    [
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": "y", "reasoning_content": "hm"},
        {"role": "user", "content": "z"},
    ],
]


@pytest.mark.parametrize("name", ["mistral-v1", "mistral-v2", "mistral-v3", "mistral-v7", "mistral-tekken"])
@pytest.mark.parametrize("messages", ODD)
def test_what_mistral_common_refuses_is_counted_and_says_so(name: str, messages: list[dict[str, Any]]) -> None:
    counted = count(name, messages)
    assert len(counted.messages) == len(messages)
    assert counted.total > 0
    assert all(part.approximate for part in (*counted.messages, counted.template))


def test_text_in_unknown_places_is_counted() -> None:
    for odd in ({"text": "holder " * 50}, [{"type": "odd", "text": "holder " * 50}], ["holder " * 50], {"x": ["holder " * 50]}):
        assert count("mistral-v3", [{"role": "user", "content": odd}]).total > 50


@pytest.mark.parametrize(
    ("request_keys", "approximate"),
    [
        ({"tools": [TOOL], "tool_choice": "auto"}, False),
        ({"tools": [TOOL], "tool_choice": {"type": "function", "function": {"name": "get_weather"}}}, True),
        ({"functions": [TOOL["function"]]}, True),
        ({"tools": [TOOL], "functions": [TOOL["function"]]}, True),
        ({"tools": [{"function": {"name": "not a name!", "parameters": {}}}]}, True),
        ({"tools": ["get_weather"]}, True),
        ({"tools": "get_weather"}, True),
    ],
)
def test_tools_of_every_shape_are_counted(request_keys: dict[str, Any], approximate: bool) -> None:
    counted = count("mistral-v3", [{"role": "user", "content": "x"}], **request_keys)
    assert counted.tools.tokens > 0
    assert counted.tools.approximate == approximate
    assert not counted.messages[0].approximate


def test_a_response_format_is_marked_as_unknown() -> None:
    chat = [{"role": "user", "content": "x"}]
    assert not count("mistral-v3", chat, response_format={"type": "text"}).approximate
    assert count("mistral-v3", chat, response_format={"type": "json_object"}).response_format.approximate


def test_images_are_priced_by_their_size_and_never_fetched() -> None:
    image = {"type": "image_url", "image_url": {"url": "https://example.invalid/a.png"}}
    plain = count("pixtral", [{"role": "user", "content": "What is this?"}])
    seen = count("pixtral", [{"role": "user", "content": [{"type": "text", "text": "What is this?"}, image]}])
    assert seen.total == plain.total + 65 * 64
    assert seen.messages[0].approximate
    answered = [
        {"role": "user", "content": [image]},
        {"role": "assistant", "content": "A cat."},
        {"role": "user", "content": "Ah."},
    ]
    assert [part.approximate for part in count("pixtral", answered).messages] == [True, False, False]
    assert count("pixtral", [{"role": "user", "content": [image]}]).total >= 65 * 64


@pytest.mark.parametrize("size", [(1, 1), (16, 17), (640, 480), (1024, 1024), (3000, 1500), (5000, 3)])
def test_the_image_rule_is_that_of_mistral_common(size: tuple[int, int]) -> None:
    class Pictured:
        def __init__(self, size: tuple[int, int]) -> None:
            self.size = size

    across, down = reference("pixtral").instruct_tokenizer.image_encoder._image_to_num_tokens(Pictured(size))
    assert MistralImageRule().tokens(size) == (across + 1) * down
    assert MistralImageRule().tokens(None) == MistralImageRule().tokens((1024, 1024))


@pytest.mark.parametrize("name", ["mistral-v3", "mistral-tekken"])
@pytest.mark.parametrize("hostile", [" " * 1_100_000, "ab" * 150_000, "\n" * 200_000, "\0" * 1000, "[INST]</s>" * 1000])
def test_hostile_text_is_counted(name: str, hostile: str) -> None:
    assert count(name, [{"role": "user", "content": hostile}]).total > 100


def test_long_texts_are_counted_off_the_event_loop() -> None:
    profile("mistral-v3").load()

    async def both() -> int:
        chat = [{"role": "user", "content": "a" * 700_000}]
        counting = asyncio.create_task(profile("mistral-v3").count_prompt(chat, {}))
        turns = 0
        while not counting.done():
            await asyncio.sleep(0.001)
            turns += 1
        return turns

    assert asyncio.run(both()) >= 10


def test_nothing_is_read_before_the_first_count() -> None:
    kind = mistral_kinds()["mistral-v2"]
    made = kind.make(ProfileRequest())
    assert kind.make(ProfileRequest("other")) is made
    assert kind.data_present
    assert not made.loaded
    made.load()
    assert made.loaded


def test_a_missing_package_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mistral, "_PACKAGE", "no_such_package")
    kind = mistral_kinds()["mistral-v3"]
    assert not kind.data_present
    with pytest.raises(ProfileDataMissing, match=r"sluicegate\[mistral\]"):
        kind.make(ProfileRequest()).load()


def test_a_package_that_cannot_be_imported_is_named_with_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "mistral_common.tokens.tokenizers.mistral", None)
    with pytest.raises(ProfileDataMissing, match=r"sluicegate\[mistral\]"):
        mistral_kinds()["mistral-v3"].make(ProfileRequest()).load()
