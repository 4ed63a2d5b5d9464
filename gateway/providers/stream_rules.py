"""Makes a legal stream of a provider's: what a client may see, and how it may end. Pure: bytes in, bytes out.

A legal event passes with its bytes unchanged; what some client would stumble over is written anew or dropped. A
`finish_reason` is never invented: a stream that ends without one has failed.
"""

from __future__ import annotations

from gateway.errors import ProviderError, ProviderInvalidResponse, ProviderStreamError, ProviderStreamTruncated
from gateway.providers.answer import ABSENT, Answer, read_answer, without_error
from gateway.providers.errors import reported_error
from gateway.providers.event_stream import Event, EventReader

DONE = b"data: [DONE]\n\n"
_KEEP_ALIVE = b": keep-alive"


class StreamRules:
    """The state of one stream.

    `started`: a data event has come. `done`: [DONE] has been given out. `failure`: why the stream ends here; bytes that were
    legal before it have been given out. `usage` (raw JSON) and `finish_reason` are the last and the first choice's.
    """

    def __init__(self) -> None:
        self.started = False
        self.done = False
        self.failure: ProviderError | None = None
        self.usage: bytes | None = None
        self.finish_reason: str | None = None
        self._reader = EventReader()
        self._unfinished: set[int] = set()
        self._finished: set[int] = set()

    @property
    def complete(self) -> bool:
        """Whether every choice seen has its finish_reason."""
        return bool(self._finished) and not self._unfinished

    @property
    def over(self) -> bool:
        """Whether nothing more will come."""
        return self.done or self.failure is not None

    def feed(self, chunk: bytes) -> bytes:
        """The legal bytes that these bytes complete."""
        try:
            events = self._reader.feed(chunk)
        except ProviderInvalidResponse as error:
            self.failure = error
            return b""
        if len(events) == 1 and not self.over:
            return self._passed(events[0])
        legal = bytearray()
        for event in events:
            if self.over:
                break
            legal += self._passed(event)
        return bytes(legal)

    def finish(self) -> bytes:
        """The upstream has ended: the legal bytes still owed, or a failure."""
        rest = self._reader.finish()
        legal = self._passed(rest) if rest is not None and not self.over and _is_whole(rest) else b""
        if self.over:
            return legal
        if self.complete:
            self.done = True
            return legal + DONE
        self._fail_truncated()
        return legal

    def _passed(self, event: Event) -> bytes:
        data = event.data
        if data is None:
            return self._comments(event)
        if data.startswith(b"[DONE]"):
            return self._end(event)
        try:
            answer, mended = read_answer(data)
        except ValueError:
            return self._without_answer(event)
        if answer.error is not ABSENT:
            return self._with_error(event, answer, mended)
        if answer.choices is None:
            return self._without_choices(event, answer, mended)
        self._note(answer)
        return event.raw if event.clean and not event.comments and mended is data else _written(event, mended)

    def _note(self, answer: Answer) -> None:
        self.started = True
        self.usage = answer.reported_usage() or self.usage
        for choice in answer.choices or ():
            if choice.finish_reason:
                self._finished.add(choice.index)
                self._unfinished.discard(choice.index)
                if self.finish_reason is None or choice.index == 0:
                    self.finish_reason = choice.finish_reason
            elif choice.index not in self._finished:
                self._unfinished.add(choice.index)

    def _comments(self, event: Event) -> bytes:
        return _written(event, None) if event.comments else b""

    def _end(self, event: Event) -> bytes:
        if not self.complete:
            self._fail_truncated()
            return b""
        self.done = True
        return event.raw if event.clean and event.data == b"[DONE]" and not event.comments else _written(event, b"[DONE]")

    def _with_error(self, event: Event, answer: Answer, data: bytes) -> bytes:
        error = answer.reported_error()
        if error is None:
            if answer.choices is None:
                return self._without_choices(event, answer, data)
            self._note(answer)
            return _written(event, without_error(data))
        self.failure = reported_error(data, in_band=self.started)
        return b""

    def _without_choices(self, event: Event, answer: Answer, data: bytes) -> bytes:
        self.usage = answer.reported_usage() or self.usage
        if bytes(answer.object) == b'"error"':
            self.failure = reported_error(data, in_band=self.started)
            return b""
        return self._comments(event)

    def _without_answer(self, event: Event) -> bytes:
        """Data that is no JSON object: nothing at all and plain values are harmless, the rest is damage."""
        if event.data is None or not event.data.strip() or not event.data.lstrip().startswith(b"{"):
            return self._comments(event)
        kind = ProviderStreamError if self.started else ProviderInvalidResponse
        self.failure = kind("The provider sent an event that is not JSON.")
        return b""

    def _fail_truncated(self) -> None:
        if self.started:
            self.failure = ProviderStreamTruncated("The provider's stream ended without a finish_reason.")
        else:
            self.failure = ProviderInvalidResponse("The provider's stream ended before its first chunk.")


def _is_whole(event: Event) -> bool:
    """Whether an event that lost its blank line still holds all of its data."""
    if event.data is None or event.data.startswith(b"[DONE]"):
        return event.data is not None
    try:
        read_answer(event.data)
    except ValueError:
        return False
    return True


def _written(event: Event, data: bytes | None) -> bytes:
    """The event with harmless comments and its data on one line; its own bytes where nothing has to change."""
    comments = [_harmless(line) for line in event.comments]
    if event.clean and data is event.data and comments == list(event.comments):
        return event.raw
    lines = comments if data is None else [*comments, b"data: " + data.replace(b"\n", b" ")]
    return b"\n".join(lines) + b"\n\n"


def _harmless(comment: bytes) -> bytes:
    """Some clients take `ping` for the end of what has come, or read data out of a comment."""
    lowered = comment.lower()
    return _KEEP_ALIVE if b"ping" in lowered or b"data:" in lowered else comment
