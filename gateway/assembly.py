"""The prompt in the order in which it is sent: the client's messages, and what the gateway puts between them.

A memory stands directly before the current user message, so that it does not break the start that a provider has cached.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gateway.chat import ChatMessage, ChatRequest, Marks, made_message
from gateway.shifting import BlockKind


class Assembled(NamedTuple):
    """Messages in order, the marks of each, and its index among the client's own, None for one that is not theirs."""

    messages: Sequence[ChatMessage]
    marks: Sequence[Marks]
    indexes: Sequence[int | None]


def assembled(request: ChatRequest, marks: Sequence[Marks]) -> Assembled:
    """The prompt of a request whose messages have these marks."""
    messages = request.messages
    if not request.options.memory:
        return Assembled(messages, marks, range(len(messages)))
    memory = [
        made_message(
            {"role": "system", "content": entry.content},
            "memory",
            f"memory-{number}",
            Marks(kind=BlockKind.MEMORY, required=entry.required, relevance=entry.relevance),
        )
        for number, entry in enumerate(request.options.memory)
    ]
    at = _current_user_message(messages)
    indexes = [*range(at), *[None] * len(memory), *range(at, len(messages))]
    remembered = [message.marks for message in memory]
    return Assembled([*messages[:at], *memory, *messages[at:]], [*marks[:at], *remembered, *marks[at:]], indexes)


def _current_user_message(messages: Sequence[ChatMessage]) -> int:
    """Where the current turn begins; without a user message, behind the system messages that lead."""
    for at in range(len(messages) - 1, -1, -1):
        if messages[at].role == "user" and not messages[at].links.only_results:
            return at
    return next((at for at, message in enumerate(messages) if message.role not in ("system", "developer")), len(messages))
