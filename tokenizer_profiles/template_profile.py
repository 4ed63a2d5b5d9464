"""The profile of a model that brings its own tokenizer and chat template: exact prompt tokens, counted here.

A chat is rendered as the model's server renders it, and only texts that were not seen before are tokenised. A chat that the
template refuses is counted by OpenAI's rules with the same tokenizer, and says so. Knows no source of tokenizers, no gateway.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from threading import Lock

from tokenizer_profiles.attribution import Marks, are_turns, marked_message, shared, spans, turn_openers
from tokenizer_profiles.base import OFF_LOOP_CHARACTERS, Message, PromptCount, Request, TokenCount, TokenizerProfile
from tokenizer_profiles.chat_template import Chat, ChatTemplate, TemplateRefused
from tokenizer_profiles.images import ImageRule
from tokenizer_profiles.json_text import text_weight
from tokenizer_profiles.llama_template import LlamaTemplate
from tokenizer_profiles.local_segments import LocalSegments
from tokenizer_profiles.message_counter import ChatRules, MessageCounter
from tokenizer_profiles.openai_chat import OpenAIChatProfile, TextTokenizer
from tokenizer_profiles.segments import Measure
from tokenizer_profiles.text_memo import TextMemo
from tokenizer_profiles.tokenizer_data import Dialect, ReadTokenizer, TokenizerData

_SMALL = OFF_LOOP_CHARACTERS // 8  # characters of a request that are rendered and tokenised on the event loop: about 5 ms
_EMPTY_WEIGHT = 16  # characters that a message without text is taken for when a span is shared
_MOST_WEIGHT = 1 << 30
_SURROGATES = re.compile("[\ud800-\udfff]")
_TEMPLATES: Mapping[Dialect, type[ChatTemplate]] = {"transformers": ChatTemplate, "llama.cpp": LlamaTemplate}
_PROBE_TEXTS = re.compile("probe[1-3]")
_PROBE: Chat = [
    {"role": "user", "content": "probe1"},
    {"role": "assistant", "content": "probe2"},
    {"role": "user", "content": "probe3"},
]


class TemplateProfile(TokenizerProfile):
    """Counts by rendering and tokenising; `last_failure` says why the latest count is only an estimate, else None."""

    approximate = False
    last_failure: str | None = None

    def __init__(self, name: str, read: ReadTokenizer, image_rule: ImageRule) -> None:
        """`read` gives the tokenizer and the template; it is called by `load` or by the first count."""
        self.name = name
        self._read = read
        self._image_rule = image_rule
        self._counter: _Counter | None = None
        self._lock = Lock()

    @property
    def loaded(self) -> bool:
        """See `TokenizerProfile`."""
        return self._counter is not None

    def load(self) -> None:
        """See `TokenizerProfile`. Raises ProfileDataMissing."""
        self._ready()

    async def count_prompt(self, messages: Sequence[Message], request: Request) -> PromptCount:
        """See `TokenizerProfile`. `template.approximate` is set when the template refused the chat."""
        if self._counter is not None and text_weight((*messages, request), _SMALL) < _SMALL:
            return self._count_prompt(messages, request)
        return await asyncio.to_thread(self._count_prompt, messages, request)

    def _count_prompt(self, messages: Sequence[Message], request: Request) -> PromptCount:
        counter = self._counter or self._ready()
        try:
            counted = counter.count_prompt(messages, request)
        except TemplateRefused as refused:
            self.last_failure = str(refused)
            return counter.by_rules(messages, request)
        self.last_failure = None
        return counted

    def _ready(self) -> _Counter:
        with self._lock:
            if self._counter is None:
                self._counter = _Counter(self.name, self._read(), self._image_rule)
            return self._counter


class _Texts(TextTokenizer):
    """The model's tokenizer for chats whose template is not known: the texts are exact, what is around them is not."""

    approximate = True


