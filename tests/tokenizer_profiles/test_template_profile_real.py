from __future__ import annotations

import asyncio
import json
import re
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tests.tokenizer_profiles.offline_tokenizers import offline_folder
from tests.tokenizer_profiles.samples import CALL, TOOL, count, numbers
from tokenizer_profiles import PromptCount, template_profile
from tokenizer_profiles.chat_template import ChatTemplate
from tokenizer_profiles.huggingface import read_folder
from tokenizer_profiles.images import TileRule
from tokenizer_profiles.template_profile import TemplateProfile

Chat = list[dict[str, Any]]
Real = Callable[[str], tuple[TemplateProfile, ChatTemplate, Tokenizer]]

IMAGES = TileRule(85, 170)
TOOL_CHAT: Chat = [
    {"role": "system", "content": "Be kind. "},
    {"role": "user", "content": "look it up"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": '{"found": 3}'},
    {"role": "assistant", "content": "Three."},
    {"role": "user", "content": " thanks"},
]
REAL = (
    "qwen-2.5",
    "qwen-3",
    "deepseek-v3.1",
    "deepseek-r1-distill-llama-8b",
    "glm-4.7-flash",
    "minimax-m3",
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    return lambda name: offline_folder(name, tmp_path_factory)


@pytest.fixture(scope="module")
def real(folder: Callable[[str], Path]) -> Iterator[Real]:
    @cache
    def made(name: str) -> tuple[TemplateProfile, ChatTemplate, Tokenizer]:
        data = read_folder(folder(name))
        whole = Tokenizer.from_file(str(folder(name) / "tokenizer.json"))
        return TemplateProfile(name, lambda: data, IMAGES), ChatTemplate(data.chat_template, data.variables), whole

    yield made
    made.cache_clear()


EDGES = [
    " ",
    "\n",
    "\n\n",
    "\t",
    "  ",
    "\u00a0",
    "\u3000",
    "é",
    "\u0301",
    "世界",
    "🙂",
    "12345",
    "<|im_end|>",
    "<think>",
    "</think>",
]
EDGES += [
    "<｜User｜>",
    "<｜end▁of▁sentence｜>",
    "<|user|>",
    "<|im_start|>",
    "]~b]",
    "<",
    "|>",
    "'s",
    "{}",
    "\x00",
    "▁",
    "<|eot_id|>",
]
TEXTS = st.lists(
    st.sampled_from(EDGES) | st.text(max_size=8) | st.sampled_from(["a word", " the", "def f(x):\n  return"]), max_size=6
)
CONTENTS = TEXTS.map("".join).map(lambda text: text.encode("utf-8", "replace").decode())
PLAIN_TURNS = st.lists(st.tuples(CONTENTS, CONTENTS), min_size=1, max_size=3).map(
    lambda pairs: [
        {"role": role, "content": text} for pair in pairs for role, text in zip(("user", "assistant"), pair, strict=True)
    ]
)
CALLS = st.tuples(CONTENTS, CONTENTS, st.sampled_from([None, "", "I look."])).map(
    lambda found: [
        {"role": "user", "content": "find it"},
        {
            "role": "assistant",
            "content": found[2],
            "tool_calls": [{**CALL, "function": {"name": "find", "arguments": json.dumps({"q": found[0]})}}],
        },
        {"role": "tool", "tool_call_id": "c1", "name": "find", "content": found[1]},
    ]
)
SYSTEM = st.just([]) | CONTENTS.map(lambda text: [{"role": "system", "content": text}])
CHATS = st.tuples(SYSTEM, PLAIN_TURNS, st.just([]) | CALLS, CONTENTS).map(
    lambda found: [*found[0], *found[1], *found[2], {"role": "user", "content": found[3]}]
)


def by_marks(profile: TemplateProfile, chat: Chat) -> list[int]:
    """The tokens of the messages as marks tell them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(template_profile, "are_turns", lambda *_: False)
        return numbers(count(profile, chat))


@pytest.mark.parametrize("name", REAL)
def test_turns_tell_what_marks_tell(name: str, real: Real) -> None:
    profile, _, _ = real(name)

    @settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
    @given(CHATS)
    def equal(chat: Chat) -> None:
        assume(not any(re.search(r"[<\]]", message["content"] or "") for message in chat))  # no text of a special token
        assert numbers(count(profile, chat)) == by_marks(profile, chat)

    equal()


@pytest.mark.parametrize(
    ("name", "texts"),
    [
        ("glm-4.7-flash", ["<|user|>", "é", "<|user|>é"]),
        ("qwen-2.5", ["<|im_start|>", "é" * 60 + "<|im_start|>" + "é" * 60]),
        ("qwen-3", ["<|im_start|>user\n", "é"]),
    ],
)
def test_texts_that_open_turns_are_not_taken_for_turns(name: str, texts: list[str], real: Real) -> None:
    profile, _, _ = real(name)
    chat = [{"role": "user", "content": text} for text in texts]
    assert numbers(count(profile, chat)) == by_marks(profile, chat)


@pytest.mark.parametrize("name", REAL)
def test_the_segments_count_what_the_whole_render_counts(name: str, real: Real) -> None:
    profile, template, tokenizer = real(name)

    @settings(deadline=None, max_examples=20, suppress_health_check=[HealthCheck.too_slow])
    @given(CHATS, st.booleans())
    def equal(chat: Chat, with_tools: bool) -> None:
        request = {"tools": [TOOL]} if with_tools else {}
        counted = count(profile, chat, **request)
        assert profile.last_failure is None
        assert counted.total == len(tokenizer.encode(template.render(chat, request), add_special_tokens=False))
        assert len(counted.messages) == len(chat)
        assert min(part.tokens for part in (*counted.messages, counted.tools, counted.template)) >= 0

    equal()


@pytest.mark.parametrize("name", ["qwen-2.5", "qwen-3", "glm-4.7-flash"])
def test_every_message_of_a_plain_chat_with_tools_is_exact(name: str, real: Real) -> None:
    profile, template, tokenizer = real(name)
    counted = count(profile, TOOL_CHAT, tools=[TOOL])
    assert not counted.approximate
    without = template.render(TOOL_CHAT, {})
    assert counted.tools.tokens == counted.total - len(tokenizer.encode(without, add_special_tokens=False))
    longer = [*TOOL_CHAT, {"role": "assistant", "content": "Welcome."}, {"role": "user", "content": "Bye"}]
    assert numbers(count(profile, longer))[: len(TOOL_CHAT)] == numbers(count(profile, TOOL_CHAT))


def test_the_total_is_that_of_apply_chat_template(folder: Callable[[str], Path]) -> None:
    from transformers import PreTrainedTokenizerFast

    data = read_folder(folder("qwen-3"))
    peer = PreTrainedTokenizerFast(tokenizer_file=str(folder("qwen-3") / "tokenizer.json"), **data.variables)
    chat = [message for message in TOOL_CHAT if message["content"]]
    expected = peer.apply_chat_template(
        chat, tools=[TOOL], chat_template=data.chat_template, add_generation_prompt=True, enable_thinking=False, return_dict=False
    )
    profile = TemplateProfile("qwen-3", lambda: data, IMAGES)
    assert count(profile, chat, tools=[TOOL], chat_template_kwargs={"enable_thinking": False}).total == len(expected)


@pytest.mark.parametrize(
    "text",
    [
        "\n" * 1_000_000,
        " " * 1_000_000,
        "a" * 1_000_000,
        "iVBORw0KGgo/+" * 80_000,
        "\x00" * 100_000,
        "\ud800" * 10_000,
        "<|im_end|>" * 20_000,
    ],
    ids=["line ends", "spaces", "letters", "base64", "NUL", "surrogates", "special tokens"],
)
def test_hostile_text_is_counted_beside_the_event_loop(text: str, real: Real) -> None:
    profile, _, _ = real("qwen-3")
    profile.load()

    async def counted() -> tuple[PromptCount, float]:
        gaps = [0.0]

        async def watch() -> None:
            while True:
                before = time.perf_counter()
                await asyncio.sleep(0.001)
                gaps.append(time.perf_counter() - before)

        watching = asyncio.create_task(watch())
        found = await profile.count_prompt([{"role": "user", "content": text}], {})
        watching.cancel()
        return found, max(gaps)

    found, longest = asyncio.run(counted())
    assert found.total >= len(text) // 200
    assert longest < 0.25
