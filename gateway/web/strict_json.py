"""JSON as we take it: what is checked must be what is sent, so no repeated key, no NaN, no lone surrogate, no bottomless nesting.

Top-level values are kept as raw slices. Knows nothing of chats.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any

import msgspec

from gateway.errors import InvalidRequest
from gateway.json_reading import read_json

MAX_DEPTH = 128
_OBJECT = msgspec.json.Decoder(dict[str, msgspec.Raw])
_ARRAY = msgspec.json.Decoder(list[msgspec.Raw])
_SPACE = re.compile(rb"[ \t\r\n]*")
_MARKS = (b",", b"}", b'"', b"")
_STRING = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"')
_STEPS = bytes.maketrans(b"[{]}", b"\x01\x01\xff\xff")
_NO_BRACKETS = bytes(set(range(256)) - set(b"{}[]"))
_QUICK_DEPTH = 100  # so few opening brackets can't nest too deep, whatever stands around the value


class _RepeatedKey(ValueError):
    pass


def fields(body: bytes) -> dict[str, bytes]:
    """The top-level keys of a JSON object with their raw values, in order.

    Raises InvalidRequest for anything that is not one strict JSON object. Values are not looked into beyond their syntax:
    `value` does that.
    """
    if not body.isascii():
        _require_utf8(body)
    try:
        found = {key: bytes(raw) for key, raw in _OBJECT.decode(body).items()}
    except msgspec.ValidationError as error:
        raise InvalidRequest("The body must be a JSON object.") from error
    except msgspec.DecodeError as error:
        raise InvalidRequest(
            f"The body is not valid JSON{_place(error)}. NaN and lone surrogates are not JSON either."
        ) from error
    except RecursionError as error:
        raise _too_deep() from error
    if not _plainly_laid_out(body, found):
        value(body, depth=0)
    return found


def _require_utf8(body: bytes) -> None:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequest(f"The body is not valid UTF-8 (byte {error.start}). Send the JSON as UTF-8.") from error


def elements(raw: bytes, param: str) -> list[bytes]:
    """The raw elements of a JSON array. Raises InvalidRequest when it is none."""
    try:
        return [bytes(item) for item in _ARRAY.decode(raw)]
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"{param} must be a list.", param=param) from error


def value(raw: bytes, *, depth: int, param: str | None = None) -> Any:
    """A raw JSON value, examined: repeated keys and nesting beyond 128 (it stands at `depth` itself) are InvalidRequest."""
    try:
        found = read_json(raw, _unique)
    except _RepeatedKey as error:
        raise InvalidRequest(
            "A JSON object repeats a key; which one counts would be a guess. Send each key once.", param=param
        ) from error
    except RecursionError as error:
        raise _too_deep(param) from error
    if raw.count(b"{") + raw.count(b"[") > _QUICK_DEPTH - depth and _is_deeper(raw, MAX_DEPTH - depth):
        raise _too_deep(param)
    return found


def is_container(raw: bytes) -> bool:
    """Whether a raw value is an object or a list, and so worth examining."""
    return raw[:1] in (b"{", b"[")


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise _RepeatedKey
    return found


def _plainly_laid_out(body: bytes, found: dict[str, bytes]) -> bool:
    """Whether the body is exactly these pairs in this order, keys spelled plainly, which proves that no key is repeated."""
    skip = _SPACE.match
    place = _end(skip, body, 0) + 1
    for number, (key, raw) in enumerate(found.items()):
        if number:
            place = _end(skip, body, place)
            if not body.startswith(b",", place):
                return False
            place += 1
        name = b'"' + key.encode() + b'"'
        if not body.startswith(name, place):
            place = _end(skip, body, place)
            if not body.startswith(name, place):
                return False
        place += len(name)
        place = place + 1 if body.startswith(b":", place) else _end(skip, body, place) + 1
        if not body.startswith(raw, place):
            place = _end(skip, body, place)
            if not body.startswith(raw, place):
                return False
        place += len(raw)
    place = _end(skip, body, place)
    return body.startswith(b"}", place) and _end(skip, body, place + 1) == len(body)


def _end(skip: Any, body: bytes, place: int) -> int:
    """Where white space from a place on ends."""
    return place if body[place : place + 1] in _MARKS else int(skip(body, place).end())


def _is_deeper(raw: bytes, levels: int) -> bool:
    """Whether JSON is nested deeper than so many levels, by its brackets: each is a step up or down.

    A walk through the values themselves would take many seconds where somebody sends millions of empty lists.
    """
    steps = _STRING.sub(b"", raw).translate(_STEPS, _NO_BRACKETS)
    return max(accumulate(memoryview(steps).cast("b")), default=0) > levels


def _too_deep(param: str | None = None) -> InvalidRequest:
    return InvalidRequest(f"The JSON is nested deeper than {MAX_DEPTH} levels.", param=param)


def _place(error: Exception) -> str:
    found = re.search(r"\(byte (\d+)\)", str(error))
    return f" (byte {found[1]})" if found else ""
