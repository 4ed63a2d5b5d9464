"""Values that must never be shown by accident. Knows nothing of where they come from or what they open."""

from __future__ import annotations

import re

_USER = re.compile(r"(?<=://).*@", re.DOTALL)
_QUERY = re.compile(r"\?.*", re.DOTALL)


class Secret:
    """A text that prints as `***`; only `reveal()` gives it away. An empty one is false."""

    __slots__ = ("_value",)

    def __init__(self, value: str = "") -> None:
        self._value = value

    def reveal(self) -> str:
        """The value itself; call it where it is used and nowhere else."""
        return self._value

    def __str__(self) -> str:
        return "***"

    def __repr__(self) -> str:
        return str(self)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)


class SecretUrl(Secret):
    """An address that prints without the credentials and the query it may hold."""

    __slots__ = ()

    def __str__(self) -> str:
        return _QUERY.sub("?***", _USER.sub("***@", self._value))
