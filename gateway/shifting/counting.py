"""The only thing the core asks of the world: how many tokens a list of messages or blocks has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol


class TokenCounter(Protocol):
    """Counts a list as a prompt: of one group alone as its weight, of the whole for the last word. May remember."""

    def __call__(self, items: Sequence[Any], /) -> int:
        """The number of tokens."""
