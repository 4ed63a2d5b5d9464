"""Reads the parameters of a query."""

from __future__ import annotations

from collections.abc import Mapping

from gateway.errors import InvalidRequest

_MOST_DIGITS = 12


def whole_number(query: Mapping[str, str], name: str, default: int, *, least: int, most: int) -> int:
    """A parameter that is a whole number within bounds, the default where it is absent. Raises InvalidRequest."""
    written = query.get(name)
    if written is None:
        return default
    number = int(written) if written.isascii() and written.isdigit() and len(written) <= _MOST_DIGITS else least - 1
    if not least <= number <= most:
        raise InvalidRequest(f"`{name}` must be a whole number from {least} to {most}.", param=name)
    return number
