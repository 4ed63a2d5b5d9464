"""Counts at servers that tell the tokens of a whole prompt: one request for each new prompt, its total shared by an estimate.

Knows no server's format: each is a `PromptFormat`, made by one file beside this one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tokenizer_profiles.attribution import shared
from tokenizer_profiles.base import OFF_LOOP_CHARACTERS, AdditiveProfile, Message, PromptCount, Request, TokenCount
from tokenizer_profiles.errors import RemoteUnavailable
from tokenizer_profiles.json_text import text_weight
from tokenizer_profiles.kinds import Ask
from tokenizer_profiles.remote_base import CountingServer, answer_of, encoded
from tokenizer_profiles.text_memo import TextMemo, memo_key

_MEMORY_BYTES = 1024 * 1024  # some 8,000 prompts, each by its digest
_PROBE = ({"role": "user", "content": "a"},)


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt in a server's format; `rest` (as messages) is what it has no place for, and is estimated on top.

    `exact` is False where the format says nearly, but not quite, what the chat endpoint would read.
    """

    path: str
    body: Mapping[str, Any]
    rest: Sequence[Message] = ()
    exact: bool = True


@dataclass(frozen=True, slots=True)
class PromptFormat:
    """How one kind of server is asked: `question` takes the model's name, the messages and the request's other keys.

    `tokens_key` is the key of the number in the answer. `exact` is False where the provider calls its number an estimate.
    """

    question: Callable[[str, Sequence[Message], Request], Question]
    tokens_key: str
    exact: bool = True


class WholeCounting(CountingServer):
    """The counts of one server and model. `estimator` weighs the parts and counts what the format has no place for."""

    def __init__(self, ask: Ask, form: PromptFormat, model: str, estimator: AdditiveProfile) -> None:
        self._ask = ask
        self._format = form
        self._model = model
        self._estimator = estimator
        self._totals = TextMemo(_MEMORY_BYTES)

    async def probe(self) -> None:
        """See `CountingServer`. Forgets every total: another server may have come to this address."""
        self._totals.clear()
        question = self._format.question(self._model, _PROBE, {})
        await self._asked(question.path, encoded(question.body))

    async def count(self, messages: Sequence[Message], request: Request) -> PromptCount:
        """See `CountingServer`. The parts of the total are in proportion to the estimate's and marked approximate."""
        estimate = await self._estimator.count_prompt(messages, request)
        if text_weight((*messages, request), OFF_LOOP_CHARACTERS) < OFF_LOOP_CHARACTERS:
            question, body, rest = self._prepared(messages, request)
        else:
            question, body, rest = await asyncio.to_thread(self._prepared, messages, request)
        total = await self._total(question.path, body) + rest
        return apportioned(total, estimate, exact=self._format.exact and question.exact and not question.rest)

    def _prepared(self, messages: Sequence[Message], request: Request) -> tuple[Question, str, int]:
        """The question, its body as text, and the estimated tokens of the rest."""
        question = self._format.question(self._model, messages, request)
        rest = sum(self._estimator.count_message(message).tokens for message in question.rest)
        return question, encoded(question.body), rest

    async def _total(self, path: str, body: str) -> int:
        key = memo_key(body)
        total = self._totals.get(key)
        if total is None:
            total = await self._asked(path, body)
            self._totals.put(key, total)
        return total

    async def _asked(self, path: str, body: str) -> int:
        tokens = (await answer_of(self._ask, "POST", path, body)).get(self._format.tokens_key)
        if type(tokens) is not int or tokens < 1:
            raise RemoteUnavailable(f"POST {path} answered without a number of tokens")
        return tokens


def apportioned(total: int, estimate: PromptCount, *, exact: bool) -> PromptCount:
    """A total shared in proportion to an estimate's parts, which are marked approximate; `template` only without `exact`."""
    parts = (*estimate.messages, estimate.tools, estimate.response_format, estimate.template)
    *counts, template = shared(total, [part.tokens for part in parts])
    *messages, tools, response_format = [TokenCount(count, approximate=count > 0) for count in counts]
    return PromptCount(tuple(messages), tools, response_format, TokenCount(template, approximate=not exact), exact_total=exact)
