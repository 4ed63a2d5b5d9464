"""A chat completion as the gateway thinks of it. Knows no HTTP and no JSON spelling; message bodies stay raw bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import msgspec

from gateway.shifting import BlockKind, PromptBlock
from gateway.shifting.blocks import text_of
from gateway.shifting.links import ToolLinks, tool_links
from tokenizer_profiles.base import TokenCount


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One remark about a request: where it arose, how grave it is (`info` or `warning`), a stable code, words for people."""

    stage: str
    level: str
    code: str
    message: str


@dataclass(frozen=True, slots=True)
class Marks:
    """What is said of one message; None where nothing is said."""

    pinned: bool | None = None
    manual_excluded: bool | None = None
    required: bool | None = None
    kind: BlockKind | None = None
    relevance: float | None = None
    entry_id: str | None = None
    label: str | None = None

    def over(self, weaker: Marks) -> Marks:
        """These marks, field by field before the weaker ones."""
        return Marks(
            weaker.pinned if self.pinned is None else self.pinned,
            weaker.manual_excluded if self.manual_excluded is None else self.manual_excluded,
            weaker.required if self.required is None else self.required,
            self.kind or weaker.kind,
            weaker.relevance if self.relevance is None else self.relevance,
            self.entry_id or weaker.entry_id,
            self.label or weaker.label,
        )


NO_MARKS = Marks()


@dataclass(frozen=True, slots=True)
class MarkRule:
    """Marks for the messages a selector finds: one of index, id, range (both ends included) and name."""

    marks: Marks
    index: int | None = None
    id: str | None = None
    range: tuple[int, int] | None = None
    name: str | None = None

    def positions(self, messages: Sequence[ChatMessage]) -> list[int]:
        """The messages it speaks of, by position; an index or range outside the list finds none."""
        size = len(messages)
        if self.index is not None or self.range is not None:
            first, last = self.range or (self.index or 0, self.index or 0)
            first, last = (end + size if end < 0 else end for end in (first, last))
            return list(range(first, last + 1)) if 0 <= first <= last < size else []
        if self.id is not None:
            return [i for i, message in enumerate(messages) if message.id == self.id]
        return [i for i, message in enumerate(messages) if message.message.get("name") == self.name]


@dataclass(frozen=True, slots=True)
class MemoryEntry:
    """A remembered text that a client hands over beside its messages."""

    content: str
    relevance: float | None = None
    required: bool = False


@dataclass(slots=True)
class ChatMessage:
    """One message with everything that can be known of it alone; shared by all requests that hold the same bytes.

    `outgoing` is what the provider gets: `raw` itself unless the message carried fields of our own. `source` says who wrote it:
    the request, its memory, a strategy, a plug-in. The rest only remembers: `counts` the tokens by tokenizer profile, `block` and
    `row` what was last made of it at `position`, for the next turn.
    """

    raw: bytes
    outgoing: bytes
    message: Mapping[str, Any]
    role: str
    text: str
    links: ToolLinks
    id: str | None = None
    marks: Marks = NO_MARKS
    unknown_meta: tuple[str, ...] = ()
    source: str = "request"
    counts: dict[str, TokenCount] = field(default_factory=dict)
    block: PromptBlock | None = None
    row: tuple[Any, Any] | None = None
    position: int = -1


@dataclass(frozen=True, slots=True)
class ContextOptions:
    """What the request's extension asks for; None where it is silent. Reserve and limit are tokens."""

    chat_id: str | None = None
    strategy: str | None = None
    reply_reserve: int | None = None
    context_limit: int | None = None
    report: str | None = None
    auxiliary: bool = False
    rules: tuple[MarkRule, ...] = ()
    memory: tuple[MemoryEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class ChatRequest:
    """A chat completion request.

    `fields` are the top-level keys for the provider as raw JSON, in the client's order; `body` is the whole as it came, which
    may go out as it is when `untouched`. `reply_limit` is the larger of the reply limits named (tokens) under `limit_fields`.
    """

    model: str
    messages: Sequence[ChatMessage]
    fields: Mapping[str, bytes]
    body: bytes
    untouched: bool
    stream: bool = False
    reply_limit: int | None = None
    limit_fields: tuple[str, ...] = ()
    options: ContextOptions = ContextOptions()
    tenant: str | None = None
    authorization: str | None = None
    diagnostics: tuple[Diagnostic, ...] = ()


def made_message(message: Mapping[str, Any], source: str, message_id: str | None = None, marks: Marks = NO_MARKS) -> ChatMessage:
    """A message of our own making."""
    try:
        raw = msgspec.json.encode(message)
    except UnicodeEncodeError:  # half a surrogate pair, which JSON can say by its number only
        raw = json.dumps(message, separators=(",", ":")).encode()
    return ChatMessage(
        raw, raw, message, str(message.get("role", "")), text_of(message), tool_links(message), message_id, marks, source=source
    )


def marked(request: ChatRequest) -> tuple[list[Marks], list[Diagnostic]]:
    """The marks of every message after all rules: a message's own win over the rules, earlier rules over later ones."""
    marks = [message.marks for message in request.messages]
    diagnostics: list[Diagnostic] = []
    if not request.options.rules and marks.count(NO_MARKS) == len(marks):
        return marks, diagnostics
    for rule in request.options.rules:
        positions = rule.positions(request.messages)
        if not positions:
            diagnostics.append(
                Diagnostic("marks", "warning", "mark-without-message", "a mark speaks of no message of this request")
            )
        for i in positions:
            marks[i] = marks[i].over(rule.marks)
    for i, mark in enumerate(marks):
        if mark.manual_excluded and (mark.pinned or mark.required):
            marks[i] = replace(mark, manual_excluded=False)
            diagnostics.append(
                Diagnostic("marks", "info", "pinned-wins", f"messages[{i}] is both pinned or required and excluded; it stays")
            )
    return marks, diagnostics
