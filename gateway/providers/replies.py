"""Open answers as the gateway reads them: whole or streamed, in the shape that was asked for. Knows no request.

A reply owns its upstream: closing the one closes the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gateway.errors import (
    ProviderInvalidResponse,
    ProviderServerError,
    ProviderStreamError,
    ProviderStreamTruncated,
    ProviderTimeout,
    ProviderUnreachable,
)
from gateway.providers.answer import read_answer
from gateway.providers.base import Reply
from gateway.providers.conversion import to_completion, to_stream
from gateway.providers.errors import reported_error
from gateway.providers.stream_rules import StreamRules
from gateway.providers.upstream import Upstream

MAX_ANSWER_BYTES = 64 * 1024 * 1024
_MAX_HELD_BYTES = 65_536
_BLANK = b" \t\r\n\xef\xbb\xbf"
_EVENTS_BEGIN = (b":", b"d", b"e", b"i", b"r")  # a comment or a field; no JSON begins so
_NEXT_LINE = re.compile(rb"\}[ \t\r]*+\n\s*+\{")  # where one line of JSON follows another; nowhere inside of JSON


class PlainReply(Reply):
    """A whole JSON answer; one that comes as a stream is put together."""

    streamed = False

    def __init__(self, upstream: Upstream) -> None:
        self._upstream = upstream
        self._read = False

    @property
    def ended(self) -> bool:
        """Whether the answer has been read."""
        return self._read

    async def read(self) -> bytes:
        """The completion, byte for byte; b"" from the second call on."""
        if self._read:
            return b""
        self._read = True
        head = await _head(self._upstream)
        if head.lstrip(_BLANK).startswith(_EVENTS_BEGIN):
            return await self._put_together(head)
        self._upstream.begin()
        body = await _whole(self._upstream, bytearray(head))
        return self._checked(body) if _NEXT_LINE.search(body) is None else await self._put_together(_as_events(body))

    async def _put_together(self, head: bytes) -> bytes:
        whole = bytearray()
        try:
            stream = await open_stream(self._upstream, head)
            while events := await stream.read():
                whole += _within_bounds(whole, events)
        except ProviderStreamTruncated as error:  # nothing of it has reached the client: it is no broken stream
            raise ProviderInvalidResponse("The provider's answer came as a stream that ended too early.") from error
        except ProviderStreamError as error:
            raise ProviderServerError("The provider broke off its answer with an error.") from error
        return self._checked(_converted(to_completion, bytes(whole)))

    def _checked(self, body: bytes) -> bytes:
        completion = read_completion(body)
        self.usage, self.finish_reason = completion.usage, completion.finish_reason
        return completion.body

    async def aclose(self) -> None:
        """Ends the upstream request."""
        await self._upstream.aclose()


class StreamReply(Reply):
    """A stream of legal events, each as soon as it is complete."""

    streamed = True

    def __init__(self, upstream: Upstream, rules: StreamRules, held: bytes) -> None:
        self._upstream = upstream
        self._rules = rules
        self._held = held
        self._ended = False
        self._remember()

    @property
    def ended(self) -> bool:
        """Whether [DONE] has been given out."""
        return self._rules.done and not self._held

    async def read(self) -> bytes:
        """The next events; b"" after [DONE]."""
        if self._held:
            held, self._held = self._held, b""
            return held
        rules = self._rules
        while not rules.over:
            chunk = await self._next()
            legal = rules.feed(chunk) if chunk else rules.finish()
            self._remember()
            if legal:
                return legal
        if rules.failure is not None:
            raise rules.failure
        if not self._ended:
            self._ended = True
            await self._upstream.drain()
        return b""

    async def _next(self) -> bytes:
        """Bytes from upstream; b"" where it ended, also by breaking off after every choice was finished."""
        try:
            return await self._upstream.read()
        except (ProviderUnreachable, ProviderTimeout) as error:
            if self._rules.complete:
                return b""
            if isinstance(error, ProviderTimeout):
                raise
            raise ProviderStreamTruncated("The connection to the provider broke in the middle of its stream.") from error

    def _remember(self) -> None:
        self.usage = self._rules.usage
        self.finish_reason = self._rules.finish_reason

    async def aclose(self) -> None:
        """Ends the upstream request."""
        await self._upstream.aclose()


class Completion:
    """A plain answer that has been checked: its bytes, its usage (raw JSON), the first choice's finish_reason."""

    __slots__ = ("body", "finish_reason", "usage")

    def __init__(self, body: bytes, usage: bytes | None, finish_reason: str | None) -> None:
        self.body = body
        self.usage = usage
        self.finish_reason = finish_reason


def read_completion(body: bytes) -> Completion:
    """Raises ProviderInvalidResponse for what is no completion, and the classified error of an error object."""
    try:
        answer, body = read_answer(body)
    except ValueError as error:
        raise ProviderInvalidResponse("The provider's answer is not a JSON object.") from error
    told = answer.reported_error(body)
    if told is not None:
        raise reported_error(told, in_band=False)
    if not answer.choices:
        raise ProviderInvalidResponse("The provider's answer has no choices.")
    return Completion(body, answer.reported_usage(), answer.choices[0].finish_reason)


async def open_reply(upstream: Upstream, *, stream: bool) -> Reply:
    """The reply in the shape that was asked for; of a stream once its first data event is there."""
    if not stream:
        return PlainReply(upstream)
    head = await _head(upstream)
    if head.lstrip(_BLANK)[:1] not in (b"{", b"[", b"<"):
        return await open_stream(upstream, head)
    upstream.begin()
    body = await _whole(upstream, bytearray(head))
    if _NEXT_LINE.search(body) is not None:
        return await open_stream(upstream, _as_events(body))
    return await open_stream(upstream, _converted(to_stream, read_completion(body).body))


async def open_stream(upstream: Upstream, head: bytes) -> StreamReply:
    """A stream whose first bytes are known; raises what its first data event says, if that is an error."""
    rules = StreamRules()
    held = rules.feed(head)
    while not (rules.started or rules.over):
        chunk = await upstream.read()
        held += rules.feed(chunk) if chunk else rules.finish()
        if len(held) > _MAX_HELD_BYTES and not rules.started:
            held = b""
    if not rules.started and rules.failure is not None:
        raise rules.failure
    upstream.begin()
    return StreamReply(upstream, rules, held)


async def _head(upstream: Upstream) -> bytes:
    """What comes up to the first byte that says something: blanks keep a connection alive, and are no answer yet."""
    head = bytearray()
    while chunk := await upstream.read():
        head += _within_bounds(head, chunk)
        if chunk.strip(_BLANK):
            break
    return bytes(head)


async def _whole(upstream: Upstream, body: bytearray) -> bytes:
    while chunk := await upstream.read():
        body += _within_bounds(body, chunk)
    return bytes(body)


def _as_events(lines: bytes) -> bytes:
    return _NEXT_LINE.sub(b"}\n\n{", lines) + b"\n\n"


def _within_bounds(body: bytearray, chunk: bytes) -> bytes:
    if len(body) + len(chunk) > MAX_ANSWER_BYTES:
        raise ProviderInvalidResponse(f"The provider's answer is longer than {MAX_ANSWER_BYTES} bytes.")
    return chunk


def _converted(convert: Callable[[bytes], bytes], answer: bytes) -> bytes:
    try:
        return convert(answer)
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise ProviderInvalidResponse("The provider's answer is not shaped like a chat completion.") from error
