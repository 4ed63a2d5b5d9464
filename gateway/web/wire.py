"""From the bytes of a chat completion request to a ChatRequest. With wire_* the only place that knows field spellings."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence

import msgspec

from gateway.chat import ChatMessage, ChatRequest, Diagnostic
from gateway.errors import InvalidRequest
from gateway.web import strict_json
from gateway.web.wire_messages import MessageReader
from gateway.web.wire_options import OWN_BODY_KEYS, read_options

LIMIT_FIELDS = ("max_completion_tokens", "max_tokens")
_WHOLE = re.compile(rb"-?[0-9]+")
_NUMBER = re.compile(rb"-?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?")
_MOST_DIGITS = 18  # beyond it a number is larger than any context anyway


class ChatReader:
    """Reads chat completion requests; remembers the messages it has seen."""

    def __init__(self, messages: MessageReader) -> None:
        self._messages = messages

    def read(
        self,
        body: bytes,
        headers: Mapping[str, str],
        chat_id_headers: Sequence[str],
        tenant: str | None,
        authorization: str | None = None,
    ) -> ChatRequest:
        """The request in a body. `headers` have lower-case names. Raises InvalidRequest."""
        found = strict_json.fields(body)
        model = _model(found)
        messages = self._read_messages(found)
        for key, raw in found.items():
            if key != "messages":
                self._messages.examine(raw, key)
        options, diagnostics = read_options(found, headers, chat_id_headers)
        limits = _reply_limits(found)
        own = OWN_BODY_KEYS.intersection(found)
        touched = [(i, message) for i, message in enumerate(messages) if message.outgoing is not message.raw]
        return ChatRequest(
            model=model,
            messages=messages,
            fields={key: raw for key, raw in found.items() if key not in own} if own else found,
            body=body,
            untouched=not own and not touched,
            stream=_stream(found),
            reply_limit=max(limits.values(), default=None),
            limit_fields=tuple(limits),
            options=options,
            tenant=tenant,
            authorization=authorization,
            diagnostics=(*diagnostics, *_unknown_meta(touched)),
        )

    def _read_messages(self, found: Mapping[str, bytes]) -> list[ChatMessage]:
        raw = found.get("messages")
        if raw is None or raw == b"null":
            hint = " It has `input`, which belongs to the Responses API." if "input" in found else ""
            raise InvalidRequest(f"The request has no `messages`.{hint}", param="messages")
        messages = self._messages.read(raw)
        if not messages:
            raise InvalidRequest("`messages` is empty; at least one message is needed.", param="messages")
        return messages


def _model(found: Mapping[str, bytes]) -> str:
    raw = found.get("model", b"null")
    if raw[:1] != b'"':
        raise InvalidRequest("The request has no `model`; it must be a string.", param="model")
    model = msgspec.json.decode(raw, type=str)
    if not model:
        raise InvalidRequest("`model` is empty; GET /v1/models lists the models there are.", param="model")
    return model


def _stream(found: Mapping[str, bytes]) -> bool:
    raw = found.get("stream", b"null")
    if raw not in (b"true", b"false", b"null"):
        raise InvalidRequest("`stream` must be true or false.", param="stream")
    return raw == b"true"


def _reply_limits(found: Mapping[str, bytes]) -> dict[str, int]:
    limits = {}
    for name in LIMIT_FIELDS:
        raw = found.get(name, b"null")
        if raw != b"null":
            limits[name] = _whole(raw, name)
    return limits


def _whole(raw: bytes, name: str) -> int:
    value = 0.0
    if _WHOLE.fullmatch(raw):
        value = 10**_MOST_DIGITS if len(raw) > _MOST_DIGITS and raw[:1] != b"-" else int(raw[:_MOST_DIGITS])
    elif _NUMBER.fullmatch(raw):
        value = float(raw)
    if not math.isfinite(value) or value < 1 or value != int(value):
        raise InvalidRequest(f"`{name}` must be a whole number of tokens, at least 1.", param=name)
    return int(value)


def _unknown_meta(touched: Sequence[tuple[int, ChatMessage]]) -> list[Diagnostic]:
    return [
        Diagnostic("request", "warning", "unknown-mark", f"messages[{i}].meta.{key[:60]!r} is not known and was ignored")
        for i, message in touched
        for key in message.unknown_meta
    ]
