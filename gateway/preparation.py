"""The seven steps of the product: which model, how many tokens, how much room, what must stay, what leaves, recount, report.

Shared by generation and preview, which is why they agree. Reaches the outside only through the ports it is given; no store, no
provider and no web framework below this line of sight.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple, Protocol

from gateway.assembly import Assembled, assembled
from gateway.chat import NO_MARKS, ChatMessage, ChatRequest, Diagnostic, Marks, marked
from gateway.errors import InvalidRequest
from gateway.fitting import Counted, CountMessages, Fitted, counter_of, taken_up
from gateway.learned import NOTHING
from gateway.ledger import ledger_of
from gateway.model_catalog import Limits, ModelConfig
from gateway.plugins.base import InterceptionContext
from gateway.prepared import PreparedPrompt
from gateway.shifting import (
    ContextBudget,
    ContextStrategyRegistry,
    PromptBlock,
    Reason,
    ShiftOptions,
    ShiftResult,
    TokenCounter,
    UnknownStrategy,
)
from gateway.shifting.blocks import kind_of_role
from tokenizer_profiles.base import TokenCount

RECALL = "vector-recall"
WHOLE = Fraction(1)


class CountingPort(Protocol):
    """Counts the prompt of a request, or of some of its messages."""

    async def count(
        self, config: ModelConfig, upstream_model: str, request: ChatRequest, messages: Sequence[ChatMessage]
    ) -> Counted:
        """The tokens of these messages with the request's tools and formats, in the shape in which they will be sent."""

    def alone(self, config: ModelConfig, upstream_model: str, message: Mapping[str, Any]) -> int:
        """The tokens of one message by itself; estimated, rather high, where the model counts whole prompts only."""


class LimitsPort(Protocol):
    """Finds the limits of a model."""

    async def limits(self, config: ModelConfig, upstream_model: str, authorization: str | None = None) -> Limits:
        """From the file, else from the upstream, else from the catalogue, else a careful guess; and what overflows taught of it
        under the key that this client's Authorization value leads to."""


class ShiftPort(Protocol):
    """Strategies and interceptors: the product's own, and those of plug-ins behind their guard."""

    strategies: ContextStrategyRegistry

    @property
    def intercepts(self) -> bool:
        """Whether there is any interceptor."""

    async def shift(
        self, strategy: Any, blocks: Sequence[PromptBlock], count_tokens: TokenCounter, budget: int, options: ShiftOptions
    ) -> ShiftResult[PromptBlock]:
        """The result of a strategy from `strategies`."""

    async def intercept(self, blocks: Sequence[PromptBlock], context: InterceptionContext) -> Intercepted:
        """The blocks after all interceptors."""


class Intercepted(Protocol):
    """What interceptors left: blocks, remarks, and why others left, by id."""

    @property
    def blocks(self) -> Sequence[PromptBlock]: ...
    @property
    def diagnostics(self) -> tuple[Diagnostic, ...]: ...
    @property
    def reasons(self) -> Mapping[str, Reason]: ...


Relevance = Callable[[Sequence[PromptBlock]], Awaitable[tuple[Sequence[PromptBlock], Sequence[Diagnostic]]]]


@dataclass(frozen=True, slots=True)
class Ports:
    """The only ways out of the preparation. `relevance` gives blocks the relevance they lack, for strategies that go by it."""

    counting: CountingPort
    limits: LimitsPort
    relevance: Relevance


@dataclass(frozen=True, slots=True)
class Preferences:
    """What the configuration says of fitting: the report level, and a summary's room, as a share of the budget and in tokens."""

    report: str = "off"
    summary_share: float = 0.10
    summary_tokens: int = 1024


class _Task(NamedTuple):
    """How one prompt is fitted: by which strategy, whether that goes by relevance, within how many tokens, with which options,
    how blocks and the outcome are counted, and what interceptors are told."""

    strategy: Any
    recalls: bool
    limit: int
    count_tokens: TokenCounter
    options: ShiftOptions
    recount: CountMessages
    context: Callable[[], InterceptionContext]


