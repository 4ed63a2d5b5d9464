"""Reads the metadata of a GGUF model file: names and values, without its tensors. Knows no tokenizer.

The format is llama.cpp's (ggml's docs/gguf.md): a magic word, a version, two counts, then for each pair a name, a type and a
value, all little-endian. The file is mapped, so that only the pages of its beginning are read, however large the model is.
"""

from __future__ import annotations

import mmap
import struct
from pathlib import Path
from typing import Any

from tokenizer_profiles.errors import ProfileDataMissing

_MAGIC = b"GGUF"
_VERSIONS = (2, 3)
_HEADER = struct.Struct("<4sIQQ")  # magic, version, tensors, pairs
_LENGTH = struct.Struct("<Q")
_TYPE = struct.Struct("<I")
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_STRING, _ARRAY = 8, 9
_SMALLEST_PAIR = _LENGTH.size + _TYPE.size + 1
_DEEPEST_ARRAY = 4


def read_metadata(path: Path) -> dict[str, Any]:
    """Every name and value before the tensors; texts are str, arrays are lists.

    Raises ProfileDataMissing when there is no such file, when it is no GGUF or one of another version, or when it ends too early.
    """
    try:
        with path.open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _Cursor(data, path).pairs()
    except (OSError, ValueError) as failure:  # a mapping of an empty file is a ValueError
        raise ProfileDataMissing(f"{path} cannot be read as a model file ({failure}): give the path of a GGUF file") from failure
    except (struct.error, _Broken) as failure:
        raise ProfileDataMissing(f"{path} is damaged or not complete ({failure}): download it again") from failure


class _Broken(Exception):
    pass


class _Cursor:
    """A place in the mapped file that moves forward as values are taken."""

    def __init__(self, data: mmap.mmap, path: Path) -> None:
        self._data = data
        self._path = path
        self._at = 0

    def pairs(self) -> dict[str, Any]:
        magic, version, _, count = self._header()
        if magic != _MAGIC:
            raise ProfileDataMissing(f"{self._path} is not a GGUF file: it begins with {magic!r}, not with {_MAGIC!r}")
        if version not in _VERSIONS:
            known = " and ".join(map(str, _VERSIONS))
            raise ProfileDataMissing(f"{self._path} is a GGUF file of version {version}; read are little-endian ones of {known}")
        self._room_for(count, _SMALLEST_PAIR)
        return {self._text(): self._value(self._number(_TYPE), 0) for _ in range(count)}

    def _header(self) -> tuple[bytes, int, int, int]:
        magic = bytes(self._data[: len(_MAGIC)])
        if magic != _MAGIC:
            return magic, 0, 0, 0
        self._at = _HEADER.size
        header: tuple[bytes, int, int, int] = _HEADER.unpack_from(self._data)
        return header

    def _value(self, kind: int, depth: int) -> Any:
        if kind == _STRING:
            return self._text()
        if kind == _ARRAY and depth < _DEEPEST_ARRAY:
            return self._array(self._number(_TYPE), self._number(_LENGTH), depth + 1)
        return self._numbers(kind, 1)[0]

    def _array(self, kind: int, count: int, depth: int) -> list[Any]:
        if kind == _STRING:
            self._room_for(count, _LENGTH.size)
            return self._texts(count)
        if kind == _ARRAY:
            self._room_for(count, _TYPE.size + _LENGTH.size)
            return [self._value(kind, depth) for _ in range(count)]
        return list(self._numbers(kind, count))

    def _numbers(self, kind: int, count: int) -> tuple[Any, ...]:
        letter = _NUMBERS.get(kind)
        if letter is None:
            raise _Broken(f"a value of the unknown type {kind} before byte {self._at}")
        self._room_for(count, struct.calcsize(f"<{letter}"))
        layout = struct.Struct(f"<{count}{letter}")
        numbers = layout.unpack_from(self._data, self._at)
        self._at += layout.size
        return numbers

    def _number(self, layout: struct.Struct) -> int:
        number: int = layout.unpack_from(self._data, self._at)[0]
        self._at += layout.size
        return number

    def _text(self) -> str:
        return self._texts(1)[0]

    def _texts(self, count: int) -> list[str]:
        data, at, length_at, found = self._data, self._at, _LENGTH.unpack_from, []
        for _ in range(count):  # once for every token and merge of a vocabulary: no call in here that can be spared
            start = at + _LENGTH.size
            at = start + length_at(data, at)[0]
            raw = data[start:at]
            if len(raw) != at - start:
                raise _Broken(f"a text of {at - start} bytes at byte {start} of {len(data)}")
            found.append(raw.decode("utf-8", "replace"))
        self._at = at
        return found

    def _room_for(self, count: int, size: int) -> None:
        if count * size > len(self._data) - self._at:
            raise _Broken(f"{count} values of {size} bytes or more at byte {self._at} of {len(self._data)}")
