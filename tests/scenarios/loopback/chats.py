"""Chats whose tokens can be told by counting words: every word here is one token of o200k_base."""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import Any

PER_MESSAGE = 4  # with its role
REPLY_PRIMER = 3


def message(role: str, tokens: int, letter: str = "a", **fields: Any) -> dict[str, Any]:
    """A message whose content has exactly so many tokens."""
    return {"role": role, "content": " ".join([letter] * tokens), **fields}


def tokens_of(messages: Sequence[dict[str, Any]]) -> int:
    """The tokens of a prompt of such messages."""
    return REPLY_PRIMER + sum(PER_MESSAGE + len(item["content"].split()) for item in messages)


def conversation(turns: int, tokens: int = 16) -> list[dict[str, Any]]:
    """A system message and user messages with answers between them, the last one unanswered; no two say the same."""
    roles = ["user", "assistant"] * turns
    spoken = zip(roles[: 2 * turns - 1], string.ascii_letters, strict=False)
    return [message("system", 5, "z"), *(message(role, tokens, letter) for role, letter in spoken)]


def without_oldest(messages: Sequence[dict[str, Any]], budget: int) -> list[dict[str, Any]]:
    """What must be left: the first message stays, then the oldest leave until it fits."""
    first, *rest = messages
    while tokens_of([first, *rest]) > budget:
        rest = rest[1:]
    return [first, *rest]
