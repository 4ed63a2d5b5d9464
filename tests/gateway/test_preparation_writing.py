"""What strategies and interceptors write is counted, told in the audit and sent; memory too."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from gateway.chat import ChatRequest, ContextOptions, MemoryEntry
from gateway.counting import PromptCounting
from gateway.model_catalog import ModelConfig
from gateway.plugins.host import PluginHost
from gateway.preparation import Ports, Preferences, PromptPreparer
from gateway.prepared import PreparedPrompt
from gateway.relevance.none import NoRelevance
from gateway.relevance.recall import with_relevance
from gateway.shifting import ContextStrategyRegistry, PromptBlock
from tests.gateway.test_preparation import FileLimits, messages_of, prepare
from tests.support.rooms import run
from tests.support.small_chats import WordProfile, chat_request, model_config, profiles, turns

PREFERENCES = Preferences()


def host_with(hook: Callable[..., Sequence[PromptBlock]]) -> PluginHost:
    """A host with one plug-in that has one interceptor."""
    host = PluginHost(ContextStrategyRegistry.with_builtins())
    host.load("test", lambda door: door.interceptors.register("hook", hook))
    return host


def prepare_with(
    host: PluginHost, request: ChatRequest, config: ModelConfig, preferences: Preferences = PREFERENCES
) -> PreparedPrompt:
    counting = PromptCounting(profiles(words=WordProfile()), {})
    ports = Ports(counting, FileLimits(), partial(with_relevance, scorer=NoRelevance()))
    try:
        return run(PromptPreparer(lambda name: config, host, ports, preferences).prepare(request))
    finally:
        host.close()


def sent(prepared: PreparedPrompt) -> list[str]:
    return [prepared.messages[at].text for at in prepared.kept]


def included(prepared: PreparedPrompt) -> int:
    return sum(block.tokens for block in prepared.blocks if block.included)


def test_a_summary_goes_out_before_the_current_input_and_its_sources_are_truncated() -> None:
    facts = [
        {"role": "user", "content": f"The {name} is in town {i}. Nobody else knows it yet."} for i, name in enumerate("abcdef")
    ]
    chat = [{"role": "system", "content": "s"}, *facts, {"role": "user", "content": "where now"}]
    config = model_config(context_strategy="summarize", context_limit=80, reply_reserve=10)
    host = PluginHost(ContextStrategyRegistry.with_builtins())
    prepared = prepare_with(host, chat_request(chat), config, Preferences(summary_share=0.5, summary_tokens=30))
    summary = next(block for block in prepared.blocks if block.kind == "summary")
    assert (summary.included, summary.reason, summary.source, summary.position) == (True, "summary", "summary", None)
    assert sent(prepared)[-1] == "where now"
    assert prepared.messages[prepared.kept[-2]].source == "summary"
    assert {block.reason for block in prepared.truncated} == {"summarized"}
    assert prepared.prompt_tokens == included(prepared) <= prepared.budget.prompt_limit
    assert b"where now" in prepared.outgoing.split(b"The ")[-1]


def test_memory_of_little_relevance_leaves_first() -> None:
    memory = (MemoryEntry("dull " * 20, relevance=0.1), MemoryEntry("bright " * 20, relevance=0.9))
    request = chat_request(turns(5), options=ContextOptions(strategy="vector-recall", memory=memory))
    prepared = prepare(request, model_config(context_limit=100, reply_reserve=10))
    reasons = {block.id: block.reason for block in messages_of(prepared)}
    assert (reasons["memory-0"], reasons["memory-1"]) == ("low-relevance", "fits")
    assert prepared.messages[prepared.kept[-2]].source == "memory"
    assert prepared.prompt_tokens == included(prepared)


def test_what_an_interceptor_adds_is_counted_and_told() -> None:
    def add(blocks: Sequence[PromptBlock], request: object) -> list[PromptBlock]:
        return [*blocks[:-1], PromptBlock.new("system", "be kind"), blocks[-1]]

    prepared = prepare_with(host_with(add), chat_request(turns(3)), model_config())
    assert sent(prepared)[-2] == "be kind"
    added = messages_of(prepared)[-2]
    assert (added.source, added.reason, added.position) == ("plug-in", "fits", None)
    assert prepared.prompt_tokens == included(prepared) == prepared.prompt_tokens_before + added.tokens


def test_what_an_interceptor_adds_leaves_again_when_it_does_not_fit() -> None:
    def flood(blocks: Sequence[PromptBlock], request: object) -> list[PromptBlock]:
        return [PromptBlock.new("user", "word " * 500), *blocks]

    request = chat_request(turns(3))
    prepared = prepare_with(host_with(flood), request, model_config())
    assert sent(prepared) == [message.text for message in request.messages]
    assert [block.reason for block in prepared.excluded] == ["final-budget"]
    assert "added-blocks-withdrawn" in [item.code for item in prepared.diagnostics]


def test_what_an_interceptor_removes_is_told() -> None:
    prepared = prepare_with(host_with(lambda blocks, request: blocks[1:]), chat_request(turns(3)), model_config())
    assert len(prepared.kept) == 2
    assert [block.reason for block in prepared.excluded] == ["interceptor"]
    assert prepared.prompt_tokens == included(prepared)
