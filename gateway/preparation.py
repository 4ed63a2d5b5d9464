"""The seven steps of the product: which model, how many tokens, how much room, what must stay, what leaves, recount, report.

Shared by generation and preview, which is why they agree. Reaches the outside only through the ports it is given; no store, no
provider and no web framework below this line of sight.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from gateway.audit import AuditBlock
from gateway.chat import NO_MARKS, ChatMessage, ChatRequest, Diagnostic, Marks, marked
from gateway.errors import InvalidRequest
from gateway.model_catalog import Limits, ModelConfig
from gateway.prepared import PreparedPrompt
from gateway.shifting import (
    ContextBudget,
    ContextStrategyRegistry,
    PromptBlock,
    Reason,
    ShiftOptions,
    ShiftResult,
    UnknownStrategy,
)
from gateway.shifting.blocks import kind_of_role
from gateway.shifting.reasons import inclusion_reasons
from tokenizer_profiles.base import PromptCount, TokenCount

# What the row of a message in the audit follows from: block, count, order, tokens, whether and why it stays, its group's oldest.
_Standing = tuple[PromptBlock, TokenCount, int, int | None, bool, Reason, int | None]
_Shift = Callable[[Sequence[PromptBlock], PromptCount, int, float], ShiftResult[PromptBlock]]


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


class LimitsPort(Protocol):
    """Finds the limits of a model."""

    async def limits(self, config: ModelConfig, upstream_model: str) -> Limits:
        """From the file, else from the upstream, else from the catalogue, else a careful guess."""


@dataclass(frozen=True, slots=True)
class _Fitted:
    """The outcome of shifting: blocks that stay with their final counts, and why the others left."""

    kept: Sequence[PromptBlock]
    positions: Sequence[int]
    reasons: dict[str, Reason]
    prompt: PromptCount
    tokens: int


class PromptPreparer:
    """Turns chat requests into prompts that are ready to send."""

    def __init__(
        self,
        resolve: Callable[[str], ModelConfig],
        strategies: ContextStrategyRegistry,
        counting: CountingPort,
        limits: LimitsPort,
        default_report: str,
    ) -> None:
        self._resolve = resolve
        self._strategies = strategies
        self._counting = counting
        self._limits = limits
        self._default_report = default_report

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
        shift = self._shift(strategy)
        limits = await self._limits.limits(config, upstream_model)
        counted = await self._counting.count(config, upstream_model, request, request.messages)
        budget, output_limit = _budget(request, config, limits, exact=not counted.estimated)
        marks, diagnostics = marked(request)
        blocks = _blocks(request, marks, counted.prompt)

        async def count(positions: Sequence[int]) -> PromptCount:
            chosen = [request.messages[i] for i in positions]
            return (await self._counting.count(config, upstream_model, request, chosen)).prompt

        fitted = await _fit(blocks, counted, shift, budget.prompt_limit, config.cut_step, count)
        audited = _audit_blocks(request, blocks, counted.prompt, fitted)
        return PreparedPrompt(
            request=request,
            provider=config.provider,
            model=request.model,
            upstream_model=upstream_model,
            strategy=strategy,
            tokenizer=counted.profile,
            approximate=counted.prompt.approximate,
            budget=budget,
            prompt_tokens=fitted.tokens,
            prompt_tokens_before=counted.prompt.total,
            blocks=audited,
            excluded=[block for block in audited if not block.included] if len(fitted.kept) < len(blocks) else (),
            kept=fitted.positions,
            report=request.options.report or self._default_report,
            output_limit=output_limit,
            diagnostics=(*request.diagnostics, *diagnostics, *_remarks(strategy, marks, limits)),
        )

    def _shift(self, name: str) -> _Shift:
        try:
            strategy = self._strategies.get(name)
        except UnknownStrategy as error:
            known = ", ".join(error.names())
            raise InvalidRequest(f"There is no such context strategy; known are {known}.", param="contextStrategy") from error

        def shift(blocks: Sequence[PromptBlock], prompt: PromptCount, limit: int, cut_step: float) -> ShiftResult[PromptBlock]:
            fixed = prompt.tools.tokens + prompt.response_format.tokens + prompt.template.tokens

            def count(items: Sequence[PromptBlock]) -> int:
                return fixed + sum([block.tokens or 0 for block in items])

            found: ShiftResult[PromptBlock] = strategy.shift(blocks, count, limit, options=ShiftOptions(cut_step))
            return found

        return shift


async def _fit(
    blocks: Sequence[PromptBlock],
    counted: Counted,
    shift: _Shift,
    limit: int,
    cut_step: float,
    count: Callable[[Sequence[int]], Awaitable[PromptCount]],
) -> _Fitted:
    """Shifts; where parts don't add up to the whole, what is left is counted anew, and more leaves until it fits."""
    result = shift(blocks, counted.prompt, limit, cut_step)
    if len(result.kept) == len(blocks):
        return _Fitted(result.kept, range(len(blocks)), {}, counted.prompt, result.prompt_tokens)
    position = {block.id: i for i, block in enumerate(blocks)}
    reasons, prompt, kept, tokens = dict(result.reasons), counted.prompt, result.kept, result.prompt_tokens
    settled = counted.additive
    while not settled:
        prompt = await count([position[block.id] for block in kept])
        kept = [replace(block, tokens=part.tokens) for block, part in zip(kept, prompt.messages, strict=True)]
        tokens = prompt.total
        result = shift(kept, prompt, limit, 0.0)
        settled = len(result.kept) == len(kept)
        reasons |= result.reasons
        kept = result.kept
    return _Fitted(kept, [position[block.id] for block in kept], reasons, prompt, tokens)


