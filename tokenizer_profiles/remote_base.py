"""The contract of a server that counts, and one JSON call to it over a given `ask`. Knows no server and no chat.

Every failure, of the way, of the answer or of the request's own shape, is a RemoteUnavailable.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizer_profiles.base import Message, PromptCount, Request
from tokenizer_profiles.errors import RemoteUnavailable
from tokenizer_profiles.kinds import Ask


class CountingServer(ABC):
    """One way to count at a server."""

    @abstractmethod
    async def probe(self) -> None:
        """Asks something small that only this kind of server answers. Raises RemoteUnavailable."""

    @abstractmethod
    async def count(self, messages: Sequence[Message], request: Request) -> PromptCount:
        """See `TokenizerProfile.count_prompt`; after a good `probe`. Raises RemoteUnavailable.

        `template.approximate` says whether the total is an estimate; parts may be estimated within an exact total.
        """


def encoded(body: Mapping[str, Any]) -> str:
    """A body as JSON text, non-ASCII kept. Raises RemoteUnavailable for what JSON cannot hold."""
    try:
        return json.dumps(body, ensure_ascii=False, default=dict)
    except (TypeError, ValueError, RecursionError) as error:
        raise RemoteUnavailable(f"the chat cannot be sent: {type(error).__name__}") from error


async def answer_of(ask: Ask, method: str, path: str, body: str = "") -> Mapping[str, Any]:
    """The object that a server answers with."""
    try:
        answer = json.loads(await ask(method, path, body.encode("utf-8", "surrogatepass")))
    except Exception as error:  # `ask` is the caller's: whatever it raises, the server has not answered
        raise RemoteUnavailable(f"{method} {path} failed: {type(error).__name__}") from error
    if not isinstance(answer, dict):
        raise RemoteUnavailable(f"{method} {path} answered something else than an object")
    return answer
