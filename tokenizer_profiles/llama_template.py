"""A model's chat template as llama.cpp's server renders it. Knows no tokens and counts nothing."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from typing import Any

from tokenizer_profiles.base import Message, Request
from tokenizer_profiles.chat_template import (
    Chat,
    ChatTemplate,
    NullWay,
    Shape,
    TemplateRefused,
    content_of,
    refusals,
)
from tokenizer_profiles.llama_messages import (
    Thinking,
    continued,
    continues_reply,
    has_fractions,
    has_own_format,
    joined_parts,
    learn_thinking,
    template_message,
    template_tools,
    template_variables,
    writes_arguments,
    written_numbers,
)

# Python's strip takes these too, the isspace of C does not: https://docs.python.org/3/library/stdtypes.html#str.isspace
_SPACES = "\x1c\x1d\x1e\x1f\x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
_SPACE = re.compile(f"[{_SPACES}]")
_STAND_INS = range(0xF0000, 0xF0000 + len(_SPACES))  # private-use characters that stand for them while a template works
_AWAY = dict(zip(map(ord, _SPACES), _STAND_INS, strict=True))
_BACK = dict(zip(_STAND_INS, map(ord, _SPACES), strict=True))
_KEEPS_DEVELOPERS = "<|channel|>"  # how that server knows gpt-oss, whose developers stay what they are


class LlamaTemplate(ChatTemplate):
    """Renders chats as llama.cpp does: a last reply is left open, and trimming knows only ASCII spaces."""

    null_ways: tuple[NullWay, ...] = ("empty",)

    def __init__(self, source: str, variables: Mapping[str, str]) -> None:
        """Raises ProfileDataMissing when transformers or jinja2 are not installed."""
        self._developers = _KEEPS_DEVELOPERS in source
        self._own_format = has_own_format(source)
        self._thinking = Thinking()
        super().__init__(source, variables)
        self._thinking = self._learned_thinking()
        self._prints_values = self._shape.object_arguments and not writes_arguments(source)

    def guesses(self, messages: Sequence[Message]) -> bool:
        """See `ChatTemplate`."""
        if self._own_format or super().guesses(messages):
            return True
        if continues_reply(messages) and not self._thinking.certain:
            return True
        if self._prints_values and any(map(has_fractions, messages)):
            return True
        return self._shape.parts and any(map(_is_result_in_parts, messages))

    def _prompt(self, messages: Sequence[Message], request: Request, tools: object, *, asks_reply: bool) -> str:
        chat = [self._handed_over(message, self._shape) for message in messages]
        definitions = template_tools(tools)
        options = self._options(request)

        def rendered(some: Chat, asks: bool) -> str:
            return self._rendered(some, definitions, {**options, "add_generation_prompt": asks})

        asked = request.get("add_generation_prompt") is not False
        if asked and continues_reply(messages):
            return written_numbers(continued(rendered, chat, dict(messages[-1]), self._thinking))
        return written_numbers(rendered(chat, asks_reply and asked))

    def _options(self, request: Request) -> dict[str, Any]:
        return {**template_variables(date.today()), **super()._options(request)}  # noqa: DTZ011  (that server's own day)

    def _rendered(self, chat: Chat, tools: object, options: Mapping[str, Any]) -> str:
        if not any(_SPACE.search(text) for message in chat for text in _texts(message)):
            return super()._rendered(chat, tools, options)
        hidden = [{**_hidden(message), "content": _hidden_content(message.get("content"))} for message in chat]
        return super()._rendered(hidden, tools, options).translate(_BACK)

    def _learned_thinking(self) -> Thinking:
        try:
            with refusals():
                return learn_thinking(self._as_it_is)
        except TemplateRefused:
            return Thinking(certain=False)

    def _as_it_is(self, chat: Chat, asks_reply: bool) -> str:
        return self._rendered(chat, None, {**self._options({}), "add_generation_prompt": asks_reply})

    def _handed_over(self, message: Message, shape: Shape) -> dict[str, Any]:
        content = message.get("content")
        handed = content_of("" if content is None else content, shape, joined_parts)
        return template_message(message, handed, objects=shape.object_arguments, developers=self._developers)


def _is_result_in_parts(message: Message) -> bool:
    """Templates show such results as Python would, and that server's Jinja shows nothing of them."""
    return message.get("role") == "tool" and isinstance(message.get("content"), list)


def _texts(message: Message) -> Iterator[str]:
    """The texts that a template may trim: the message's own and those of its parts."""
    content = message.get("content")
    for holder in (message, *(content if isinstance(content, list) else ())):
        yield from (text for text in holder.values() if isinstance(text, str))


def _hidden(texts: Message) -> dict[str, Any]:
    return {key: value.translate(_AWAY) if isinstance(value, str) else value for key, value in texts.items()}


def _hidden_content(content: object) -> object:
    if isinstance(content, list):
        return list(map(_hidden, content))
    return content.translate(_AWAY) if isinstance(content, str) else content
