"""The seven steps of the product: which model, how many tokens, how much room, what must stay, what leaves, recount, report.

Shared by generation and preview, which is why they agree. Reaches the outside only through the ports it is given; no store, no
provider and no web framework below this line of sight.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from gateway.assembly import Assembled, assembled
from gateway.chat import NO_MARKS, ChatMessage, ChatRequest, Diagnostic, Marks, marked
from gateway.errors import InvalidRequest
from gateway.fitting import Fitted, counter_of, taken_up
from gateway.ledger import ledger_of
from gateway.model_catalog import Limits, ModelConfig
from gateway.prepared import PreparedPrompt
from gateway.shifting import (
    ContextBudget,
    ContextStrategy,
    ContextStrategyRegistry,
    PromptBlock,
    ShiftOptions,
    ShiftResult,
    UnknownStrategy,
)
from gateway.shifting.blocks import kind_of_role
from tokenizer_profiles.base import PromptCount


@dataclass(frozen=True, slots=True)
class Counted:
    """A counted prompt: by which profile, whether its text is only estimated, and whether parts counted alone add up."""

    profile: str
    estimated: bool
    additive: bool
    prompt: PromptCount


class CountingPort(Protocol):
    """Counts the prompt of a request, or of some of its messages."""

    async def count(
        self, config: ModelConfig, upstream_model: str, request: ChatRequest, messages: Sequence[ChatMessage]
    ) -> Counted:
        """The tokens of these messages with the request's tools and formats."""

    def alone(self, config: ModelConfig, upstream_model: str, message: Mapping[str, Any]) -> int:
        """The tokens of one message by itself; estimated, rather high, where the model counts whole prompts only."""


class LimitsPort(Protocol):
    """Finds the limits of a model."""

    async def limits(self, config: ModelConfig, upstream_model: str) -> Limits:
        """From the file, else from the upstream, else from the catalogue, else a careful guess."""


@dataclass(frozen=True, slots=True)
class Preferences:
    """What the configuration says of fitting: the report level, and a summary's room, as a share of the budget and in tokens."""

    report: str = "off"
    summary_share: float = 0.10
    summary_tokens: int = 1024


class PromptPreparer:
    """Turns chat requests into prompts that are ready to send."""

    def __init__(
        self,
        resolve: Callable[[str], ModelConfig],
        strategies: ContextStrategyRegistry,
        counting: CountingPort,
        limits: LimitsPort,
        preferences: Preferences,
    ) -> None:
        self._resolve = resolve
        self._strategies = strategies
        self._counting = counting
        self._limits = limits
        self._preferences = preferences

    async def prepare(self, request: ChatRequest) -> PreparedPrompt:
        """Fits a request to its model, else to the first of the model's fallbacks that it fits.

        Raises ModelNotFound or InvalidRequest; a prompt that can't be made to fit is an answer, not an error.
        """
        config = self._resolve(request.model)
        prepared = await self._prepare_for(config, config.upstream_name(request.model), request)
        for name in config.fallbacks if not prepared.fits else ():
            fallback = self._resolve(name)
            other = await self._prepare_for(fallback, fallback.upstream_name(name), request)
            if other.fits:
                text = f"{prepared.prompt_tokens} protected tokens don't fit {config.name}; {name} serves instead"
                remark = Diagnostic("fallback", "warning", "fallback-model", text)
                return replace(other, diagnostics=(*other.diagnostics, remark))
        return prepared

    async def _prepare_for(self, config: ModelConfig, upstream_model: str, request: ChatRequest) -> PreparedPrompt:
        strategy = request.options.strategy or config.context_strategy
        chosen = self._strategy(strategy)
        limits = await self._limits.limits(config, upstream_model)
        marks, diagnostics = marked(request)
        prompt = assembled(request, marks)
        counted = await self._counting.count(config, upstream_model, request, prompt.messages)
        budget, output_limit = _budget(request, config, limits, exact=not counted.estimated)
        blocks = _blocks(prompt, counted.prompt)

        async def count(messages: Sequence[ChatMessage]) -> PromptCount:
            return (await self._counting.count(config, upstream_model, request, messages)).prompt

        limit = budget.prompt_limit
        tokens = counter_of(counted.prompt, partial(self._counting.alone, config, upstream_model))
        result = chosen.shift(blocks, tokens, limit, options=self._options(config, limit))
        if len(result.kept) == len(blocks) and list(result.kept) == blocks:
            fitted = Fitted((), counted.prompt, result.prompt_tokens, untouched=True)
        else:
            additive = counted.prompt if counted.additive else None
            fitted = await taken_up(result, blocks, prompt.messages, limit=limit, additive=additive, count=count)
        ledger = ledger_of(prompt, blocks, counted.prompt, fitted)
        return PreparedPrompt(
            request=request,
            provider=config.provider,
            model=request.model,
            upstream_model=upstream_model,
            strategy=strategy,
            tokenizer=counted.profile,
            approximate=fitted.prompt.approximate,
            budget=budget,
            prompt_tokens=fitted.tokens,
            prompt_tokens_before=counted.prompt.total,
            blocks=ledger.blocks,
            excluded=() if fitted.untouched else [block for block in ledger.blocks if not block.included],
            messages=ledger.messages,
            kept=ledger.kept,
            report=request.options.report or self._preferences.report,
            output_limit=output_limit,
            diagnostics=(*request.diagnostics, *diagnostics, *_remarks(strategy, marks, limits, result, fitted)),
        )

    def _strategy(self, name: str) -> ContextStrategy:
        try:
            strategy: ContextStrategy = self._strategies.get(name)
        except UnknownStrategy as error:
            known = ", ".join(error.names())
            raise InvalidRequest(f"There is no such context strategy; known are {known}.", param="contextStrategy") from error
        return strategy

    def _options(self, config: ModelConfig, limit: int) -> ShiftOptions:
        share = int(self._preferences.summary_share * max(0, limit))
        return ShiftOptions(config.cut_step, min(self._preferences.summary_tokens, share))


