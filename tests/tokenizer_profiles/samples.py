"""What several tests count: texts with awkward edges, a tool and a call of it, and the way to count."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, Protocol

from tokenizer_profiles import ProfileRegistry, PromptCount, TokenizerProfile
from tokenizer_profiles.remote import RemoteProfile

Chat = list[dict[str, Any]]

WORDS = ("hello", "Grüße", "世界", "🙂", "  ", "\n\n", "\t", "if x:\n    return", "12345", "naïve", "don't")
TOOL = {
    "type": "function",
    "function": {
        "name": "find",
        "description": "Finds.",
        "parameters": {"type": "object", "properties": {"q": {"type": "string"}}},
    },
}
CALL = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": '{"q": "träume"}'}}


class Server(Protocol):
    """Something that answers what a `remote` profile asks."""

    async def ask(self, method: str, path: str, body: bytes) -> bytes: ...


def remote_profile(server: Server) -> RemoteProfile:
    """The profile of a server."""
    profile = ProfileRegistry.with_builtins().resolve("remote", "m", server.ask)
    assert isinstance(profile, RemoteProfile)
    return profile


def count(profile: TokenizerProfile, messages: Sequence[dict[str, Any]], **request: object) -> PromptCount:
    """A count, waited for."""
    return asyncio.run(profile.count_prompt(messages, request))


def numbers(counted: PromptCount) -> list[int]:
    """The tokens of the messages."""
    return [part.tokens for part in counted.messages]


def turn(role: str, text: str) -> int:
    """The tokens of a turn where each character is one, and what begins and ends it."""
    return len(role) + 1 + len(text) + 2