class _Counter:
    """What a loaded profile counts with."""

    def __init__(self, name: str, data: TokenizerData, image_rule: ImageRule) -> None:
        data.tokenizer.no_padding()
        data.tokenizer.no_truncation()
        self._template = _TEMPLATES[data.dialect](data.chat_template, data.variables)
        self._bos = data.variables.get("bos_token", "")
        self._bos_tokens = data.bos_tokens
        seen = "\n".join((data.chat_template, self._bos, self._template.tried(_PROBE)))
        self._segments = LocalSegments(data.tokenizer, seen, TextMemo())
        self._openers = self._learned_openers()
        self._rules = OpenAIChatProfile(name, _Texts(self._count_text), ChatRules(), image_rule)
        self._media = MessageCounter(self._count_text, ChatRules(), image_rule).media

    def by_rules(self, messages: Sequence[Message], request: Request) -> PromptCount:
        """An estimate by OpenAI's rules."""
        return replace(self._rules.count_request(request), messages=tuple(map(self._rules.count_message, messages)))

    def count_prompt(self, messages: Sequence[Message], request: Request) -> PromptCount:
        """The tokens of the rendered chat. Raises TemplateRefused."""
        found = self._template.render(messages, request, tools=False)
        text = _sendable(found)
        with_tools = _sendable(self._template.render(messages, request)) if request.get("tools") else text
        plain, *others = self._segments.measure(*dict.fromkeys((text, with_tools)))
        whole = others[0] if others else plain
        total = whole.total + (0 if self._bos and with_tools.startswith(self._bos) else self._bos_tokens)
        counts = self._attributed(messages, request, found, plain)
        tools = max(0, whole.total - plain.total)
        template = total - tools - sum([count.tokens for count in counts])
        guess = text != found or self._template.guesses(messages)  # lone surrogates can be sent to no server
        finished = [self._with_media(*pair) for pair in zip(messages, counts, strict=True)]
        exact = not guess and finished == counts
        return PromptCount(tuple(finished), TokenCount(tools), TokenCount(0), TokenCount(template, guess), exact_total=exact)

    def _count_text(self, text: str) -> int:
        return self._segments.count(_sendable(text))

    def _learned_openers(self) -> frozenset[str]:
        special = self._segments.special
        if special is None:
            return frozenset()
        ends = [self._template.tried(_PROBE[:count], asks_reply=False) for count in (1, 2)]
        return turn_openers(self._template.tried(_PROBE), ends, _PROBE_TEXTS, special)

    def _places(self, messages: Sequence[Message], request: Request, plain: str) -> tuple[Mapping[int, int], int]:
        """Where the marks stand, and where the text begins that asks for the reply; none where the marks changed the render.

        A template may do otherwise with a content that is not empty any more: then only visible ones are marked.
        """
        marks = Marks.avoiding(plain, len(messages))
        if marks is not None:
            for spared in (_none, _is_blank):
                marked = [
                    message if spared(message) else marked_message(message, mark)
                    for message, mark in zip(messages, marks.texts, strict=True)
                ]
                found = self._found(marks, marked, request, plain)
                if found is not None:
                    return found
        return {}, len(plain)

    def _found(
        self, marks: Marks, marked: Sequence[Message], request: Request, plain: str
    ) -> tuple[Mapping[int, int], int] | None:
        try:
            render = self._template.render(marked, request, tools=False, asks_reply=False)
        except TemplateRefused:
            return None
        text, places = marks.taken_out(render)
        return (places, len(text)) if plain.startswith(text) else None

    def _attributed(self, messages: Sequence[Message], request: Request, render: str, plain: Measure) -> list[TokenCount]:
        """The tokens of each message within the plain render; exact for those whose place and boundary were found."""
        found = plain.special()
        openers = [(start, end, before) for start, end, before in found if render[start:end] in self._openers]
        inserted = len(openers) - len(messages) - 1  # a template may have put a system message of its own in front
        if inserted == 0 or (inserted == 1 and not self._open_turns(messages)):
            turns = openers[inserted:]
            if are_turns(messages, [(start, end) for start, end, _ in turns], render):
                return [TokenCount(after - before) for (_, _, before), (_, _, after) in pairwise(turns)]
        places, end = self._places(messages, request, render)
        boundaries, starts = [start for start, *_ in found], [start for start, *_ in openers]
        origin = len(self._bos) if render.startswith(self._bos) else 0
        cut = spans(places, boundaries, len(messages), end, openers=starts, origin=origin)
        counts: list[TokenCount] = []
        after = plain.before(cut[0].start)
        for span in cut:
            before, after = after, plain.before(span.end)
            tokens = after - before
            if span.last - span.first == 1 and found and span.first in places:
                counts.append(TokenCount(tokens))
                continue
            weights = [_EMPTY_WEIGHT + text_weight(message, _MOST_WEIGHT) for message in messages[span.first : span.last]]
            counts += [TokenCount(share, approximate=True) for share in shared(tokens, weights)]
        return counts

    def _open_turns(self, messages: Sequence[Message]) -> bool:
        """Whether a text holds what opens a turn, so that there are more openers than turns."""
        texts = [content for message in messages if isinstance(content := message.get("content"), str)]
        return any(opener in text for text in texts for opener in self._openers)

    def _with_media(self, message: Message, count: TokenCount) -> TokenCount:
        media = None if type(message.get("content")) is str else self._media(message)
        return count if media is None else TokenCount(count.tokens + media, approximate=True)


def _sendable(text: str) -> str:
    """The text without lone surrogates, which no tokenizer takes."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text)
    return text


def _none(_: Message) -> bool:
    return False


def _is_blank(message: Message) -> bool:
    """Whether the content is a text that shows nothing."""
    content = message.get("content")
    return isinstance(content, str) and not content.strip()
