"""A prompt in a shape: counted as it is sent, told in the audit by its source messages, cut until that fits."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.audit import decode_body
from gateway.chat import ContextOptions, MemoryEntry
from gateway.plugins.host import PluginHost
from gateway.preparation import Preferences
from gateway.prepared import PreparedPrompt
from gateway.shaping import shaped
from gateway.shifting import ContextStrategyRegistry, PromptBlock
from gateway.shifting.shift import protection
from tests.gateway.shifting.conversations import conversations
from tests.gateway.test_preparation import Estimate, Moody, messages_of, prepare, wire_message
from tests.gateway.test_preparation_writing import host_with, included, prepare_with
from tests.support.small_chats import PRIMER, NeighbourProfile, WordProfile, chat_request, model_config, turns, words
from tokenizer_profiles.base import TokenizerProfile

NEIGHBOURS = [
    {"role": "system", "content": "be kind"},
    {"role": "user", "content": "one two three"},
    {"role": "user", "content": "four"},
    {"role": "system", "content": "be brief"},
    {"role": "assistant", "content": "five"},
    {"role": "user", "content": "six"},
]


def outgoing(prepared: PreparedPrompt) -> list[tuple[str, Any]]:
    return [(message["role"], message["content"]) for message in json.loads(prepared.outgoing)["messages"]]


def told(prepared: PreparedPrompt) -> list[tuple[int, bool]]:
    return [(block.tokens, block.included) for block in messages_of(prepared)]


def test_neighbours_go_out_as_one_and_are_counted_as_one() -> None:
    request = chat_request(NEIGHBOURS)
    prepared = prepare(request, model_config(message_shape="strict"))
    assert outgoing(prepared) == [
        ("system", "be kind\n\nbe brief"),
        ("user", "one two three\n\nfour"),
        ("assistant", "five"),
        ("user", "six"),
    ]
    counted = PRIMER + sum(words(message) for message in json.loads(prepared.outgoing)["messages"])
    assert prepared.prompt_tokens == prepared.prompt_tokens_before == included(prepared) == counted == 3 + 6 + 6 + 3 + 3
    assert [block.position for block in messages_of(prepared)] == list(range(6))
    assert told(prepared) == [(3, True), (3, True), (3, True), (3, True), (3, True), (3, True)]
    assert [block.approximate for block in messages_of(prepared)] == [True, True, True, True, False, False]
    assert not prepared.approximate
    assert [(item.stage, item.code) for item in prepared.diagnostics] == [("shape", "message-shape")]


def test_what_stands_before_a_leading_assistant_belongs_to_the_template() -> None:
    prepared = prepare(chat_request(turns(2)), model_config(message_shape="strict"))
    assert outgoing(prepared)[0] == ("user", "(continued)")
    (template,) = [block for block in prepared.blocks if block.kind == "template"]
    assert (template.tokens, prepared.prompt_tokens, included(prepared)) == (PRIMER + 3, 26, 26)


@pytest.mark.parametrize("shape", ["merge", "strict"])
def test_what_has_the_shape_already_goes_out_as_its_own_bytes(shape: str) -> None:
    request = chat_request([NEIGHBOURS[0], *turns(3)])
    prepared = prepare(request, model_config(message_shape=shape))
    assert prepared.outgoing is request.body
    assert (prepared.diagnostics, prepared.shaped) == ((), False)


def test_messages_that_are_not_joined_keep_their_bytes() -> None:
    spaced = {"role": "user", "content": "a"}
    request = chat_request([NEIGHBOURS[0], {"role": "assistant", "content": "b", "n": 1.5}, spaced])
    prepared = prepare(request, model_config(message_shape="strict"))
    assert [prepared.messages[at] for at in prepared.kept][2:] == list(request.messages[1:])


def test_a_prompt_that_fits_only_when_joined_is_not_cut() -> None:
    chat = [{"role": "user", "content": "word"}] * 30
    assert len(prepare(chat_request(chat), model_config()).excluded) > 0
    prepared = prepare(chat_request(chat), model_config(message_shape="merge"))
    assert (list(prepared.excluded), prepared.prompt_tokens) == ([], PRIMER + 2 + 30)


def test_a_cut_counts_what_it_puts_before_the_assistant_it_uncovers() -> None:
    system = {"role": "system", "content": "s"}
    request = chat_request([system, *turns(11)])
    plain = prepare(request, model_config(context_limit=98))
    assert (outgoing(plain)[1][0], plain.prompt_tokens) == ("assistant", 86)
    prepared = prepare(request, model_config(context_limit=98, message_shape="strict"))
    assert outgoing(prepared)[1] == ("user", turns(1)[0]["content"])
    assert (prepared.prompt_tokens, included(prepared)) == (76, 76)
    roomy = prepare(request, model_config(context_limit=99, message_shape="strict"))
    assert outgoing(roomy)[1] == ("user", "(continued)")
    assert (roomy.prompt_tokens, included(roomy)) == (89, 89)


def test_what_left_shows_what_it_costs_alone() -> None:
    chat = [{"role": "user", "content": "one two"}, {"role": "user", "content": "word " * 40}, *turns(7)]
    prepared = prepare(chat_request(chat), model_config(message_shape="merge"))
    assert told(prepared)[0] == (4, False)
    assert told(prepared)[1] == (42, False)


def test_what_is_protected_and_too_long_is_told_as_it_would_be_sent() -> None:
    chat = [{"role": "system", "content": "word " * 50}] * 2 + turns(1)
    prepared = prepare(chat_request(chat), model_config(message_shape="strict"))
    assert (prepared.fits, prepared.prompt_tokens) == (False, PRIMER + 102 + 10)


def test_a_fallback_has_its_own_shape() -> None:
    chat = [{"role": "user", "content": "word " * 100}] * 2
    configs = [model_config(fallbacks=("big",)), model_config("big", context_limit=300, message_shape="merge")]
    prepared = prepare(chat_request(chat), *configs)
    assert len(outgoing(prepared)) == 1
    assert {item.code for item in prepared.diagnostics} == {"message-shape", "fallback-model"}


def test_memory_and_summaries_stand_with_the_system_text_under_strict() -> None:
    facts = [
        {"role": role, "content": f"The {name} is in town {i}. Nobody else knows it yet."}
        for i, (role, name) in enumerate(zip(["user", "assistant"] * 3, "abcdef", strict=True))
    ]
    chat = [{"role": "system", "content": "s"}, *facts, {"role": "user", "content": "where now"}]
    config = model_config(context_strategy="summarize", context_limit=85, reply_reserve=10, message_shape="strict")
    request = chat_request(chat, options=ContextOptions(memory=(MemoryEntry("remember"),)))
    host = PluginHost(ContextStrategyRegistry.with_builtins())
    prepared = prepare_with(host, request, config, Preferences(summary_share=0.5, summary_tokens=30))
    (system,) = [content for role, content in outgoing(prepared) if role == "system"]
    assert system.startswith("s\n\nremember\n\nFrom earlier messages")
    summary = next(block for block in prepared.blocks if block.kind == "summary")
    assert (summary.included, summary.approximate) == (True, True)
    assert prepared.prompt_tokens == included(prepared) <= prepared.budget.prompt_limit


def test_what_an_interceptor_writes_is_joined_too_and_its_counter_counts_as_sent() -> None:
    counts: list[int] = []

    def add(blocks: Sequence[PromptBlock], request: Any) -> list[PromptBlock]:
        new = PromptBlock.new("user", "and this")
        counts.append(request.count_tokens(blocks))
        counts.append(request.count_tokens([*blocks[:-1], new, blocks[-1]]))
        return [*blocks[:-1], new, blocks[-1]]

    config = model_config(message_shape="merge")
    prepared = prepare_with(host_with(add), chat_request(turns(3)), config)
    assert outgoing(prepared)[-1] == ("user", "and this\n\n" + turns(1)[0]["content"])
    assert counts == [33, 35]
    assert prepared.prompt_tokens == included(prepared) == 35


def test_the_margin_of_an_estimate_holds_in_a_shape_too() -> None:
    prepared = prepare(chat_request(turns(2)), model_config(message_shape="strict"), profile=Estimate())
    assert (prepared.budget.margin, prepared.fits) == (5, True)


class Shares(NeighbourProfile):
    """Counts whole prompts, and says of each message that it is only a share."""

    async def count_prompt(self, messages: Sequence[Any], request: Any) -> Any:
        self.seen = [message.get("role") for message in messages]
        return await super().count_prompt(messages, request)


def test_a_model_that_counts_whole_prompts_never_sees_them_unshaped() -> None:
    profile = Shares()
    prepared = prepare(chat_request(NEIGHBOURS), model_config(message_shape="strict"), profile=profile)
    assert profile.seen == ["system", "user", "assistant", "user"]
    assert prepared.prompt_tokens == included(prepared)


PROFILES = [WordProfile(), NeighbourProfile(), Moody()]


@settings(max_examples=300, deadline=None)
@given(conversations, st.integers(12, 120), st.sampled_from(["merge", "strict"]), st.sampled_from(PROFILES))
def test_random_conversations_keep_every_promise_in_a_shape(
    messages: list[dict[str, Any]], limit: int, shape: Any, profile: TokenizerProfile
) -> None:
    request = chat_request([wire_message(message) for message in messages])
    prepared = prepare(request, model_config(context_limit=limit, message_shape=shape), profile=profile)
    rows = messages_of(prepared)
    assert included(prepared) == prepared.prompt_tokens
    assert min(block.tokens for block in prepared.blocks) >= 0
    assert [block.message for block in rows] == list(range(len(messages)))
    assert prepared.fits == (prepared.prompt_tokens + prepared.budget.reply_reserve <= limit)
    kept = [request.messages[block.message or 0] for block in rows if block.included]
    wanted = [one.message for one in shaped([message.message for message in kept], shape)]
    assert json.loads(prepared.outgoing)["messages"] == wanted
    assert [json.loads(bytes(raw)) for raw in decode_body(prepared.body()).provider_messages()] == wanted
    if prepared.prompt_tokens_before <= prepared.budget.prompt_limit:
        assert list(prepared.excluded) == []
    if prepared.prompt_tokens > prepared.budget.prompt_limit:
        blocks = [message.block for message in kept if message.block is not None]
        assert protection(blocks).removable() == []
