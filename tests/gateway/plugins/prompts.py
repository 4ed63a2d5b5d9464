"""Blocks for the tests of plug-ins."""

from __future__ import annotations

from typing import Any

from gateway.plugins.base import InterceptionContext
from gateway.shifting import PromptBlock
from gateway.shifting.blocks import block_of
from tests.gateway.shifting.conversations import words


def counted(blocks: Any) -> int:
    """Words, two a message and three for the prompt."""
    return words([block.message for block in blocks])


def blocks_of(messages: list[dict[str, Any]]) -> list[PromptBlock]:
    """The blocks of messages."""
    return [block_of(message, i) for i, message in enumerate(messages)]


def chat() -> list[PromptBlock]:
    """A system message, an exchange, and the current input."""
    said = [("system", "rules"), ("user", "q1"), ("assistant", "a1"), ("user", "now")]
    return blocks_of([{"role": role, "content": text} for role, text in said])


CONTEXT = InterceptionContext("m", "m", "truncate", 100, 20, 80, counted)
