"""The body of a forwarded request: passed on as it comes, or looked into for the model that it names.

Every byte but the model's stays as it was sent. Knows no provider and no configuration.
"""

from __future__ import annotations

import asyncio
import re
from collections import deque
from dataclasses import dataclass
from email.message import Message
from email.parser import BytesParser

import msgspec

from gateway.errors import ClientCancelled, GatewayError, InvalidRequest, PayloadTooLarge
from gateway.web import strict_json
from gateway.web.asgi import Receive, Scope

_KEY = re.compile(rb'[ \t\r\n,]*"(?:[^"\\]|\\.)*"[ \t\r\n]*:[ \t\r\n]*')
_SPACES = b" \t\r\n"


@dataclass(frozen=True, slots=True)
class NamedModel:
    """A model that a body names, and where: its value's bytes from `start` to `end`. In a form it stands bare."""

    name: str
    start: int
    end: int
    bare: bool = False

    def renamed(self, body: bytes, name: str) -> bytes:
        """The body with another name in that place, or as it is where the name is the same."""
        if name == self.name:
            return body
        written = name.encode() if self.bare else msgspec.json.encode(name)
        return body[: self.start] + written + body[self.end :]


class Upload:
    """A body that goes on as it arrives, counted meanwhile: an iterator of its pieces.

    `failure` says what went wrong with it, since who sends it learns only that it broke.
    """

    def __init__(self, receive: Receive, max_bytes: int) -> None:
        self.failure: GatewayError | None = None
        self._receive = receive
        self._max_bytes = max_bytes
        self._size = 0
        self._waiting: deque[bytes] = deque()
        self._arrived = asyncio.Event()

    def __aiter__(self) -> Upload:
        return self

    async def __anext__(self) -> bytes:
        while not self._waiting:
            if self.whole:
                raise StopAsyncIteration
            await self._next()
        return self._waiting.popleft()

    @property
    def whole(self) -> bool:
        """Whether all of it has arrived."""
        return self._arrived.is_set()

    async def beginning(self, size: int) -> bytes:
        """So many bytes of it or some more, or all there is; they stay to be iterated.

        Raises PayloadTooLarge, and ClientCancelled when the client leaves meanwhile.
        """
        while self._size < size and not self.whole:
            await self._next()
        return b"".join(self._waiting)

    def begin_with(self, beginning: bytes) -> None:
        """Puts other bytes in the place of the beginning."""
        self._waiting = deque([beginning] if beginning else [])

    async def receive_after(self) -> Scope:
        """What the client's connection tells once all of the body has arrived: for a watch that may take none of it."""
        await self._arrived.wait()
        return await self._receive()

    async def _next(self) -> None:
        message = await self._receive()
        piece = message.get("body", b"")
        self._size += len(piece)
        if message["type"] == "http.disconnect":
            self.failure = ClientCancelled("the client left")
        elif self._size > self._max_bytes:
            self.failure = too_large(self._max_bytes)
        if self.failure is not None:
            raise self.failure
        if piece:
            self._waiting.append(piece)
        if not message.get("more_body"):
            self._arrived.set()


def model_in_json(body: bytes) -> NamedModel | None:
    """The model that a JSON object names; None where the body is none or names none.

    Raises InvalidRequest for an object that is broken or repeats a key.
    """
    if body.lstrip(_SPACES)[:1] != b"{":
        return None
    place = body.index(b"{") + 1
    for key, raw in strict_json.fields(body).items():
        found = _KEY.match(body, place)
        start = found.end() if found else place
        place = start + len(raw)
        if key == "model" and raw[:1] == b'"':
            return NamedModel(msgspec.json.decode(raw, type=str), start, place)
    return None


def model_in_form(beginning: bytes, content_type: str) -> NamedModel | None:
    """The model that a multipart form names in its beginning. Raises InvalidRequest when it names more than one."""
    boundary = _parsed(b"content-type: " + content_type.encode("latin-1", "replace")).get_boundary()
    if not boundary:
        return None
    border = b"--" + boundary.encode("latin-1", "replace")
    found = None
    start = 0 if beginning.startswith(border) else _after(beginning, b"\r\n" + border, 0)
    while start >= 0:
        end = beginning.find(b"\r\n" + border, start)
        named = _model_part(beginning, start, end)
        if named and found:
            raise InvalidRequest("The form names its model twice; which one counts would be a guess.", param="model")
        found = found or named
        start = end + 2 if end >= 0 else -1
    return found


def too_large(max_bytes: int) -> PayloadTooLarge:
    """The error of a body beyond server.max_body_bytes."""
    return PayloadTooLarge(
        f"The body is larger than {max_bytes} bytes, which is server.max_body_bytes.", metadata={"maxBytes": max_bytes}
    )


def _model_part(form: bytes, start: int, end: int) -> NamedModel | None:
    """The part between two borders, if it is the whole of a field `model`; the border before it begins at `start`."""
    head = form.find(b"\r\n", start)
    value = form.find(b"\r\n\r\n", start)
    if not 0 <= head <= value < end:
        return None
    fields = _parsed(form[head + 2 : value])
    if fields.get_param("name", header="content-disposition") != "model" or fields.get_filename() is not None:
        return None
    try:
        return NamedModel(form[value + 4 : end].decode("utf-8"), value + 4, end, bare=True)
    except UnicodeDecodeError:
        return None


def _after(data: bytes, mark: bytes, place: int) -> int:
    found = data.find(mark, place)
    return found + 2 if found >= 0 else -1


def _parsed(lines: bytes) -> Message:
    return BytesParser().parsebytes(lines + b"\r\n\r\n", headersonly=True)
