"""A plug-in to copy from: a strategy that keeps the first exchange, and an interceptor that removes old reasoning.

It imports `gateway.plugins.base` and nothing else of the gateway, which puts right and tells what it gets wrong.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from gateway.plugins.base import Cleanup, InterceptionContext, PluginHost, PromptBlock, ShiftResult, TokenCounter

OPENING = 2  # unprotected blocks at the start that stay as long as possible
_REASONING = re.compile(r"<think>.*?</think>\s*", re.DOTALL)


class KeepOpening:
    """Protected blocks and the opening stay, then as many of the newest as fit."""

    def shift(self, blocks: Sequence[PromptBlock], count_tokens: TokenCounter, budget: int) -> ShiftResult[PromptBlock]:
        """Leaves out the middle."""
        free = [block for block in blocks if not block.protected]
        opening, middle = free[:OPENING], free[OPENING:]
        while True:
            gone = {block.id for block in free} - {block.id for block in (*opening, *middle)}
            kept = [block for block in blocks if block.id not in gone]
            if count_tokens(kept) <= budget or not middle:
                return ShiftResult(kept, [block for block in blocks if block.id in gone])
            middle = middle[1:]


def without_reasoning(blocks: Sequence[PromptBlock], request: InterceptionContext) -> list[PromptBlock]:
    """Cuts what earlier answers thought aloud between <think> and </think>; an answer of nothing else stays."""
    return [_said(block) if block.role == "assistant" and not block.protected else block for block in blocks]


def _said(block: PromptBlock) -> PromptBlock:
    text = _REASONING.sub("", block.content)
    return block.with_content(text) if text and text != block.content else block


def register(host: PluginHost) -> Cleanup:
    """What the gateway calls at its start and at every reload."""
    undo_strategy = host.strategies.register("keep-opening", KeepOpening())
    undo_hook = host.interceptors.register("without-reasoning", without_reasoning, priority=50, timeout_s=0.5)

    def cleanup() -> None:
        undo_strategy()
        undo_hook()

    return cleanup
