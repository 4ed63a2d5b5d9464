"""Reads JSON that has been checked to be strict, whatever its numbers: legal ones may be longer or larger than Python likes."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

_MOST_DIGITS = 4000  # Python refuses to read longer integers

Pairs = Callable[[list[tuple[str, Any]]], dict[str, Any]]


def read_json(raw: bytes, pairs: Pairs | None = None) -> Any:
    """A value from JSON; an integer of more than 4,000 digits becomes infinity. `pairs` makes the objects."""
    return json.loads(raw, object_pairs_hook=pairs, parse_int=_integer)


def _integer(text: str) -> int | float:
    return int(text) if len(text) < _MOST_DIGITS else float("-inf" if text.startswith("-") else "inf")