class PromptPreparer:
    """Turns chat requests into prompts that are ready to send."""

    def __init__(
        self,
        resolve: Callable[[str], ModelConfig],
        shifting: ShiftPort,
        ports: Ports,
        preferences: Preferences,
    ) -> None:
        self._resolve = resolve
        self._shifting = shifting
        self._counting = ports.counting
        self._limits = ports.limits
        self._relevance = ports.relevance
        self._preferences = preferences

    async def prepare(self, request: ChatRequest, budget_share: Fraction = WHOLE) -> PreparedPrompt:
        """Fits a request to its model, else to the first of the model's fallbacks that it fits.

        `budget_share` is how much of the budget may be filled: less than the whole after an overflow without numbers.
        Raises ModelNotFound or InvalidRequest; a prompt that can't be made to fit is an answer, not an error.
        """
        config = self._resolve(request.model)
        prepared = await self._prepare_for(config, config.upstream_name(request.model), request, budget_share)
        for name in config.fallbacks if not prepared.fits else ():
            fallback = self._resolve(name)
            other = await self._prepare_for(fallback, fallback.upstream_name(name), request, budget_share)
            if other.fits:
                text = f"{prepared.prompt_tokens} protected tokens don't fit {config.name}; {name} serves instead"
                remark = Diagnostic("fallback", "warning", "fallback-model", text)
                return replace(other, diagnostics=(*other.diagnostics, remark))
        return prepared

    async def _prepare_for(
        self, config: ModelConfig, upstream_model: str, request: ChatRequest, share: Fraction
    ) -> PreparedPrompt:
        name = request.options.strategy or config.context_strategy
        strategy = self._strategy(name)
        limits = await self._limits.limits(config, upstream_model, request.authorization)
        marks, diagnostics = marked(request)
        prompt = assembled(request, marks)
        counted = await self._counting.count(config, upstream_model, request, prompt.messages)
        budget, output_limit = _budget(request, config, limits, exact=not counted.estimated)
        if share is not WHOLE or limits.learned is not NOTHING:
            budget = budget.scaled(limits.learned.factor / share)
        tokens = self._counter(config, upstream_model, prompt, counted)
        context = partial(_context, request, upstream_model, name, budget, tokens)
        recount = partial(self._counting.count, config, upstream_model, request)
        limit = budget.prompt_limit
        task = _Task(strategy, name == RECALL, limit, tokens, self._options(config, limit), recount, context)
        blocks, fitted, remarks = await self._fitted(task, prompt, counted)
        ledger = ledger_of(prompt, blocks, counted.weights, fitted)
        return PreparedPrompt(
            request=request,
            provider=config.provider,
            model=request.model,
            configured=config.name,
            upstream_model=upstream_model,
            strategy=name,
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
            shaped=fitted.sent is not None,
            diagnostics=(*request.diagnostics, *diagnostics, *remarks, *_remarks(name, marks, limits, fitted)),
        )

    async def _fitted(
        self, task: _Task, prompt: Assembled, counted: Counted
    ) -> tuple[list[PromptBlock], Fitted, list[Diagnostic]]:
        """The blocks of a prompt, with relevance where the strategy goes by it, what is sent of them, and remarks."""
        blocks, limit, remarks = _blocks(prompt, counted.weights), task.limit, list[Diagnostic]()
        if task.recalls and counted.prompt.total > limit:
            scored, found = await self._relevance(blocks)
            blocks = list(scored)
            remarks += found
        result = await self._shifting.shift(task.strategy, blocks, task.count_tokens, limit, task.options)
        remarks += [Diagnostic("shift", "info", code, text) for code, text in result.diagnostics]
        if self._shifting.intercepts:
            left = await self._shifting.intercept(result.kept, task.context())
            remarks += left.diagnostics
            result = replace(result, kept=left.blocks, reasons={**result.reasons, **left.reasons})
        if counted.sent is None and len(result.kept) == len(blocks) and list(result.kept) == blocks:
            return blocks, Fitted((), counted.prompt, result.prompt_tokens, untouched=True), remarks
        fitted = await taken_up(result, blocks, prompt.messages, limit=limit, counted=counted, count=task.recount)
        return blocks, fitted, remarks

    def _counter(self, config: ModelConfig, upstream_model: str, prompt: Assembled, counted: Counted) -> TokenCounter:
        alone = partial(self._counting.alone, config, upstream_model)
        return counter_of(counted, prompt.messages, config.message_shape, alone)

    def _strategy(self, name: str) -> Any:
        try:
            return self._shifting.strategies.get(name)
        except UnknownStrategy as error:
            known = ", ".join(error.names())
            raise InvalidRequest(f"There is no such context strategy; known are {known}.", param="contextStrategy") from error

    def _options(self, config: ModelConfig, limit: int) -> ShiftOptions:
        share = int(self._preferences.summary_share * max(0, limit))
        return ShiftOptions(config.cut_step, min(self._preferences.summary_tokens, share))


