"""Gives lorebook and memory blocks the relevance that nobody gave them. Knows no scorer in particular."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gateway.chat import Diagnostic
from gateway.relevance.base import RelevanceScorer
from gateway.shifting import BlockKind, PromptBlock
from gateway.shifting.shift import current_turn
from gateway.shifting.strategies.vector_recall import recalled_positions

INPUT_CHARACTERS = 2000
SAID_CHARACTERS = 1000
SAID_MESSAGES = 3


async def with_relevance(
    blocks: Sequence[PromptBlock], scorer: RelevanceScorer
) -> tuple[list[PromptBlock], tuple[Diagnostic, ...]]:
    """The blocks, those that may be recalled with a relevance each, and what the scorer remarked.

    A relevance that is there stays, and so does every other block, as the same object. The scorer is not asked for nothing.
    """
    out = list(blocks)
    missing = [i for i in recalled_positions(blocks) if blocks[i].relevance is None]
    if not missing:
        return out, ()
    found = await scorer.scores(recall_query(blocks), [blocks[i].content for i in missing])
    for i, value in zip(missing, found.values, strict=True):
        out[i] = replace(blocks[i], relevance=value)
    return out, found.remarks


def recall_query(blocks: Sequence[PromptBlock]) -> str:
    """What is being talked about: the current user input after the end of what was last said; at most 3,001 characters."""
    turn = current_turn(blocks)
    asked = blocks[turn].content if turn < len(blocks) else ""
    said = [block.content for i, block in enumerate(blocks) if i != turn and block.kind is BlockKind.HISTORY and block.content]
    before = "\n".join(said[-SAID_MESSAGES:])[-SAID_CHARACTERS:]
    return "\n".join(filter(None, (before, asked[-INPUT_CHARACTERS:])))