def _budget(request: ChatRequest, config: ModelConfig, limits: Limits, *, exact: bool) -> tuple[ContextBudget, int | None]:
    """The budget, and the number that replaces too large a reply limit of the request."""
    context_limit = min(limits.context_limit, request.options.context_limit or limits.context_limit)
    reserve = request.reply_limit or request.options.reply_reserve or config.reserve_within(context_limit)
    if limits.max_output is not None:
        reserve = min(reserve, limits.max_output)
    output_limit = reserve if request.reply_limit is not None and reserve < request.reply_limit else None
    return ContextBudget.of(context_limit, reserve, safety_margin=config.safety_margin, exact=exact), output_limit


def _blocks(request: ChatRequest, marks: Sequence[Marks], prompt: PromptCount) -> list[PromptBlock]:
    return [
        known
        if (known := message.block) is not None
        and message.position == position
        and known.tokens == count.tokens
        and mark is message.marks
        else _block(position, message, mark, count.tokens)
        for position, (message, mark, count) in enumerate(zip(request.messages, marks, prompt.messages, strict=True))
    ]


def _block(position: int, message: ChatMessage, marks: Marks, tokens: int) -> PromptBlock:
    made = PromptBlock(
        id=f"m{position}",
        role=message.role,
        content=message.text,
        kind=marks.kind or kind_of_role(message.role),
        pinned=marks.pinned is True,
        required=marks.required is True,
        relevance=marks.relevance,
        tokens=tokens,
        message=message.message,
        links=message.links,
        manual_excluded=marks.manual_excluded is True,
    )
    if marks is message.marks:
        message.block, message.position = made, position
    return made


def _audit_blocks(request: ChatRequest, blocks: Sequence[PromptBlock], before: PromptCount, fitted: _Fitted) -> list[AuditBlock]:
    """Every block in real order: tools, response-format, template, then the messages, kept or not."""
    out: list[AuditBlock] = []
    for kind, count in (("tools", fitted.prompt.tools), ("response-format", fitted.prompt.response_format)):
        if count.tokens:
            out.append(_request_block(len(out), kind, count.tokens, count.approximate))
    template = fitted.prompt.template
    out.append(_request_block(len(out), "template", template.tokens, template.approximate))
    reasons, oldest = inclusion_reasons(blocks)
    kept = None if len(fitted.kept) == len(blocks) else dict(zip(fitted.positions, fitted.kept, strict=True))
    start = len(out)
    for i, (block, message, count, reason) in enumerate(zip(blocks, request.messages, before.messages, reasons, strict=True)):
        stays = block if kept is None else kept.get(i)
        if stays is None:
            reason = fitted.reasons.get(block.id, Reason.CONTEXT_SHIFT)
        standing = (block, count, start + i, (stays or block).tokens, stays is not None, reason, oldest.get(i))
        known = message.row
        out.append(known[1] if known is not None and known[0] == standing else _audit_block(i, message, standing))
    return out


def _audit_block(position: int, message: ChatMessage, standing: _Standing) -> AuditBlock:
    """The row of a message, remembered for the next turn, in which most are the same."""
    block, count, order, tokens, included, reason, oldest = standing
    group = None if oldest is None else f"g{oldest}"
    named = (order, message.id or block.id, block.role, block.kind, block.source, _name(message))
    made = AuditBlock(*named, tokens or 0, count.approximate, included, reason, group, None, position)
    message.row = (standing, made)
    return made


def _request_block(order: int, kind: str, tokens: int, approximate: bool) -> AuditBlock:
    source = "template" if kind == "template" else "request"
    return AuditBlock(
        order, kind, "system", kind, source, None, tokens, approximate, True, Reason.PROTECTED_REQUEST.value, content=""
    )


def _name(message: ChatMessage) -> str | None:
    found = message.message.get("name")
    return found if isinstance(found, str) else None


def _remarks(strategy: str, marks: Sequence[Marks], limits: Limits) -> list[Diagnostic]:
    out = []
    if strategy != "manual" and marks.count(NO_MARKS) < len(marks) and any(mark.manual_excluded for mark in marks):
        text = "exclusion marks act under the strategy manual only; they were ignored"
        out.append(Diagnostic("shift", "warning", "exclusion-ignored", text))
    if limits.warning:
        out.append(Diagnostic("limits", "warning", "context-limit-guessed", limits.warning))
    return out
