"""The `remote` profile: prompt tokens from the server that will answer. Knows no transport, no server's API and no gateway.

What the server is, is found by asking: every kind gets one small question, and the first kind of `_counting_servers` that is
answered counts from then on. When the server does not answer, or refuses the chat, the numbers are those of the `approximate`
profile and say so; the next count asks again, but an address where nothing is known is left alone for some seconds.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence

from tokenizer_profiles.base import Message, PromptCount, Request, TokenizerProfile
from tokenizer_profiles.errors import ProfileNeedsServer, RemoteUnavailable
from tokenizer_profiles.heuristic import ScriptEstimator
from tokenizer_profiles.images import ImageRule
from tokenizer_profiles.kinds import Ask, ProfileKind, ProfileRequest
from tokenizer_profiles.llama_server import LlamaServer
from tokenizer_profiles.message_counter import ChatRules, MessageCounter
from tokenizer_profiles.openai_chat import OpenAIChatProfile
from tokenizer_profiles.remote_anthropic import ANTHROPIC
from tokenizer_profiles.remote_base import CountingServer
from tokenizer_profiles.remote_gemini import GEMINI
from tokenizer_profiles.remote_llama import LlamaCounting
from tokenizer_profiles.remote_openai import OPENAI
from tokenizer_profiles.remote_vllm import VLLM
from tokenizer_profiles.remote_whole import WholeCounting

SEARCH_AGAIN_S = 5.0  # a server that only starts is found soon, one that counts nothing is not asked with every prompt

# llama.cpp and vLLM come first: they speak some of the others' APIs too, and know less there.
_FORMATS = (VLLM, OPENAI, ANTHROPIC, GEMINI)


class RemoteProfile(TokenizerProfile):
    """Counts by asking one server; `last_failure` says why the latest count is only an estimate, else None.

    `template.approximate` is set when the total is an estimate; a part may be one within an exact total.
    """

    name = "remote"
    approximate = False
    last_failure: str | None = None

    def __init__(self, servers: Sequence[CountingServer], fallback: TokenizerProfile) -> None:
        """`servers` are the kinds that it may be, the likeliest first."""
        self._servers = servers
        self._fallback = fallback
        self._known: CountingServer | None = None
        self._in_doubt = True
        self._search: asyncio.Task[CountingServer | str] | None = None
        self._searched_at = -SEARCH_AGAIN_S

    async def count_prompt(self, messages: Sequence[Message], request: Request) -> PromptCount:
        """See `TokenizerProfile`."""
        try:
            server = await self._server()
            counted = await server.count(messages, request)
        except RemoteUnavailable as failure:
            self._in_doubt = True
            self.last_failure = str(failure)
            return await self._fallback.count_prompt(messages, request)
        self.last_failure = None
        return counted

    async def _server(self) -> CountingServer:
        """The kind of server that it is. All who ask at the same time wait for one search."""
        if self._known is not None and not self._in_doubt:
            return self._known
        nothing_lately = self._known is None and time.monotonic() - self._searched_at < SEARCH_AGAIN_S
        if self._search is None or (self._search.done() and not nothing_lately):
            self._search = asyncio.create_task(self._find())
        found = await asyncio.shield(self._search)
        if isinstance(found, str):
            raise RemoteUnavailable(found)
        return found

    async def _find(self) -> CountingServer | str:
        """Looks whether the known server is still there, else what is there; or says why there is none."""
        asked = self._servers if self._known is None else [self._known]
        self._searched_at = time.monotonic() if self._known is None else -SEARCH_AGAIN_S
        failures = await asyncio.gather(*(_failure(server) for server in asked))
        self._known = next((server for server, failure in zip(asked, failures, strict=True) if not failure), None)
        self._in_doubt = self._known is None
        return self._known or "; ".join(failures)


class RemoteKind(ProfileKind):
    """Makes a profile of its own for each server and model."""

    def __init__(self, image_rule_for: Callable[[str], ImageRule]) -> None:
        self._image_rule_for = image_rule_for

    def make(self, request: ProfileRequest) -> RemoteProfile:
        """See `ProfileKind`. Raises ProfileNeedsServer."""
        if request.ask is None:
            raise ProfileNeedsServer(
                "the profile remote counts by asking a server: give the `ask` of one that is llama.cpp or vLLM, or that speaks"
                " OpenAI's, Anthropic's or Gemini's API"
            )
        return _profile(request.ask, request.model, self._image_rule_for(request.model))


def _profile(ask: Ask, model: str, image_rule: ImageRule) -> RemoteProfile:
    estimator = ScriptEstimator()
    fallback = OpenAIChatProfile("approximate", estimator, ChatRules(), image_rule)
    llama = LlamaCounting(LlamaServer(ask), MessageCounter(estimator.count, ChatRules(), image_rule))
    return RemoteProfile([llama, *(WholeCounting(ask, form, model, fallback) for form in _FORMATS)], fallback)


async def _failure(server: CountingServer) -> str:
    try:
        await server.probe()
    except RemoteUnavailable as failure:
        return str(failure)
    return ""
