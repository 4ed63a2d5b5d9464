"""Waiting for something to become true, with a deadline instead of a guess."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_EVERY_S = 0.005


def until(found: Callable[[], T], what: str, seconds: float = 10.0) -> T:
    """What `found` returns, once that is truthy. Fails after so many seconds."""
    deadline = time.monotonic() + seconds
    while not (value := found()):
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds:g} s: {what}")
        time.sleep(_EVERY_S)
    return value
