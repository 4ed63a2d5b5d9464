"""Counts at a llama.cpp server: its own template renders the chat, its own tokenizer counts the new texts of the render.

Knows llama.cpp's endpoints by `LlamaServer` alone, and no transport.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tokenizer_profiles.attribution import Marks, marked_message, shared, spans
from tokenizer_profiles.base import Message, PromptCount, Request, TokenCount
from tokenizer_profiles.errors import RemoteUnavailable
from tokenizer_profiles.json_text import compact_json, text_weight
from tokenizer_profiles.llama_server import LlamaServer
from tokenizer_profiles.message_counter import MessageCounter
from tokenizer_profiles.remote_base import CountingServer
from tokenizer_profiles.segments import Measure, SegmentCounter, Vocabulary, learn
from tokenizer_profiles.text_memo import TextMemo

_TOOL_KEYS = ("tools", "tool_choice", "functions", "function_call", "parallel_tool_calls")
_LEARNED_FROM = ("chat_template", "bos_token", "eos_token", "model_path")
_EMPTY_WEIGHT = 16  # characters that a message without text is taken for when a span is shared
_MOST_WEIGHT = 1 << 30


@dataclass(frozen=True, slots=True)
class _Learned:
    """A vocabulary, and the parts of /props it was learned from."""

    vocabulary: Vocabulary
    counter: SegmentCounter
    source: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Renders:
    """A chat as the server's template renders it: with tools, without them, and without them but with marks."""

    whole: str
    plain: str
    places: Mapping[int, int] = field(default_factory=dict)  # of the marks, by message; empty where they changed the render


class LlamaCounting(CountingServer):
    """The counts of one server. Images, sounds and files are not in its render: `estimator` adds them, as an estimate."""

    def __init__(self, server: LlamaServer, estimator: MessageCounter) -> None:
        self._server = server
        self._estimator = estimator
        self._props: Mapping[str, Any] = {}
        self._learned: _Learned | None = None
        self._learning = asyncio.Lock()

    async def probe(self) -> None:
        """See `CountingServer`: reads /props, which tells when another server has come to this address."""
        props = await self._server.props()
        if not isinstance(props.get("chat_template"), str):
            raise RemoteUnavailable("/props answered without a chat template")
        self._props = props

    async def count(self, messages: Sequence[Message], request: Request) -> PromptCount:
        """See `CountingServer`."""
        learned = await self._known_server()
        renders = await self._rendered(messages, request)
        whole, plain = await learned.counter.measure(renders.whole, renders.plain)
        counts = _attributed(messages, renders, plain, learned.vocabulary)
        tools = max(0, whole.total - plain.total)
        template = whole.total - tools - sum(count.tokens for count in counts) + learned.vocabulary.added
        with_media = tuple(self._with_media(*pair) for pair in zip(messages, counts, strict=True))
        exact = with_media == tuple(counts)
        return PromptCount(with_media, TokenCount(tools), TokenCount(0), TokenCount(template), exact_total=exact)

    async def _known_server(self) -> _Learned:
        """What is known of the server; learned again when it has come back as another one."""
        async with self._learning:
            source = tuple(self._props.get(key) for key in _LEARNED_FROM)
            if self._learned is None or self._learned.source != source:
                vocabulary = await learn(self._server, self._props)
                self._learned = _Learned(vocabulary, SegmentCounter(self._server, vocabulary, TextMemo()), source)
            return self._learned

    async def _rendered(self, messages: Sequence[Message], request: Request) -> _Renders:
        toolless = {key: value for key, value in request.items() if not (key in _TOOL_KEYS and value)}
        plain, marked, whole = await asyncio.gather(
            self._server.render({**toolless, "messages": list(messages)}),
            self._marked(messages, toolless),
            self._server.render({**request, "messages": list(messages)}) if len(toolless) < len(request) else _nothing(),
        )
        places = None if marked is None else marked[0].places(marked[1], plain)
        return _Renders(plain if whole is None else whole, plain, places or {})

    async def _marked(self, messages: Sequence[Message], request: Request) -> tuple[Marks, str] | None:
        """The marks and the render that holds them; None when there are none left or the template refuses them."""
        marks = Marks.avoiding(compact_json(list(messages)), len(messages))
        if marks is None:
            return None
        marked = [marked_message(message, mark) for message, mark in zip(messages, marks.texts, strict=True)]
        try:
            return marks, await self._server.render({**request, "messages": marked})
        except RemoteUnavailable:
            return None

    def _with_media(self, message: Message, count: TokenCount) -> TokenCount:
        media = self._estimator.media(message)
        return count if media is None else TokenCount(count.tokens + media, approximate=True)


async def _nothing() -> None:
    return None


def _attributed(messages: Sequence[Message], renders: _Renders, plain: Measure, vocabulary: Vocabulary) -> list[TokenCount]:
    """The tokens of each message within the plain render; exact for those whose mark and special token were found."""
    end = len(renders.plain) - (len(vocabulary.primer) if renders.plain.endswith(vocabulary.primer) else 0)
    special = vocabulary.special
    boundaries = [] if special is None else [match.start() for match in special.finditer(renders.plain)]
    counts: list[TokenCount] = []
    for span in spans(renders.places, boundaries, len(messages), end):
        tokens = plain.before(span.end) - plain.before(span.start)
        exact = special is not None and span.last - span.first == 1 and span.first in renders.places
        weights = [_EMPTY_WEIGHT + text_weight(message, _MOST_WEIGHT) for message in messages[span.first : span.last]]
        counts += [TokenCount(share, not exact) for share in shared(tokens, weights)]
    return counts
