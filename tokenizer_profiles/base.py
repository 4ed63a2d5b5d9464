"""The contract of a tokenizer profile: how many tokens a chat request has for one model. Knows nothing of the gateway.

Messages are OpenAI chat messages (mappings decoded from JSON); `request` is the request's other keys, of which `tools`,
`tool_choice`, `functions`, `function_call`, `parallel_tool_calls` and `response_format` cost tokens. Pass messages as they will
be sent: every key in them is counted. Nothing here raises on odd content: what is not understood is counted as text and marked
approximate. No profile ever fetches a URL that stands in a message.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

from tokenizer_profiles.json_text import text_weight

Message = Mapping[str, Any]
Request = Mapping[str, Any]

OFF_LOOP_CHARACTERS = 64 * 1024  # of text in one request; from here on it is counted in a thread


class TokenCount(NamedTuple):
    """A number of tokens, and whether it is only an estimate."""

    tokens: int
    approximate: bool = False


@dataclass(frozen=True, slots=True)
class PromptCount:
    """The tokens of a whole prompt: `messages` (in order), `tools`, `response_format` and `template` add up to `total`.

    `template` is what belongs to no message: BOS, the reply's primer, a template's default system prompt. With `exact_total` the
    prompt was counted as a whole, and parts marked approximate are only shares of it.
    """

    messages: tuple[TokenCount, ...]
    tools: TokenCount
    response_format: TokenCount
    template: TokenCount
    exact_total: bool = False

    @property
    def total(self) -> int:
        """All tokens of the prompt."""
        fixed = self.tools.tokens + self.response_format.tokens + self.template.tokens
        return fixed + sum([count.tokens for count in self.messages])

    @property
    def approximate(self) -> bool:
        """Whether the total is an estimate, which it is where any part is one, unless the whole was counted."""
        if self.exact_total:
            return False
        parts = (self.tools, self.response_format, self.template, *self.messages)
        return True in [part.approximate for part in parts]


class TokenizerProfile(ABC):
    """Counts prompts for one family of models."""

    name: str
    approximate: bool  # whether plain text is only estimated; this, not the flag of a part, calls for a safety margin

    @property
    def loaded(self) -> bool:
        """Whether the next count needs nothing from disk."""
        return True

    def load(self) -> None:  # noqa: B027  (most profiles have nothing to load)
        """Reads what the profile needs (half a second for a large vocabulary): from any thread, at any time, more than once.

        The first count does it too. Raises ProfileDataMissing.
        """

    @abstractmethod
    async def count_prompt(self, messages: Sequence[Message], request: Request) -> PromptCount:
        """The tokens of a request. Long texts are counted off the event loop."""

    async def aclose(self) -> None:  # noqa: B027  (most profiles hold nothing)
        """Gives back what the profile holds."""


class AdditiveProfile(TokenizerProfile):
    """A profile for which a message costs the same wherever it stands, so that each is counted once."""

    async def count_prompt(self, messages: Sequence[Message], request: Request) -> PromptCount:
        """See `TokenizerProfile`: one batch, in a thread when there is much new text or the profile is not loaded yet."""
        if self.loaded and self.new_weight(messages, request, OFF_LOOP_CHARACTERS) < OFF_LOOP_CHARACTERS:
            return self._count_prompt(messages, request)
        return await asyncio.to_thread(self._count_prompt, messages, request)

    def _count_prompt(self, messages: Sequence[Message], request: Request) -> PromptCount:
        counts = tuple([self.count_message(message) for message in messages])
        return replace(self.count_request(request), messages=counts)

    @abstractmethod
    def count_message(self, message: Message) -> TokenCount:
        """The tokens of one message with its own overhead. Thread-safe; releases the interpreter lock on long texts."""

    @abstractmethod
    def count_request(self, request: Request) -> PromptCount:
        """The tokens of everything but the messages (`messages` is empty)."""

    def new_weight(self, messages: Sequence[Message], request: Request, enough: int) -> int:
        """The characters of text that has yet to be counted; looks no further once there are `enough`."""
        return text_weight((*messages, request), enough)

    @abstractmethod
    def count_text(self, text: str) -> int:
        """The tokens of a plain text."""

    def __call__(self, messages: Sequence[Message]) -> int:
        """The tokens of a list of messages as a prompt of its own: the counter that `shift_context` takes."""
        count = self.count_message
        return self._empty.total + sum([count(message).tokens for message in messages])

    @cached_property
    def _empty(self) -> PromptCount:
        return self.count_request({})