def _context(
    request: ChatRequest, upstream_model: str, strategy: str, budget: ContextBudget, tokens: TokenCounter
) -> InterceptionContext:
    return InterceptionContext(
        model=request.model,
        upstream_model=upstream_model,
        strategy=strategy,
        context_limit=budget.context_limit,
        reply_reserve=budget.reply_reserve,
        prompt_limit=budget.prompt_limit,
        count_tokens=tokens,
        chat_id=request.options.chat_id,
        tenant=request.tenant,
    )


def _budget(request: ChatRequest, config: ModelConfig, limits: Limits, *, exact: bool) -> tuple[ContextBudget, int | None]:
    """The budget, and the number that replaces too large a reply limit of the request."""
    known = limits.context_limit
    context_limit = min(known, request.options.context_limit or known, limits.learned.context_limit or known)
    reserve = request.reply_limit or request.options.reply_reserve or config.reserve_within(context_limit)
    if limits.max_output is not None:
        reserve = min(reserve, limits.max_output)
    output_limit = reserve if request.reply_limit is not None and reserve < request.reply_limit else None
    return ContextBudget.of(context_limit, reserve, safety_margin=config.safety_margin, exact=exact), output_limit


def _blocks(prompt: Assembled, counts: Sequence[TokenCount]) -> list[PromptBlock]:
    return [
        known
        if (known := message.block) is not None
        and message.position == index
        and known.tokens == count.tokens
        and mark is message.marks
        else _block(index, message, mark, count.tokens)
        for index, message, mark, count in zip(prompt.indexes, prompt.messages, prompt.marks, counts, strict=True)
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


def _remarks(strategy: str, marks: Sequence[Marks], limits: Limits, fitted: Fitted) -> list[Diagnostic]:
    out: list[Diagnostic] = [] if fitted.sent is None else [*fitted.sent.diagnostics]
    if fitted.withdrawn:
        text = f"{len(fitted.withdrawn)} added blocks left again: with them the last count was over the budget"
        out.append(Diagnostic("shift", "warning", "added-blocks-withdrawn", text))
    if strategy != "manual" and marks.count(NO_MARKS) < len(marks) and any(mark.manual_excluded for mark in marks):
        text = "exclusion marks act under the strategy manual only; they were ignored"
        out.append(Diagnostic("shift", "warning", "exclusion-ignored", text))
    if limits.learned != NOTHING:
        out.append(Diagnostic("limits", "info", "learned-from-overflow", _taught(limits)))
    if limits.warning:
        out.append(Diagnostic("limits", "warning", "context-limit-guessed", limits.warning))
    return out


def _taught(limits: Limits) -> str:
    learned = limits.learned
    parts = [] if learned.context_limit is None else [f"a context limit of {learned.context_limit} tokens"]
    if learned.factor > 1:
        parts.append(f"that it counts {float(learned.factor):g} tokens for each of ours")
    return f"an earlier overflow of this provider taught {' and '.join(parts)}"
