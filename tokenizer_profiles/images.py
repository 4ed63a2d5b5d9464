"""What an image costs: its size from the header bytes of a data URL, and OpenAI's two published rules. Never fetches a URL.

Knows nothing of messages. Pixels are never decoded, so a header that lies costs no memory.
"""

from __future__ import annotations

import binascii
import math
import struct
from dataclasses import dataclass
from typing import Protocol

Size = tuple[int, int]

_HEADER_CHARS = 128  # base64 characters that hold the size of a PNG, GIF or WebP
_JPEG_CHARS = 700_000  # a JPEG's size stands behind its metadata, which may be long
_LOW_SIDE = 512


class ImageRule(Protocol):
    """The tokens of an image for a family of models."""

    def tokens(self, size: Size | None, *, low: bool = False) -> int:
        """The tokens of an image of (width, height) pixels; None is an unknown size and costs the maximum."""


@dataclass(frozen=True, slots=True)
class TileRule:
    """Fit into 2048 pixels, short side to 768, then `base` and `tile` for each 512-pixel tile; low detail is the base."""

    base: int
    tile: int

    def tokens(self, size: Size | None, *, low: bool = False) -> int:
        """See `ImageRule`."""
        if low:
            return self.base
        width, height = _shrunk(size or (4096, 1536), 2048)
        scale = min(1.0, 768 / min(width, height))
        return self.base + self.tile * math.ceil(width * scale / 512) * math.ceil(height * scale / 512)


@dataclass(frozen=True, slots=True)
class PatchRule:
    """One patch for each 32 pixels square, shrunk to at most `cap` patches, times `factor`; low detail fits into 512 pixels."""

    factor: float
    cap: int = 1536

    def tokens(self, size: Size | None, *, low: bool = False) -> int:
        """See `ImageRule`."""
        if size is None:
            patches = _LOW_SIDE**2 // 32**2 if low else self.cap
        else:
            patches = self._patches(*(_shrunk(size, _LOW_SIDE) if low else (float(size[0]), float(size[1]))))
        return math.ceil(patches * self.factor)

    def _patches(self, width: float, height: float) -> int:
        across, down = math.ceil(width / 32), math.ceil(height / 32)
        if across * down <= self.cap:
            return across * down
        scale = math.sqrt(32 * 32 * self.cap / (width * height))
        wide, high = width * scale / 32, height * scale / 32
        scale *= min(max(1, math.floor(wide)) / wide, max(1, math.floor(high)) / high)
        return min(self.cap, math.ceil(width * scale / 32) * math.ceil(height * scale / 32))


def data_url_size(url: str) -> Size | None:
    """The (width, height) of the image in a data URL; None for any other URL and for what cannot be read."""
    head, comma, _ = url[:200].partition(",")
    if not comma or not head.startswith("data:") or not head.endswith(";base64"):
        return None
    return base64_size(url[len(head) + 1 : len(head) + 1 + _JPEG_CHARS])


def base64_size(data: str) -> Size | None:
    """The (width, height) of a base64 PNG, JPEG, GIF or WebP; None for what cannot be read."""
    try:
        header = _decoded(data[:_HEADER_CHARS])
        if header[:2] == b"\xff\xd8":
            header = _decoded(data[:_JPEG_CHARS])
        size = image_size(header)
    except (ValueError, struct.error, IndexError):
        return None
    return size if size is not None and min(size) > 0 else None


def image_size(data: bytes) -> Size | None:
    """The (width, height) in the first bytes of an image file; None for another format. May raise on a cut header."""
    if data.startswith(b"\x89PNG\r\n\x1a\n"):
        return struct.unpack(">II", data[16:24])
    if data[:6] in (b"GIF87a", b"GIF89a"):
        return struct.unpack("<HH", data[6:10])
    if data[:2] == b"\xff\xd8":
        return _jpeg_size(data)
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return _webp_size(data)
    return None


def _shrunk(size: Size, side: int) -> tuple[float, float]:
    scale = min(1.0, side / max(size))
    return size[0] * scale, size[1] * scale


def _decoded(data: str) -> bytes:
    whole = data.translate({ord("-"): "+", ord("_"): "/"})
    whole = whole[: len(whole) // 4 * 4]
    return binascii.a2b_base64(whole)


def _jpeg_size(data: bytes) -> Size | None:
    position = 2
    while position < len(data):
        if data[position] != 0xFF:
            return None
        marker = data[position + 1]
        if marker == 0xFF:  # padding
            position += 1
        elif 0xC0 <= marker <= 0xCF and marker not in (0xC4, 0xC8, 0xCC):
            height, width = struct.unpack(">HH", data[position + 5 : position + 9])
            return width, height
        else:
            position += 2 + int(struct.unpack(">H", data[position + 2 : position + 4])[0])
    return None


def _webp_size(data: bytes) -> Size | None:
    kind = data[12:16]
    if kind == b"VP8 ":
        width, height = struct.unpack("<HH", data[26:30])
        return width & 0x3FFF, height & 0x3FFF
    if kind == b"VP8L":
        bits = int(struct.unpack("<I", data[21:25])[0])
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8X":
        return int.from_bytes(data[24:27], "little") + 1, int.from_bytes(data[27:30], "little") + 1
    return None
