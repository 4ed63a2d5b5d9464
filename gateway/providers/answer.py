"""What is read of a completion or a chunk: choices, usage, error. Everything else stays the bytes it came as.

The strict decoder sees nearly every answer. What it refuses (NaN, odd types, half a surrogate pair) is looked at once more
by the standard library, and NaN and infinities become null. Bytes that are no UTF-8 become replacement characters.
"""

from __future__ import annotations

import json
import math
import re

import msgspec

ABSENT = msgspec.Raw()
_NUMBER_LIKE = re.compile(rb'"(?:[^"\\]|\\.)*+"|-?\bInfinity\b|\bNaN\b', re.DOTALL)
_BOM = b"\xef\xbb\xbf"
_NOTHING = {b"", b"null", b'""', b"{}", b"[]", b"false", b"0"}  # what some servers call an error though there is none


class Choice(msgspec.Struct):
    """One choice of an answer."""

    index: int = 0
    finish_reason: str | None = None
    error: msgspec.Raw = ABSENT


class Answer(msgspec.Struct):
    """A completion or a chunk; raw fields are JSON, `ABSENT` where there is none."""

    choices: list[Choice] | None = None
    usage: msgspec.Raw = ABSENT
    error: msgspec.Raw = ABSENT
    object: msgspec.Raw = ABSENT
    type: msgspec.Raw = ABSENT

    def reported_usage(self) -> bytes | None:
        """The usage object, raw JSON; None where it is absent or null."""
        return _unless_null(self.usage)

    def reported_error(self, data: bytes) -> bytes | None:
        """The JSON of the error that it is or holds: all of its data, or what a choice says; None where it tells none."""
        is_one = not self.choices and b'"error"' in (bytes(self.object), bytes(self.type))
        if is_one or _is_error(self.error):
            return data
        return next((bytes(choice.error) for choice in self.choices or () if _is_error(choice.error)), None)


_decoder = msgspec.json.Decoder(Answer)


def read_answer(data: bytes) -> tuple[Answer, bytes]:
    """The answer and the bytes to pass on: the same ones, unless NaN, an infinity or no UTF-8 stood in them.

    Raises ValueError for what is not a JSON object.
    """
    if not data.isascii() and not _is_utf8(data):
        data = data.decode("utf-8", "replace").encode()
    try:
        return _decoder.decode(data), data
    except (msgspec.MsgspecError, RecursionError):
        return _read_leniently(data)


def without_error(data: bytes) -> bytes:
    """A chunk without its `error` key; the other values keep their spelling where that is possible."""
    try:
        fields = msgspec.json.decode(data, type=dict[str, msgspec.Raw])
    except msgspec.MsgspecError:
        value = json.loads(data)
        value.pop("error", None)
        return json.dumps(value).encode()
    fields.pop("error", None)
    return msgspec.json.encode(fields)


def _read_leniently(data: bytes) -> tuple[Answer, bytes]:
    data = _NUMBER_LIKE.sub(_null_unless_text, data.removeprefix(_BOM))
    try:
        value = json.loads(data)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError("not an object")
    choices = value.get("choices")
    return Answer(
        choices=[_lenient_choice(choice) for choice in choices] if isinstance(choices, list) else None,
        usage=_raw(value.get("usage")),
        error=msgspec.Raw(json.dumps(value["error"]).encode()) if "error" in value else ABSENT,
        object=_raw(value.get("object")),
        type=_raw(value.get("type")),
    ), data


def _is_utf8(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


def _lenient_choice(value: object) -> Choice:
    if not isinstance(value, dict):
        return Choice()
    index, reason = value.get("index"), value.get("finish_reason")
    return Choice(
        index=int(index) if isinstance(index, int) or (isinstance(index, float) and math.isfinite(index)) else 0,
        finish_reason=reason if isinstance(reason, str) and reason.isprintable() else None,  # a lone surrogate isn't
        error=_raw(value.get("error")),
    )


def _raw(value: object) -> msgspec.Raw:
    return ABSENT if value is None else msgspec.Raw(json.dumps(value).encode())


def _null_unless_text(match: re.Match[bytes]) -> bytes:
    return match[0] if match[0].startswith(b'"') else b"null"


def _is_error(raw: msgspec.Raw) -> bool:
    return bytes(raw) not in _NOTHING


def _unless_null(raw: msgspec.Raw) -> bytes | None:
    if raw is ABSENT:
        return None
    value = bytes(raw)
    return None if value == b"null" else value
