"""Names for requests and generations: unique, not secret."""

from __future__ import annotations

import random

_random = random.Random()  # noqa: S311  # seeded by the system once; asking it for each name costs a system call


def new_id(prefix: str) -> str:
    """A new name: the prefix and 128 random bits."""
    return f"{prefix}{_random.getrandbits(128):032x}"
