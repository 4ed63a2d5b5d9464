from __future__ import annotations

import asyncio
import json
import random
from typing import Any, Protocol

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tokenizer_profiles.samples import CALL, TOOL, Chat, Server, count, numbers, remote_profile, turn
from tests.tokenizer_profiles.toy_server import ToyServer
from tokenizer_profiles import RemoteUnavailable
from tokenizer_profiles.images import TileRule
from tokenizer_profiles.llama_server import LlamaServer
from tokenizer_profiles.message_counter import ChatRules, MessageCounter
from tokenizer_profiles.remote_llama import LlamaCounting

TOOL_CHAT: Chat = [
    {"role": "user", "content": "look it up"},
    {"role": "assistant", "content": None, "tool_calls": [CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": '{"found": 3}'},
    {"role": "assistant", "content": "Three."},
    {"role": "user", "content": "thanks"},
]


# The toy: one token a character and one for each of <turn>, </turn>; a BOS; "<turn>assistant\n" asks for the reply.


def test_each_message_owns_its_turn_and_the_template_the_rest() -> None:
    counted = count(remote_profile(ToyServer()), [{"role": "user", "content": " Hi"}, {"role": "assistant", "content": "yo"}])
    assert numbers(counted) == [turn("user", " Hi"), turn("assistant", "yo")]
    assert counted.template.tokens == 1 + 11
    assert not counted.approximate


def test_a_message_of_nothing_but_a_call_is_found_by_its_function() -> None:
    chat: Chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": None, "tool_calls": [CALL]}]
    assert numbers(count(remote_profile(ToyServer()), chat)) == [turn("user", "Hi"), turn("assistant", "find")]


def test_tools_cost_what_they_add_to_the_render() -> None:
    counted = count(remote_profile(ToyServer()), [{"role": "user", "content": "Hi"}], tools=[{"name": "abc"}], temperature=1)
    assert counted.tools.tokens == turn("tools", "abc")
    assert counted.total == 1 + turn("tools", "abc") + turn("user", "Hi") + 11
    assert not counted.approximate


def test_messages_the_template_hides_share_with_the_one_before() -> None:
    chat: Chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": None, "tool_calls": [CALL]}]
    counted = count(remote_profile(ToyServer(renders_names_of_calls=False)), chat)
    assert sum(numbers(counted)) == turn("user", "Hi") + turn("assistant", "")
    assert all(part.approximate for part in counted.messages)
    assert not counted.template.approximate


@pytest.mark.parametrize("toy", [ToyServer(shouts=True), ToyServer(refuses_marks=True)])
def test_without_marks_the_total_is_still_exact(toy: ToyServer) -> None:
    chat: Chat = [{"role": "user", "content": "Hello"}, {"role": "user", "content": "x"}]
    counted = count(remote_profile(toy), chat)
    assert counted.total == 1 + len(toy._tokens(toy.template({"messages": chat})["prompt"], parse_special=True))
    assert all(part.tokens > 0 and part.approximate for part in counted.messages)


def test_an_input_of_every_private_character_is_counted() -> None:
    counted = count(remote_profile(ToyServer()), [{"role": "user", "content": "".join(map(chr, range(0xE000, 0xF900)))}])
    assert counted.total == 1 + turn("user", "x" * 6400) + 11


def test_a_server_that_cannot_be_cut_is_counted_exactly_as_a_whole() -> None:
    toy = ToyServer(knows_special=False)
    chat: Chat = [{"role": "user", "content": "Hello"}, {"role": "user", "content": "x"}]
    counted = count(remote_profile(toy), chat)
    assert counted.total == 1 + len(toy.template({"messages": chat})["prompt"])
    assert min(numbers(counted)) > 0
    assert counted.messages[0].approximate
    assert not counted.template.approximate


def test_no_messages_are_all_template() -> None:
    counted = count(remote_profile(ToyServer()), [])
    assert (counted.messages, counted.total) == ((), 12)


def test_a_server_that_came_back_as_another_is_learned_again() -> None:
    toy = ToyServer()
    profile = remote_profile(toy)
    assert count(profile, []).total == 12
    toy.away = True
    count(profile, [])
    toy.away, toy.adds_bos, toy.model = False, False, "other"
    assert count(profile, []).total == 11


def test_a_server_that_came_back_the_same_is_not_learned_again() -> None:
    toy = ToyServer()
    profile = remote_profile(toy)
    count(profile, [])
    toy.away = True
    count(profile, [])
    toy.away = False
    toy.asked.clear()
    count(profile, [])
    assert toy.asked.count("/props") == 1
    assert toy.asked.count("/tokenize") == 0


def test_properties_without_a_template_are_no_llama_cpp() -> None:
    async def ask(method: str, path: str, body: bytes) -> bytes:
        return b'{"role": "router"}'

    counting = LlamaCounting(LlamaServer(ask), MessageCounter(len, ChatRules(), TileRule(85, 170)))
    with pytest.raises(RemoteUnavailable, match="without a chat template"):
        asyncio.run(counting.probe())


def test_pictures_are_estimated_on_top() -> None:
    parts = [{"type": "image_url", "image_url": {"url": "https://example.test/x.png"}}]
    counted = count(remote_profile(ToyServer()), [{"role": "user", "content": parts}, {"role": "user", "content": "Hi"}])
    assert counted.messages[0].tokens > 1445
    assert counted.messages[0].approximate
    assert not counted.messages[1].approximate


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12) | st.sampled_from(["<turn>", " ", "\ue000", "</turn><s>x"])


@settings(deadline=None, max_examples=100)
@given(st.lists(st.tuples(st.sampled_from(["system", "user", "assistant"]), TEXTS), max_size=6), st.booleans())
def test_parts_always_add_up_to_the_servers_total(chat: list[tuple[str, str]], shouts: bool) -> None:
    toy = ToyServer(shouts=shouts)
    messages = [{"role": role, "content": text} for role, text in chat]
    counted = count(remote_profile(toy), messages)
    prompt = toy.template({"messages": messages})["prompt"]
    assert counted.total == len(toy.tokenize({"content": prompt, "add_special": True, "parse_special": True})["tokens"])
    assert all(part.tokens >= 0 for part in (*counted.messages, counted.template, counted.tools))


# Against llama.cpp itself.


class RealServer(Server, Protocol):
    asked: list[str]

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]: ...