def _budget(request: ChatRequest, config: ModelConfig, limits: Limits, *, exact: bool) -> tuple[ContextBudget, int | None]:
    """The budget, and the number that replaces too large a reply limit of the request."""
    context_limit = min(limits.context_limit, request.options.context_limit or limits.context_limit)
    reserve = request.reply_limit or request.options.reply_reserve or config.reserve_within(context_limit)
    if limits.max_output is not None:
        reserve = min(reserve, limits.max_output)
    output_limit = reserve if request.reply_limit is not None and reserve < request.reply_limit else None
    return ContextBudget.of(context_limit, reserve, safety_margin=config.safety_margin, exact=exact), output_limit


def _blocks(prompt: Assembled, counted: PromptCount) -> list[PromptBlock]:
    return [
        known
        if (known := message.block) is not None
        and message.position == index
        and known.tokens == count.tokens
        and mark is message.marks
        else _block(index, message, mark, count.tokens)
        for index, message, mark, count in zip(prompt.indexes, prompt.messages, prompt.marks, counted.messages, strict=True)
    ]


def _block(index: int | None, message: ChatMessage, marks: Marks, tokens: int) -> PromptBlock:
    made = PromptBlock(
        id=message.id or message.source if index is None else f"m{index}",
        role=message.role,
        content=message.text,
        kind=marks.kind or kind_of_role(message.role),
        source=message.source,
        pinned=marks.pinned is True,
        required=marks.required is True,
        relevance=marks.relevance,
        tokens=tokens,
        message=message.message,
        links=message.links,
        manual_excluded=marks.manual_excluded is True,
    )
    if marks is message.marks and index is not None:
        message.block, message.position = made, index
    return made


def _remarks(
    strategy: str, marks: Sequence[Marks], limits: Limits, result: ShiftResult[PromptBlock], fitted: Fitted
) -> list[Diagnostic]:
    out = [Diagnostic("shift", "info", code, text) for code, text in result.diagnostics]
    if fitted.withdrawn:
        text = f"{len(fitted.withdrawn)} added blocks left again: with them the last count was over the budget"
        out.append(Diagnostic("shift", "warning", "added-blocks-withdrawn", text))
    if strategy != "manual" and marks.count(NO_MARKS) < len(marks) and any(mark.manual_excluded for mark in marks):
        text = "exclusion marks act under the strategy manual only; they were ignored"
        out.append(Diagnostic("shift", "warning", "exclusion-ignored", text))
    if limits.warning:
        out.append(Diagnostic("limits", "warning", "context-limit-guessed", limits.warning))
    return out
