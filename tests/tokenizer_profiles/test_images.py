from __future__ import annotations

import base64
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer_profiles.images import PatchRule, TileRule, base64_size, data_url_size

GPT_4O = TileRule(85, 170)


def png(width: int, height: int) -> bytes:
    return b"\x89PNG\r\n\x1a\n" + struct.pack(">I4sII", 13, b"IHDR", width, height) + b"\x08\x06\x00\x00\x00" * 8


def jpeg(width: int, height: int, metadata: int = 20_000) -> bytes:
    exif = b"\xff\xe1" + struct.pack(">H", metadata + 2) + b"x" * metadata
    frame = b"\xff\xff\xc2" + struct.pack(">HBHHB", 17, 8, height, width, 3)
    return b"\xff\xd8" + exif + frame + b"\x00" * 20


def webp(kind: bytes, data: bytes) -> bytes:
    return b"RIFF\x00\x00\x00\x00WEBP" + kind + struct.pack("<I", len(data)) + data + b"\x00" * 20


IMAGES = {
    "png": png(640, 480),
    "gif": b"GIF89a" + struct.pack("<HH", 640, 480) + b"\x00" * 20,
    "jpeg": jpeg(640, 480),
    "webp lossy": webp(b"VP8 ", b"\x00" * 3 + b"\x9d\x01\x2a" + struct.pack("<HH", 640, 480)),
    "webp lossless": webp(b"VP8L", b"\x2f" + struct.pack("<I", 639 | 479 << 14)),
    "webp extended": webp(b"VP8X", b"\x00" * 4 + (639).to_bytes(3, "little") + (479).to_bytes(3, "little")),
}


def url(data: bytes, kind: str = "image/png") -> str:
    return f"data:{kind};base64," + base64.b64encode(data).decode()


@pytest.mark.parametrize("name", IMAGES)
def test_the_size_is_read_from_the_header(name: str) -> None:
    assert data_url_size(url(IMAGES[name])) == (640, 480)
    assert base64_size(base64.urlsafe_b64encode(IMAGES[name]).decode()) == (640, 480)


@pytest.mark.parametrize(
    "text",
    [
        "https://example.test/a.png",
        "data:image/png,abc",
        "data:image/png;base64,AAAA",
        "data:image/png;base64,\x00\ud800",
        "",
        "data:",
    ],
)
def test_what_cannot_be_read_has_no_size(text: str) -> None:
    assert data_url_size(text) is None


def test_a_cut_or_empty_image_has_no_size() -> None:
    assert data_url_size(url(png(640, 480)[:18])) is None
    assert data_url_size(url(png(0, 480))) is None
    assert data_url_size(url(b"\xff\xd8\xff")) is None
    assert data_url_size(url(b"\xff\xd8\x00\x00")) is None
    assert data_url_size(url(b"\xff\xd8\xff\xe1\x00\x02")) is None
    assert data_url_size(url(webp(b"ICCP", b""))) is None


@settings(deadline=None, max_examples=100)
@given(
    st.binary(max_size=64),
    st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"\xff\xd8\xff", b"GIF89a", b"RIFF\x00\x00\x00\x00WEBPVP8"]),
)
def test_no_bytes_raise(data: bytes, head: bytes) -> None:
    size = base64_size(base64.b64encode(head + data).decode())
    assert GPT_4O.tokens(size) >= 85


def test_tiles_follow_the_published_examples() -> None:
    assert GPT_4O.tokens((1024, 1024)) == 765
    assert GPT_4O.tokens((2048, 4096)) == 1105
    assert GPT_4O.tokens((4096, 8192), low=True) == 85
    assert GPT_4O.tokens((512, 512)) == 255


def test_patches_follow_the_published_examples() -> None:
    assert PatchRule(1.0).tokens((1024, 1024)) == 1024
    assert PatchRule(1.0).tokens((1800, 2400)) == 1452
    assert PatchRule(1.62).tokens((1024, 1024)) == 1659
    assert PatchRule(1.0).tokens((1, 1_000_000)) <= 1536
    assert PatchRule(1.0).tokens((2000, 2000), low=True) == PatchRule(1.0).tokens(None, low=True) == 256


@settings(deadline=None, max_examples=200)
@given(st.integers(1, 100_000), st.integers(1, 100_000))
def test_an_unknown_size_costs_the_maximum(width: int, height: int) -> None:
    for rule in (GPT_4O, PatchRule(1.62)):
        assert 0 < rule.tokens((width, height)) <= rule.tokens(None)
