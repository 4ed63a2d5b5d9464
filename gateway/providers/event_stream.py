"""Server-sent events out of bytes that may be cut anywhere. Knows the format, not what the data means.

An event is reported as soon as its blank line is there, with the bytes it came in. Work is linear in the bytes fed, and
what is held is bounded: an event that does not end raises ProviderInvalidResponse, and so does one of too many lines.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import msgspec

from gateway.errors import ProviderInvalidResponse

MAX_EVENT_BYTES = 16 * 1024 * 1024
MAX_EVENT_LINES = 50_000
_BOM = b"\xef\xbb\xbf"

# Two line ends in a row. A carriage return at the end of what is known may be half of CR LF: then wait for the next byte,
# unless the line before ended in a lone carriage return as well.
_EVENT_END = re.compile(rb"(?>\r\n|\n|\r)(?>\r\n|\n|\r(?=.))|\r\r\Z", re.DOTALL)
_LINE_END = re.compile(rb"\r\n|\n|\r")
_LONE_CR = re.compile(rb"\r(?!\n)")


class Event(msgspec.Struct, frozen=True):
    """One event: its bytes with the blank line, its data (None without a data line), its comment lines, its name.

    `clean`: nothing but comments and at most one data line, ended by LF or CR LF.
    """

    raw: bytes
    data: bytes | None
    comments: tuple[bytes, ...] = ()
    clean: bool = True
    name: bytes = b""


class EventReader:
    """Takes bytes, gives events."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._at_start = True

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that these bytes complete. Raises ProviderInvalidResponse for one beyond the bounds."""
        if self._at_start:
            chunk = self._without_bom(chunk)
        if self._held:
            searched = max(len(self._held) - 3, 0)
            self._held += chunk
            if _EVENT_END.search(self._held, searched) is None:
                self._check_size()
                return []
            chunk = bytes(self._held)
            self._held.clear()
        if chunk.startswith(b"data: ") and chunk.find(b"\n") == len(chunk) - 2 and chunk.endswith(b"\n\n") and b"\r" not in chunk:
            return [Event(chunk, chunk[6:-2])]
        return [_parsed(raw) for raw in self._whole_events(chunk)]

    def finish(self) -> Event | None:
        """What stood after the last blank line, where the stream ended without one. Raises like `feed`."""
        rest = bytes(self._held)
        self._held.clear()
        return msgspec.structs.replace(_parsed(rest), clean=False) if rest.strip() else None

    def _whole_events(self, chunk: bytes) -> Iterator[bytes]:
        """Cuts whole events off; blank lines before one are dropped, the rest is held."""
        start = 0
        for end in _ends(chunk):
            raw = chunk[start:end].lstrip(b"\r\n")
            start = end
            if raw:
                yield raw
        self._held += chunk[start:].lstrip(b"\r\n") if start else chunk
        self._check_size()

    def _without_bom(self, chunk: bytes) -> bytes:
        head = bytes(self._held) + chunk
        if len(head) < len(_BOM) and _BOM.startswith(head):
            self._held[:] = head
            return b""
        self._at_start = False
        self._held.clear()
        return head.removeprefix(_BOM)

    def _check_size(self) -> None:
        if len(self._held) > MAX_EVENT_BYTES:
            raise ProviderInvalidResponse(f"The provider sent an event of more than {MAX_EVENT_BYTES} bytes.")


def _ends(chunk: bytes) -> Iterator[int]:
    if b"\r" in chunk:
        for match in _EVENT_END.finditer(chunk):
            yield match.end()
        return
    at = chunk.find(b"\n\n")
    while at >= 0:
        yield at + 2
        at = chunk.find(b"\n\n", at + 2)


def _parsed(raw: bytes) -> Event:
    if raw.startswith(b"data: ") and raw.find(b"\n") == len(raw) - 2 and b"\r" not in raw:
        return Event(raw, raw[6:-2])
    if raw.count(b"\n") + raw.count(b"\r") > MAX_EVENT_LINES:
        raise ProviderInvalidResponse(f"The provider sent an event of more than {MAX_EVENT_LINES} lines.")
    data: list[bytes] = []
    comments: list[bytes] = []
    name, clean = b"", _LONE_CR.search(raw) is None
    for line in _LINE_END.split(raw):
        if line.startswith(b":"):
            comments.append(line)
            continue
        clean = clean and (not line or line.startswith(b"data:"))
        field, value = _field_of(line)
        if field in (b"data", b"error"):
            data.append(value)
        if field in (b"event", b"error"):
            name = value if field == b"event" else field
    clean = clean and len(data) < 2
    return Event(raw, b"\n".join(data) if data else None, tuple(comments), clean, name)


def _field_of(line: bytes) -> tuple[bytes, bytes]:
    """Field and value. Some servers write an error as a line of nothing but JSON, or under the field name `error`."""
    if line.startswith(b"{"):
        return b"data", line
    field, _, value = line.partition(b":")
    return field, value.removeprefix(b" ")
