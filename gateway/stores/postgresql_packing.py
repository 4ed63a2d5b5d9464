"""Bodies small on their way to a server and back: zstd at its quickest. Part of `postgresql`; knows bytes only.

A large one is packed and unpacked on another thread, which the library lets run beside the event loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import zstandard

SMALLEST = 2048  # bytes; the server keeps less than about two thousand in the row itself
LARGE = 65_536  # bytes; what takes longer than handing it to a thread
LEVEL = 1
Packed = tuple[bool, bytes]
_T = TypeVar("_T")


async def packed(bodies: list[bytes]) -> list[Packed]:
    """Each body packed (True) or, where that saves less than a tenth, as it is (False)."""
    return await _beside(sum(map(len, bodies)), lambda: [_pack(body) for body in bodies])


async def unpacked(body: bytes) -> bytes:
    """The body that was packed."""
    return await _beside(len(body), lambda: zstandard.ZstdDecompressor().decompress(body))


async def _beside(size: int, work: Callable[[], _T]) -> _T:
    return await asyncio.to_thread(work) if size >= LARGE else work()


def _pack(body: bytes) -> Packed:
    if len(body) < SMALLEST:
        return False, body
    smaller = zstandard.ZstdCompressor(level=LEVEL).compress(body)
    return (True, smaller) if len(smaller) < len(body) * 0.9 else (False, body)