PIECES = (
    "The quick brown fox. ",
    "  ",
    "\n\n",
    "naïve Grüße ",
    "世界你好",
    "🙂👍🏽",
    "def f(x):\n\treturn x\n",
    "12345 3.14 ",
    "<|im_end|>",
    "<|im_start|>user\n",
    "<|endoftext|>",
    "\ue000\uf8ff",
    "\u00a0\u2028",
    "Привет мир ",
)


def random_chat(chance: random.Random) -> Chat:
    roles = (["system"] if chance.random() < 0.5 else []) + ["user", "assistant"] * chance.randrange(4) + ["user"]
    if chance.random() < 0.2:
        roles.append("assistant")
    return [{"role": role, "content": "".join(chance.choices(PIECES, k=chance.randrange(6)))} for role in roles]


def server_total(server: RealServer, messages: Chat, request: dict[str, Any]) -> int:
    return int(server.post("/v1/chat/completions/input_tokens", {"messages": messages, **request})["input_tokens"])


def test_the_count_is_the_servers_own_on_thirty_chats(local_server: RealServer) -> None:
    profile, chance = remote_profile(local_server), random.Random(11)  # noqa: S311  (samples, not secrets)
    for _ in range(30):
        chat = random_chat(chance)
        counted = count(profile, chat)
        assert counted.total == server_total(local_server, chat, {}), chat
        assert not counted.approximate, chat
        default_prompt, primer = 0 if chat[0]["role"] == "system" else 21, 0 if chat[-1]["role"] == "assistant" else 4
        assert counted.template.tokens == default_prompt + primer


def test_the_count_is_the_usage_of_the_reply(local_server: RealServer) -> None:
    profile = remote_profile(local_server)
    chats: list[tuple[Chat, dict[str, Any]]] = [
        ([{"role": "user", "content": "Hello!"}], {}),
        ([{"role": "system", "content": "Be brief."}, {"role": "user", "content": "  Grüße 世界 🙂\n"}], {}),
        (TOOL_CHAT, {"tools": [TOOL]}),
        ([{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}], {}),
    ]
    for chat, request in chats:
        usage = local_server.post("/v1/chat/completions", {"messages": chat, "max_tokens": 1, **request})["usage"]
        counted = count(profile, chat, max_tokens=1, **request)
        assert counted.total == usage["prompt_tokens"]
        assert profile.last_failure is None


def test_a_growing_chat_asks_for_its_new_text_only(local_server: RealServer) -> None:
    profile = remote_profile(local_server)
    chat: Chat = [{"role": "user", "content": "one"}]
    count(profile, chat)
    local_server.asked.clear()
    count(profile, chat)
    assert sorted(local_server.asked) == ["/apply-template", "/apply-template"]
    count(profile, [*chat, {"role": "assistant", "content": "two"}])
    assert sorted(local_server.asked)[-1] == "/tokenize"
    assert len(local_server.asked) == 5


def test_what_the_server_refuses_is_estimated(local_server: RealServer) -> None:
    profile = remote_profile(local_server)
    assert count(profile, [{"role": "user", "content": 5}]).template.approximate
    assert profile.last_failure == "POST /apply-template failed: ConnectionError"
    cut = json.loads('{"role": "user", "content": "cut \\ud83d"}')
    assert count(profile, [cut]).template.approximate
    assert not count(profile, [{"role": "user", "content": "well"}]).approximate
