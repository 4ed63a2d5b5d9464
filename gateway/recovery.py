"""What follows when a provider says that a prompt is too long although it fitted by our count: learn, leave more out, once.

The provider's limit is taken, or our count scaled by theirs ÷ ours; without numbers, or where they explain nothing, three
quarters of the budget are the most. Sends nothing itself and knows no provider by name.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gateway.chat import Diagnostic
from gateway.errors import Number, ProviderContextOverflow
from gateway.learned import GUESSED_SHARE, NOTHING, Learned, guessed, learned_from
from gateway.learned_limits import LearnedLimits
from gateway.preparation import PromptPreparer
from gateway.prepared import PreparedPrompt
from gateway.providers.base import Provider


class OverflowRecovery:
    """Turns an overflow into a shorter prompt."""

    def __init__(self, preparer: PromptPreparer, learned: LearnedLimits, providers: Mapping[str, Provider]) -> None:
        self._preparer = preparer
        self._learned = learned
        self._providers = providers

    async def shifted_again(self, sent: PreparedPrompt, overflow: ProviderContextOverflow) -> PreparedPrompt:
        """The request fitted anew after what was sent of it overflowed. Raises the overflow where nothing more can leave."""
        taught = _taught(sent, overflow)
        if taught != NOTHING:
            await self._learn(sent, taught)
            shorter = await self._preparer.prepare(sent.request)
            if _is_shorter(shorter, sent):
                return _remarked(shorter, sent, overflow)
        shorter = await self._preparer.prepare(sent.request, GUESSED_SHARE)
        if not _is_shorter(shorter, sent):
            raise overflow
        await self._learn(sent, self._guessed(sent))
        return _remarked(shorter, sent, overflow)

    async def learn(self, sent: PreparedPrompt, overflow: ProviderContextOverflow) -> None:
        """Remembers what the overflow of the second try teaches; the next request starts from there."""
        taught = _taught(sent, overflow)
        await self._learn(sent, self._guessed(sent) if taught == NOTHING else taught)

    def _guessed(self, sent: PreparedPrompt) -> Learned:
        return guessed(self._learned.of(sent.provider, sent.upstream_model, self._account(sent)))

    async def _learn(self, sent: PreparedPrompt, taught: Learned) -> None:
        await self._learned.learn(sent.provider, sent.upstream_model, self._account(sent), taught)

    def _account(self, sent: PreparedPrompt) -> str:
        return self._providers[sent.provider].account(sent.request.authorization)


def _taught(sent: PreparedPrompt, overflow: ProviderContextOverflow) -> Learned:
    limit, count = (_tokens(overflow.metadata.get(name)) for name in ("providerLimit", "providerPromptTokens"))
    return learned_from(sent=sent.prompt_tokens, context_limit=sent.budget.context_limit, their_limit=limit, their_count=count)


def _tokens(number: Number) -> int | None:
    return number if isinstance(number, int) else None


def _is_shorter(prepared: PreparedPrompt, sent: PreparedPrompt) -> bool:
    """Whether it is worth sending: a shorter prompt, or one for another model."""
    another = (prepared.provider, prepared.upstream_model) != (sent.provider, sent.upstream_model)
    return prepared.fits and (another or prepared.prompt_tokens < sent.prompt_tokens)


def _remarked(shorter: PreparedPrompt, sent: PreparedPrompt, overflow: ProviderContextOverflow) -> PreparedPrompt:
    named = [
        f"{what} {number}"
        for what, name in (("its limit", "providerLimit"), ("its count", "providerPromptTokens"))
        if (number := overflow.metadata.get(name)) is not None
    ]
    told = f" ({', '.join(named)})" if named else ", without numbers"
    text = f"the provider refused the first prompt of {sent.prompt_tokens} tokens as too long{told}; more was left out"
    remark = Diagnostic("overflow", "warning", "overflow-retry", text)
    return replace(shorter, diagnostics=(*shorter.diagnostics, remark))
