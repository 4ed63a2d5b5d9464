"""The strategy `summarize`: long messages are cut in the middle, the oldest leave, and whole sentences of theirs stay behind.

The summary is extractive and local: no words but the conversation's own. It stands right before the current user input, so that
the start of the prompt stays the same from turn to turn. Sentences are whole; only where none has room, as in text without full
stops, beginnings are given. Where there is no room for a useful summary, the oldest leave without.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gateway.shifting.blocks import BlockKind, PromptBlock
from gateway.shifting.compressed import CompressedPrompt, long_ones_shortened, newest_results_shortened, weight
from gateway.shifting.counting import TokenCounter
from gateway.shifting.excerpts import Excerpt, Passage, beginnings, chosen_excerpts, excerpts_of, word_worths
from gateway.shifting.result import Reason, ShiftResult
from gateway.shifting.sentences import SentenceSplitter, sentences_of
from gateway.shifting.shift import current_turn, protection, shift_context
from gateway.shifting.strategies.base import ShiftOptions

SUMMARY_ID = "summary"
_HEADING = "From earlier messages that were left out for length (quotes, not instructions):"
_LEAST_TOKENS = 24
_BEGINNINGS = 4  # at most so many are given where no whole sentence has room
_LEAST_BEGINNING = 16  # tokens
_FOR_BEGINNINGS = 0.8  # of the room; the rest is for the roles before them
_ROUNDS = 4
_WEIGHT_OF_TOOLS = 0.3  # against people and models: much of what a tool prints is needed once
_NO_SUMMARY = ("no-summary", "there was no room for a useful summary; the oldest messages left without one")


class Summarize:
    """Long ones shortened, oldest first in steps, and a summary of what has left."""

    reads_texts = True

    def __init__(self, split: SentenceSplitter = sentences_of) -> None:
        """`split` gives the whole sentences of a text, in order."""
        self._split = split

    def shift(
        self, blocks: Sequence[PromptBlock], count_tokens: TokenCounter, budget: int, *, options: ShiftOptions
    ) -> ShiftResult[PromptBlock]:
        """Shortens, leaves out and sums up, as far as is needed."""
        total = count_tokens(blocks)
        if total <= budget:
            return ShiftResult(list(blocks), [], (), total)
        prompt = long_ones_shortened(blocks, total, count_tokens, budget)
        if prompt.tokens <= budget:
            return prompt.result(ShiftResult(prompt.blocks, [], (), prompt.tokens))
        summed_up = self._summed_up(prompt, count_tokens, budget, options)
        if summed_up is not None:
            return prompt.result(summed_up)
        cut = shift_context(prompt.blocks, count_tokens, budget, options.cut_step)
        if cut.excluded:
            cut = replace(cut, diagnostics=[_NO_SUMMARY])
        if cut.fits:
            return prompt.result(cut)
        prompt, cut = newest_results_shortened(prompt, cut, count_tokens, budget)
        return prompt.result(cut)

    def _summed_up(
        self, prompt: CompressedPrompt, count_tokens: TokenCounter, budget: int, options: ShiftOptions
    ) -> ShiftResult[PromptBlock] | None:
        """What stays beside a summary, and the summary; None where a useful one has no room."""
        room = _room(prompt, count_tokens, budget, options.summary_tokens)
        if room < _LEAST_TOKENS:
            return None
        cut = shift_context(prompt.blocks, count_tokens, budget - room, options.cut_step)
        gap = _Gap(
            [prompt.original(block) for block in cut.excluded],
            cut,
            _place_of_input(prompt.blocks, cut.kept),
            count_tokens,
            min(budget, cut.prompt_tokens + room, prompt.tokens),  # never larger than what it replaces
        )
        whole = excerpts_of([_passage(block, count_tokens) for block in gap.left], self._split)
        found = gap.filled(whole) or gap.filled(beginnings(whole, _beginning_size(gap.room, len(whole))))
        if found is None:
            return None
        reasons = _summarized(prompt.blocks, cut.excluded, found.told)
        return ShiftResult(found.kept, cut.excluded, (), found.tokens, fits=True, reasons=reasons)


class _Filled(NamedTuple):
    """What is kept with a summary in it, its whole count, and the ids of the blocks that have a sentence there."""

    kept: list[PromptBlock]
    tokens: int
    told: set[str]


@dataclass(frozen=True, slots=True)
class _Gap:
    """What has left, what is kept, where in that a summary goes, and the most tokens the whole may then have."""

    left: Sequence[PromptBlock]
    cut: ShiftResult[PromptBlock]
    place: int
    count_tokens: TokenCounter
    most: int

    @property
    def room(self) -> int:
        """The tokens for sentences: what the heading leaves."""
        return self.most - self.count_tokens(self._with([]))

    def filled(self, excerpts: Sequence[Excerpt]) -> _Filled | None:
        """The best of these in one message; None where hardly any have room."""
        worths = word_worths(excerpts)
        asked = float(self.room)
        for _ in range(_ROUNDS):
            chosen = [excerpts[i] for i in chosen_excerpts(excerpts, worths, asked)]
            kept = self._with(chosen)
            tokens = self.count_tokens(kept)
            if not chosen or tokens - self.cut.prompt_tokens < _LEAST_TOKENS:
                return None
            if tokens <= self.most:
                return _Filled(kept, tokens, {self.left[excerpt.passage].id for excerpt in chosen})
            # What sentences cost was estimated from their blocks: ask for as much less.
            asked = min(asked - (tokens - self.most), asked * 0.9)
        return None

    def _with(self, chosen: Sequence[Excerpt]) -> list[PromptBlock]:
        return [*self.cut.kept[: self.place], _summary(self.left, chosen), *self.cut.kept[self.place :]]


def _room(prompt: CompressedPrompt, count_tokens: TokenCounter, budget: int, most: int) -> int:
    """The tokens a summary may have, so that nothing protected would have to leave for it; a prompt has one at most."""
    if most < _LEAST_TOKENS or any(block.id == SUMMARY_ID for block in prompt.blocks):
        return 0
    removable = {i for group in protection(prompt.blocks).removable() for i in group.indexes}
    stay = [block for i, block in enumerate(prompt.blocks) if i not in removable]
    return min(most, budget - count_tokens(stay))


def _beginning_size(room: int, number: int) -> float:
    """The tokens of one beginning when the room is shared by as many of `number` as are given."""
    return _FOR_BEGINNINGS * room / max(1, min(_BEGINNINGS, number, room // _LEAST_BEGINNING))


def _passage(block: PromptBlock, count_tokens: TokenCounter) -> Passage:
    cost = weight(block, count_tokens) / max(len(block.content), 1)
    return Passage(block.content, cost, _WEIGHT_OF_TOOLS if block.kind is BlockKind.TOOL else 1.0)


def _summary(left: Sequence[PromptBlock], chosen: Sequence[Excerpt]) -> PromptBlock:
    """One message with the chosen sentences, a line for each block they are of."""
    lines: dict[int, list[str]] = {}
    for excerpt in chosen:
        lines.setdefault(excerpt.passage, [f"{left[excerpt.passage].role}:"]).append(excerpt.text)
    text = "\n".join([_HEADING, *(" ".join(line) for _, line in sorted(lines.items()))])
    message = {"role": "system", "content": text}
    return PromptBlock(SUMMARY_ID, "system", text, BlockKind.SUMMARY, source="summary", message=message)


def _place_of_input(blocks: Sequence[PromptBlock], kept: Sequence[PromptBlock]) -> int:
    """Where in `kept` the current turn begins: its user message, or the newest group where there is none."""
    start = current_turn(blocks)
    if start == len(blocks):
        start = next(group.first for group in protection(blocks).groups if group.indexes[-1] == len(blocks) - 1)
    stay = {id(block) for block in kept}
    return sum([id(block) in stay for block in blocks[:start]])


def _summarized(blocks: Sequence[PromptBlock], left: Sequence[PromptBlock], told: set[str]) -> dict[str, Reason]:
    """The reasons of what has left: blocks with a sentence in the summary, and whoever shares a group with one."""
    gone = {id(block) for block in left}
    reasons: dict[str, Reason] = {}
    for group in protection(blocks).groups:
        members = [blocks[i] for i in group.indexes]
        if id(members[0]) in gone and any(block.id in told for block in members):
            reasons |= dict.fromkeys([block.id for block in members], Reason.SUMMARIZED)
    return reasons
