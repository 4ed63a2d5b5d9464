"""What is remembered of a generation: every block of its prompt, in or out, with its tokens and the reason.

An audit is stored as two documents: a small head, committed before the network call, and a body with the blocks, written once.
The body holds each message a single time, as the provider got or would have got it; texts are read out of it only when somebody
looks. Knows nothing of stores and of how the API spells its fields.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import msgspec

from gateway.chat import Diagnostic
from gateway.json_reading import read_json
from gateway.shifting.blocks import text_of

MAX_TEXT = 64 * 1024  # characters of a block's text, and bytes of a message, that an audit keeps


class AuditBlock(NamedTuple):
    """One block of a prompt. Its text is `content`, or that of the message at position `message` of the body; `position` is
    its place among the messages of the request, None for a block that is not one of those."""

    order: int
    id: str
    role: str
    kind: str
    source: str
    name: str | None
    tokens: int
    approximate: bool
    included: bool
    reason: str
    group: str | None = None
    truncated_to: int | None = None
    message: int | None = None
    content: str | None = None
    position: int | None = None


class AuditSummary(msgspec.Struct, frozen=True):
    """Everything about a prompt but its blocks. Budgets and counts are tokens."""

    provider: str
    model: str
    upstream_model: str
    context_strategy: str
    tokenizer: str
    approximate: bool
    context_limit: int
    reply_reserve: int
    safety_margin: int
    prompt_tokens: int
    prompt_tokens_before: int
    diagnostics: tuple[Diagnostic, ...] = ()


class AuditBody(msgspec.Struct, frozen=True):
    """The blocks of a prompt, and the messages they speak of, as raw JSON.

    `cut` has the full length, in characters, of the texts of messages that are kept only in part, by their position. `sent` are
    the positions of what went out, in order, where a message shape made other messages of those of the blocks.
    """

    blocks: list[AuditBlock]
    messages: list[msgspec.Raw]
    cut: dict[int, int] = {}
    sent: list[int] | None = None

    def text(self, block: AuditBlock) -> tuple[str, int]:
        """A block's text, capped, and its full length in characters."""
        if block.message is None:
            text = block.content or ""
            return text[:MAX_TEXT], len(text)
        text = _text(read_json(bytes(self.messages[block.message])))
        return text[:MAX_TEXT], self.cut.get(block.message, len(text))

    def provider_messages(self) -> list[msgspec.Raw]:
        """The messages that the provider got, in order; over-long ones cut."""
        places = (block.message for block in self.blocks if block.included and block.message is not None)
        return [self.messages[place] for place in (places if self.sent is None else self.sent)]


_BODY = msgspec.json.Decoder(AuditBody)
_SUMMARY = msgspec.json.Decoder(AuditSummary)
_ENCODER = msgspec.json.Encoder()


def encode_summary(summary: AuditSummary) -> bytes:
    """The head document."""
    return _ENCODER.encode(summary)


def decode_summary(document: bytes) -> AuditSummary:
    """The head document, read again."""
    return _SUMMARY.decode(document)


def encode_body(
    blocks: Sequence[AuditBlock],
    messages: Sequence[bytes],
    parsed: Sequence[Mapping[str, Any]],
    sent: Sequence[int] | None = None,
) -> bytes:
    """The body document. `messages` are raw JSON; one beyond 64 KiB is kept as its role and the start of its text."""
    kept, cut = messages, {}
    if max(map(len, messages), default=0) > MAX_TEXT:
        long = [i for i, raw in enumerate(messages) if len(raw) > MAX_TEXT]
        texts = {i: _text(parsed[i]) for i in long}
        cut = {i: len(text) for i, text in texts.items()}
        kept = [_excerpt(parsed[i], texts[i]) if i in texts else raw for i, raw in enumerate(messages)]
    order = b"" if sent is None else b',"sent":%b' % _ENCODER.encode(list(sent))
    return b'{"blocks":%b,"cut":%b,"messages":[%b]%b}' % (
        _ENCODER.encode(blocks),
        _ENCODER.encode(cut),
        b",".join(kept),
        order,
    )


def decode_body(document: bytes) -> AuditBody:
    """The body document, read again."""
    return _BODY.decode(document)


def _excerpt(message: Mapping[str, Any], text: str) -> bytes:
    return _ENCODER.encode({"role": message.get("role"), "content": text[:MAX_TEXT], "contentLength": len(text)})


def _text(message: Mapping[str, Any]) -> str:
    return text_of(message) or _calls_text(message)


def _calls_text(message: Mapping[str, Any]) -> str:
    """What stands for the text of a message that has none: its other fields, as JSON."""
    rest = {key: value for key, value in message.items() if key not in ("role", "content") and value is not None}
    content = message.get("content")
    if content is not None and content != "":
        rest["content"] = content
    return _ENCODER.encode(rest).decode() if rest else ""
