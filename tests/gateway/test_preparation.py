"""The seven steps: which model, how many tokens, how much room, what stays, what leaves, recount, report."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.audit import AuditBlock
from gateway.chat import ChatMessage, ChatRequest, ContextOptions, Diagnostic, MarkRule, Marks
from gateway.counting import PromptCounting
from gateway.errors import InvalidRequest, ModelNotFound
from gateway.model_catalog import Limits, ModelConfig
from gateway.plugins.host import PluginHost
from gateway.preparation import Counted, Ports, Preferences, PromptPreparer
from gateway.prepared import PreparedPrompt
from gateway.relevance.none import NoRelevance
from gateway.relevance.recall import with_relevance
from gateway.shifting import BlockKind, ContextStrategyRegistry, PromptBlock, Reason, ShiftOptions, ShiftResult
from gateway.shifting.blocks import block_of
from gateway.shifting.links import tool_links
from gateway.shifting.shift import protection
from tests.gateway.shifting.conversations import conversations
from tests.support.rooms import run
from tests.support.small_chats import (
    PRIMER,
    NeighbourProfile,
    WordProfile,
    chat_message,
    chat_request,
    model_config,
    profiles,
    turns,
)
from tokenizer_profiles.base import PromptCount, TokenCount, TokenizerProfile

INCLUDED = {
    "protected-system", "protected-character", "protected-persona", "protected-lorebook", "protected-pinned",
    "protected-request", "current-turn", "fits", "shortened", "summary",
}  # fmt: skip
EXCLUDED = {
    "context-shift", "final-budget", "low-relevance", "manual", "summarized", "empty", "disabled", "lore-budget",
    "interceptor", "group-member", "not-activated",
}  # fmt: skip


class FileLimits:
    """The limits of the file, with a warning where a test wants one."""

    def __init__(self, warning: str | None = None) -> None:
        self.warning = warning

    async def limits(self, config: ModelConfig, upstream_model: str, authorization: str | None = None) -> Limits:
        return Limits(config.context_limit or 0, config.max_output, "file", self.warning)


class Estimate(WordProfile):
    name, approximate = "estimate", True


def preparer(
    resolve: Callable[[str], ModelConfig], registry: ContextStrategyRegistry, counting: PromptCounting, limits: FileLimits
) -> PromptPreparer:
    ports = Ports(counting, limits, partial(with_relevance, scorer=NoRelevance()))
    return PromptPreparer(resolve, PluginHost(registry), ports, Preferences())


def prepare(
    request: ChatRequest,
    *configs: ModelConfig,
    profile: TokenizerProfile | None = None,
    strategies: ContextStrategyRegistry | None = None,
    warning: str | None = None,
) -> PreparedPrompt:
    models = {config.name: config for config in configs or (model_config(),)}

    def resolve(name: str) -> ModelConfig:
        if name not in models:
            raise ModelNotFound("no such model", param="model")
        return models[name]

    counting = PromptCounting(profiles(words=profile or WordProfile(), approximate=WordProfile()), {})
    registry = strategies or ContextStrategyRegistry.with_builtins()
    return run(preparer(resolve, registry, counting, FileLimits(warning)).prepare(request))


def messages_of(prepared: PreparedPrompt) -> list[AuditBlock]:
    return [block for block in prepared.blocks if block.message is not None]


def test_a_request_that_fits_is_left_alone() -> None:
    prepared = prepare(chat_request(turns(3)))
    assert (list(prepared.kept), prepared.prompt_tokens, prepared.prompt_tokens_before) == ([0, 1, 2], 33, 33)
    assert (prepared.provider, prepared.model, prepared.upstream_model) == ("up", "m", "m")
    assert (prepared.strategy, prepared.tokenizer, prepared.report, prepared.diagnostics) == ("truncate", "words", "off", ())
    assert [block.reason for block in prepared.blocks] == ["protected-request", "fits", "fits", "current-turn"]


def test_the_oldest_leave_when_it_does_not_fit() -> None:
    prepared = prepare(chat_request([{"role": "system", "content": "s"}, *turns(11)]))
    assert list(prepared.kept) == [0, *range(4, 12)]
    assert (prepared.prompt_tokens, prepared.prompt_tokens_before) == (86, 116)
    assert [block.reason for block in messages_of(prepared)] == (
        ["protected-system"] + ["context-shift"] * 3 + ["fits"] * 7 + ["current-turn"]
    )


def test_the_cut_is_made_in_steps_of_the_model() -> None:
    assert list(prepare(chat_request(turns(9)), model_config(cut_step=0.25)).kept) == list(range(3, 9))


def test_what_cannot_fit_is_an_answer() -> None:
    prepared = prepare(chat_request([*turns(2), {"role": "user", "content": "word " * 100}]))
    assert (prepared.fits, prepared.deficit, prepared.prompt_tokens) == (False, 15, 105)
    assert list(prepared.kept) == [2]


@pytest.mark.parametrize(
    ("reply_limit", "options", "config", "reserve", "output_limit"),
    [
        (None, {}, {}, 10, None),
        (None, {}, {"reply_reserve": 60}, 25, None),
        (None, {}, {"reply_reserve": 60, "sources": {"reply_reserve": "file models/m.toml"}}, 60, None),
        (None, {"reply_reserve": 7}, {}, 7, None),
        (20, {"reply_reserve": 7}, {}, 20, None),
        (20, {}, {"max_output": 20}, 20, None),
        (21, {}, {"max_output": 20}, 20, 20),
        (None, {"reply_reserve": 30}, {"max_output": 20}, 20, None),
        (None, {}, {"max_output": 4}, 4, None),
    ],
)
def test_the_reserve_is_the_requests_else_the_extensions_else_the_models(
    reply_limit: int | None, options: dict[str, Any], config: dict[str, Any], reserve: int, output_limit: int | None
) -> None:
    request = chat_request(turns(1), reply_limit=reply_limit, options=ContextOptions(**options))
    prepared = prepare(request, model_config(**config))
    assert (prepared.budget.reply_reserve, prepared.output_limit) == (reserve, output_limit)


@pytest.mark.parametrize(("asked", "limit"), [(None, 100), (50, 50), (1000, 100)])
def test_the_extension_may_only_lower_the_limit(asked: int | None, limit: int) -> None:
    prepared = prepare(chat_request(turns(1), options=ContextOptions(context_limit=asked)))
    assert prepared.budget.context_limit == limit


def test_a_reserve_that_leaves_no_room_fits_nothing() -> None:
    prepared = prepare(chat_request(turns(3), reply_limit=10**18))
    assert not prepared.fits
    assert prepared.budget.hard_limit < 0


def test_an_estimate_keeps_a_margin_that_never_refuses() -> None:
    assert prepare(chat_request(turns(1))).budget.margin == 0
    prepared = prepare(chat_request(turns(1, 83)), profile=Estimate())
    assert (prepared.budget.margin, prepared.approximate, prepared.fits) == (5, False, True)
    assert prepared.prompt_tokens == 88 > prepared.budget.prompt_limit


def test_an_approximate_part_is_told_without_a_margin() -> None:
    prepared = prepare(chat_request([{"role": "user", "content": "a", "image": 1}]))
    assert (prepared.budget.margin, prepared.approximate) == (0, True)
    assert [block.approximate for block in prepared.blocks] == [False, True]


def test_tools_formats_and_the_template_stand_first_where_they_cost_something() -> None:
    body = {"tools": [{}], "response_format": {"type": "json_object"}}
    prepared = prepare(chat_request(turns(1), body=body))
    assert [(block.kind, block.source, block.tokens) for block in prepared.blocks] == [
        ("tools", "request", 10),
        ("response-format", "request", 5),
        ("template", "template", PRIMER),
        ("history", "request", 10),
    ]
    assert [block.order for block in prepared.blocks] == [0, 1, 2, 3]


def test_blocks_have_the_ids_and_names_of_their_messages() -> None:
    request = chat_request(
        [
            chat_message({"role": "user", "content": "a", "name": "ann"}, message_id="mine"),
            chat_message({"role": "user", "content": "a", "name": 5}),
        ]
    )
    assert [(block.id, block.name) for block in messages_of(prepare(request))] == [("mine", "ann"), ("m1", None)]


def test_messages_with_the_same_id_are_still_two() -> None:
    messages = [chat_message(message, message_id="same") for message in turns(11)]
    prepared = prepare(chat_request(messages))
    assert [block.included for block in messages_of(prepared)] == [False] * 3 + [True] * 8


def test_a_call_and_its_results_share_a_group() -> None:
    call = {"role": "assistant", "content": None, "tool_calls": [{"id": "c"}]}
    request = chat_request([{"role": "user", "content": "a"}, call, {"role": "tool", "tool_call_id": "c", "content": "r"}])
    assert [block.group for block in messages_of(prepare(request))] == [None, "g1", "g1"]


def test_marks_make_kinds_pins_and_required_blocks() -> None:
    rules = (
        MarkRule(Marks(kind=BlockKind.PERSONA), index=0),
        MarkRule(Marks(pinned=True), index=1),
        MarkRule(Marks(kind=BlockKind.LOREBOOK, required=True), index=2),
    )
    prepared = prepare(chat_request(turns(11), options=ContextOptions(rules=rules)))
    found = messages_of(prepared)
    assert [block.reason for block in found[:4]] == [
        "protected-persona",
        "protected-pinned",
        "protected-lorebook",
        "context-shift",
    ]
    assert [block.kind for block in found[:4]] == ["persona", "history", "lorebook", "history"]


def test_exclusion_marks_under_another_strategy_are_told_and_ignored() -> None:
    rules = (MarkRule(Marks(manual_excluded=True), index=0),)
    prepared = prepare(chat_request(turns(3), options=ContextOptions(rules=rules)))
    assert list(prepared.kept) == [0, 1, 2]
    assert [item.code for item in prepared.diagnostics] == ["exclusion-ignored"]


def test_a_strategy_is_the_requests_else_the_models_and_its_reasons_are_told() -> None:
    class Newest:
        def shift(
            self, blocks: Sequence[PromptBlock], count: Callable[[Any], int], budget: int, *, options: ShiftOptions
        ) -> ShiftResult[PromptBlock]:
            assert (budget, options.cut_step, count(blocks), count([])) == (90, 0.5, 33, 3)
            kept, gone = blocks[-1:], blocks[:-1]
            assert [block.manual_excluded for block in blocks] == [True, False, False]
            return ShiftResult(kept, gone, (), count(kept), reasons={gone[0].id: Reason.MANUAL})

    registry = ContextStrategyRegistry()
    registry.register("manual", Newest())
    marks = Marks(manual_excluded=True)
    config = model_config(context_strategy="never-asked", cut_step=0.5)
    request = chat_request(turns(3), options=ContextOptions(strategy="manual", rules=(MarkRule(marks, index=0),)))
    prepared = prepare(request, config, strategies=registry)
    assert (prepared.strategy, prepared.diagnostics, prepared.prompt_tokens) == ("manual", (), 13)
    assert [block.reason for block in messages_of(prepared)] == ["manual", "context-shift", "current-turn"]


def test_an_unknown_strategy_is_refused_with_the_names_of_the_known() -> None:
    with pytest.raises(InvalidRequest, match="known are manual, summarize, truncate, vector-recall") as caught:
        prepare(chat_request(turns(1), options=ContextOptions(strategy="nonsense")))
    assert caught.value.param == "contextStrategy"


def test_a_guessed_limit_and_the_requests_own_remarks_are_told() -> None:
    remark = Diagnostic("request", "warning", "unknown-option", "x")
    prepared = prepare(chat_request(turns(1), diagnostics=(remark,)), warning="it was guessed")
    assert [item.code for item in prepared.diagnostics] == ["unknown-option", "context-limit-guessed"]


def test_the_first_fallback_that_fits_serves() -> None:
    configs = [
        model_config(fallbacks=("tiny", "big", "huge")),
        model_config("tiny", context_limit=50),
        model_config("big", context_limit=300, provider="other", upstream_model="big-1"),
        model_config("huge", context_limit=1000),
    ]
    prepared = prepare(chat_request(turns(1, 150)), *configs)
    assert (prepared.model, prepared.upstream_model, prepared.provider, prepared.fits) == ("m", "big-1", "other", True)
    assert [item.code for item in prepared.diagnostics] == ["fallback-model"]
    assert b'"model":"big-1"' in prepared.outgoing


def test_a_fallback_is_not_asked_when_the_model_fits_and_none_serves_when_none_fits() -> None:
    configs = [model_config(fallbacks=("tiny",)), model_config("tiny", context_limit=50)]
    assert prepare(chat_request(turns(1)), *configs).budget.context_limit == 100
    prepared = prepare(chat_request(turns(1, 150)), *configs)
    assert (prepared.budget.context_limit, prepared.fits, prepared.diagnostics) == (100, False, ())


def test_the_report_is_the_requests_else_the_gateways() -> None:
    assert prepare(chat_request(turns(1), options=ContextOptions(report="full"))).report == "full"


def wire_message(message: dict[str, Any]) -> ChatMessage:
    """A random message as a reader would make it: its marks read, its own fields taken off."""
    block = block_of(message, 0)
    wire = {key: value for key, value in message.items() if key != "meta"}
    kind = BlockKind(message["meta"]["kind"]) if "kind" in message.get("meta", {}) else None
    return replace(chat_message(wire, Marks(pinned=block.pinned or None, kind=kind)), links=tool_links(message))


def checked(messages: list[dict[str, Any]], limit: int, profile: TokenizerProfile, cut_step: float = 0.0) -> PreparedPrompt:
    """A random conversation, prepared, with every promise that an audit makes of it."""
    request = chat_request([wire_message(message) for message in messages])
    prepared = prepare(request, model_config(context_limit=limit, cut_step=cut_step), profile=profile)
    found = messages_of(prepared)
    assert sum(block.tokens for block in prepared.blocks if block.included) == prepared.prompt_tokens
    assert [block.message for block in found] == list(range(len(messages)))
    assert [block.order for block in prepared.blocks] == list(range(len(prepared.blocks)))
    assert [block.message for block in found if block.included] == list(prepared.kept)
    assert {block.reason for block in prepared.blocks if block.included} <= INCLUDED
    assert {block.reason for block in prepared.blocks if not block.included} <= EXCLUDED
    assert prepared.fits == (prepared.prompt_tokens + prepared.budget.reply_reserve <= limit)
    if prepared.prompt_tokens_before <= prepared.budget.prompt_limit:
        assert list(prepared.excluded) == []
    return prepared


@settings(max_examples=150, deadline=None)
@given(conversations, st.integers(12, 120), st.sampled_from([0.0, 0.125, 0.5]))
def test_random_conversations_keep_every_promise(messages: list[dict[str, Any]], limit: int, cut_step: float) -> None:
    checked(messages, limit, WordProfile(), cut_step)


class Moody(NeighbourProfile):
    """Counts that jump with the number of messages, up and down."""

    async def count_prompt(self, messages: Sequence[Any], request: Any) -> PromptCount:
        counted = await super().count_prompt(messages, request)
        return replace(counted, template=TokenCount(3 + (len(messages) * 7) % 11))


@settings(max_examples=200, deadline=None)
@given(conversations, st.integers(12, 120), st.sampled_from([NeighbourProfile(), Moody()]))
def test_counts_that_do_not_add_up_never_end_over_budget_while_something_can_leave(
    messages: list[dict[str, Any]], limit: int, profile: TokenizerProfile
) -> None:
    prepared = checked(messages, limit, profile)
    if prepared.prompt_tokens > prepared.budget.prompt_limit:
        blocks = [block_of(messages[i], i) for i in prepared.kept]
        plan = protection(blocks)
        assert plan.removable() == []
        assert plan.last_resort() == []


def test_a_count_that_grows_whatever_leaves_still_ends() -> None:
    class Spiteful(PromptCounting):
        asked = 0

        async def count(self, config: Any, upstream_model: str, request: ChatRequest, messages: Any) -> Counted:
            Spiteful.asked += 1
            counts = tuple(TokenCount(50 * Spiteful.asked) for _ in messages)
            return Counted("spite", False, False, PromptCount(counts, TokenCount(0), TokenCount(0), TokenCount(0)))

    counting = Spiteful(profiles(), {})
    registry = ContextStrategyRegistry.with_builtins()
    prepared = run(preparer(lambda name: model_config(), registry, counting, FileLimits()).prepare(chat_request(turns(20))))
    assert list(prepared.kept) == [19]
    assert Spiteful.asked <= 21
