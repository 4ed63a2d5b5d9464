"""Open answers as the gateway reads them: whole or streamed, in the shape that was asked for. Knows no request.

A reply owns its upstream: closing the one closes the other.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gateway.errors import ProviderInvalidResponse, ProviderStreamTruncated, ProviderTimeout, ProviderUnreachable
from gateway.providers.answer import read_answer
from gateway.providers.base import Reply
from gateway.providers.conversion import to_completion, to_stream
from gateway.providers.errors import reported_error
from gateway.providers.stream_rules import StreamRules
from gateway.providers.upstream import Upstream

MAX_ANSWER_BYTES = 64 * 1024 * 1024
_MAX_HELD_BYTES = 65_536
_BLANK = b" \t\r\n\xef\xbb\xbf"
_EVENT = re.compile(rb"[\s\xef\xbb\xbf]*(data|event|id|retry)?:")


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
        body = bytearray()
        while chunk := await self._upstream.read():
            self._upstream.begin()
            body += _within_bounds(body, chunk)
            if chunk.strip(_BLANK):
                break
        if _EVENT.match(body):
            return await self._put_together(bytes(body))
        return self._checked(await _whole(self._upstream, body))

    async def _put_together(self, head: bytes) -> bytes:
        stream = await open_stream(self._upstream, head)
        whole = bytearray()
        while events := await stream.read():
            whole += _within_bounds(whole, events)
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


class ReadyReply(Reply):
    """A stream that is complete before its first read."""

    streamed = True

    def __init__(self, stream: bytes, usage: bytes | None, finish_reason: str | None) -> None:
        self._stream = stream
        self.usage = usage
        self.finish_reason = finish_reason

    @property
    def ended(self) -> bool:
        """Whether all has been given out."""
        return not self._stream

    async def read(self) -> bytes:
        """All events, then b""."""
        stream, self._stream = self._stream, b""
        return stream

    async def aclose(self) -> None:
        """Nothing is open."""


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
    if answer.reported_error() is not None or (bytes(answer.object) == b'"error"' and not answer.choices):
        raise reported_error(body, in_band=False)
    if not answer.choices:
        raise ProviderInvalidResponse("The provider's answer has no choices.")
    first = answer.choices[0]
    if first.finish_reason == "error" and len(bytes(first.error)):
        raise reported_error(bytes(first.error), in_band=False)
    return Completion(body, answer.reported_usage(), first.finish_reason)


async def open_reply(upstream: Upstream, *, stream: bool) -> Reply:
    """The reply in the shape that was asked for; of a stream once its first data event is there."""
    if not stream:
        return PlainReply(upstream)
    while (head := await upstream.read()) and not head.strip(_BLANK):
        pass
    if head.strip(_BLANK)[:1] not in (b"{", b"[", b"<"):
        return await open_stream(upstream, head)
    upstream.begin()
    completion = read_completion(await _whole(upstream, bytearray(head)))
    await upstream.aclose()
    return ReadyReply(_converted(to_stream, completion.body), completion.usage, completion.finish_reason)


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


async def _whole(upstream: Upstream, body: bytearray) -> bytes:
    while chunk := await upstream.read():
        body += _within_bounds(body, chunk)
    return bytes(body)


def _within_bounds(body: bytearray, chunk: bytes) -> bytes:
    if len(body) + len(chunk) > MAX_ANSWER_BYTES:
        raise ProviderInvalidResponse(f"The provider's answer is longer than {MAX_ANSWER_BYTES} bytes.")
    return chunk


def _converted(convert: Callable[[bytes], bytes], answer: bytes) -> bytes:
    try:
        return convert(answer)
    except (ValueError, TypeError, AttributeError, LookupError) as error:
        raise ProviderInvalidResponse("The provider's answer is not shaped like a chat completion.") from error
