"""A prompt some of whose messages were shortened in the middle: which, to how much, and how to tell of it afterwards.

Long is a message of more than a quarter of the budget. Protected ones stay as they are, but for the results of the newest tool
group, which are shortened once nothing else can go.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import islice

from gateway.shifting.blocks import PromptBlock
from gateway.shifting.counting import TokenCounter
from gateway.shifting.result import Reason, ShiftResult
from gateway.shifting.shift import protection
from gateway.shifting.shortening import LEAST_ROOM, shortened, water_level

_LONG = 4  # a quarter of the budget is long, and so no more than this many long ones have room beside each other
_RESULT_ROLES = ("tool", "function")


@dataclass(frozen=True, slots=True)
class CompressedPrompt:
    """Blocks as they may be sent, the last whole count of them, and what the shortened ones were made of, by identity."""

    blocks: Sequence[PromptBlock]
    tokens: int
    originals: dict[int, PromptBlock] = field(default_factory=dict)

    def original(self, block: PromptBlock) -> PromptBlock:
        """The block as it was given."""
        return self.originals.get(id(block), block)

    def with_edited(self, edited: dict[int, PromptBlock], tokens: int) -> CompressedPrompt:
        """The prompt with other blocks at some positions."""
        originals = self.originals | {id(new): self.original(self.blocks[i]) for i, new in edited.items()}
        return CompressedPrompt([edited.get(i, block) for i, block in enumerate(self.blocks)], tokens, originals)

    def result(self, cut: ShiftResult[PromptBlock]) -> ShiftResult[PromptBlock]:
        """The same result, with what has left as it was given, and with what was compressed rather than dropped."""
        gone = {id(block) for block in cut.excluded}
        compressed = [
            self.original(block) if id(block) in gone else block
            for block in self.blocks
            if (cut.reasons.get(block.id) is Reason.SUMMARIZED if id(block) in gone else id(block) in self.originals)
        ]
        return replace(cut, excluded=[self.original(block) for block in cut.excluded], truncated=compressed)


def weight(block: PromptBlock, count_tokens: TokenCounter) -> int:
    """The tokens of a block: what is known, else a count of it alone."""
    return count_tokens([block]) if block.tokens is None else block.tokens


def long_ones_shortened(blocks: Sequence[PromptBlock], total: int, count_tokens: TokenCounter, budget: int) -> CompressedPrompt:
    """Long unprotected messages cut to a quarter of the budget, oldest first, until all fits; only those that could stay."""
    prompt = CompressedPrompt(blocks, total)
    room = budget // _LONG
    if room < LEAST_ROOM:
        return prompt
    unprotected = sorted([i for group in protection(blocks).removable() for i in group.indexes], reverse=True)
    long = islice((i for i in unprotected if weight(blocks[i], count_tokens) > room), _LONG)
    for i in reversed(list(long)):
        edited = shortened(blocks[i], room, count_tokens) if prompt.tokens > budget else None
        if edited is not None:
            prompt = prompt.with_edited({i: edited}, 0)
            prompt = replace(prompt, tokens=count_tokens(prompt.blocks))
    return prompt


def newest_results_shortened(
    prompt: CompressedPrompt, cut: ShiftResult[PromptBlock], count_tokens: TokenCounter, budget: int
) -> tuple[CompressedPrompt, ShiftResult[PromptBlock]]:
    """The results of the newest tool group cut to one length, so that what is left fits; all as it was where they can't be."""
    positions = _newest_results(prompt.blocks)
    weights = [weight(prompt.blocks[i], count_tokens) for i in positions]
    level = water_level(weights, sum(weights) - (cut.prompt_tokens - budget))
    edited = {
        i: new
        for i, tokens in zip(positions, weights, strict=True)
        if tokens > level and (new := shortened(prompt.blocks[i], level, count_tokens)) is not None
    }
    replaced = {id(prompt.blocks[i]): new for i, new in edited.items()}
    kept = [replaced.get(id(block), block) for block in cut.kept]
    tokens = count_tokens(kept) if edited else cut.prompt_tokens
    if tokens > budget:
        return prompt, cut
    return prompt.with_edited(edited, prompt.tokens), replace(cut, kept=kept, prompt_tokens=tokens, fits=True)


def _newest_results(blocks: Sequence[PromptBlock]) -> list[int]:
    """The positions of the results in the newest tool group of the current turn; none where somebody pinned a member."""
    plan = protection(blocks)
    start = min(plan.turn_start, len(blocks) - 1)
    groups = [group for group in plan.groups if group.calls and group.indexes[-1] >= start]
    if not groups or any(plan.own[i] for i in groups[-1].indexes):
        return []
    return [i for i in groups[-1].indexes if blocks[i].role in _RESULT_ROLES]
