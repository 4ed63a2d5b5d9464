"""Makes a legal stream of a provider's: what a client may see, and how it may end. Pure: bytes in, bytes out.

A legal event passes with its bytes unchanged; what some client would stumble over is written anew or dropped. A
`finish_reason` is never invented: a stream that ends without one has failed.
"""

from __future__ import annotations

import re

import msgspec

from gateway.errors import ProviderError, ProviderInvalidResponse, ProviderStreamError, ProviderStreamTruncated
from gateway.providers.answer import ABSENT, Answer, Choice, read_answer, without_error
from gateway.providers.errors import reported_error
from gateway.providers.event_stream import Event, EventReader

DONE = b"data: [DONE]\n\n"
_KEEP_ALIVE = b": keep-alive"
_PLAIN_WORDS = re.compile(rb":[A-Za-z]{0,20}(?: [A-Za-z]{1,20}){0,8}")  # in anything else a key or an address may stand


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
        legal = b"" if self.over else self._rest()
        if self.over:
            return legal
        if self.complete:
            self.done = True
            return legal + DONE
        self._fail_truncated()
        return legal

    def _rest(self) -> bytes:
        """What is legal of the event that lost its blank line."""
        try:
            rest = self._reader.finish()
        except ProviderInvalidResponse as error:
            self.failure = error
            return b""
        whole = None if rest is None else _what_is_whole(rest)
        return b"" if whole is None else self._passed(whole)

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
        choices = answer.choices
        if choices is None or event.name == b"error" or answer.error is not ABSENT or _may_be_broken(choices):
            return self._without_choices_or_with_error(event, answer, mended)
        self._note(answer, choices)
        return event.raw if event.clean and not event.comments and mended is data else _written(event, mended)

    def _note(self, answer: Answer, choices: list[Choice]) -> None:
        self.started = True
        if answer.usage is not ABSENT:
            self.usage = answer.reported_usage() or self.usage
        for choice in choices:
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

    def _without_choices_or_with_error(self, event: Event, answer: Answer, data: bytes) -> bytes:
        """An error, an event that only has a place for one, or one that says nothing to a client."""
        error = answer.reported_error(data) or (data if event.name == b"error" else None)
        if error is None and answer.choices is not None:
            self._note(answer, answer.choices)
            return _written(event, data if answer.error is ABSENT else without_error(data))
        self.usage = answer.reported_usage() or self.usage
        if error is None:
            return self._comments(event)
        self.failure = reported_error(error, in_band=self.started)
        return b""

    def _without_answer(self, event: Event) -> bytes:
        """Data that is no JSON object: nothing at all and plain values are harmless, the rest is damage."""
        data = event.data or b""
        if event.name == b"error" and data.strip():
            self.failure = reported_error(data, in_band=self.started)
            return b""
        if b"\n" in data:
            return self._one_by_one(event, data.split(b"\n"))
        if not data.lstrip().startswith(b"{"):
            return self._comments(event)
        kind = ProviderStreamError if self.started else ProviderInvalidResponse
        self.failure = kind("The provider sent an event that is not JSON.")
        return b""

    def _one_by_one(self, event: Event, lines: list[bytes]) -> bytes:
        """Lines that are no whole together: some servers leave out the blank ones between their events."""
        legal = bytearray(self._comments(event))
        for line in lines:
            if not self.over:
                legal += self._passed(Event(b"", line, clean=False))
        return bytes(legal)

    def _fail_truncated(self) -> None:
        if self.started:
            self.failure = ProviderStreamTruncated("The provider's stream ended without a finish_reason.")
        else:
            self.failure = ProviderInvalidResponse("The provider's stream ended before its first chunk.")


def _may_be_broken(choices: list[Choice]) -> bool:
    for choice in choices:  # noqa: SIM110 - `any` over a generator costs each chunk more than all the rest of this
        if choice.error is not ABSENT:
            return True
    return False


def _what_is_whole(event: Event) -> Event | None:
    """What an event that lost its blank line still holds: the last line of its data may be cut."""
    if event.data is None:
        return None
    before, several, last = event.data.rpartition(b"\n")
    if event.name == b"error" or _is_whole(event.data) or _is_whole(last):
        return event
    return msgspec.structs.replace(event, data=before) if several else None


def _is_whole(data: bytes) -> bool:
    if data.startswith(b"[DONE]"):
        return True
    try:
        read_answer(data)
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
    """Some clients take `ping` for the end of what has come, read data out of a comment, or break it at odd characters."""
    return comment if _PLAIN_WORDS.fullmatch(comment) and b"ping" not in comment.lower() else _KEEP_ALIVE
