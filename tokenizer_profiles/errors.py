"""What can go wrong before a count is made; counting itself never raises. Knows nothing of the gateway.

ProfileError
├── UnknownProfile        no profile of that name (also a KeyError)
├── ProfileDataMissing    its vocabulary is not installed
├── ProfileNeedsServer    it asks a server, and none was given
└── RemoteUnavailable     the server did not answer, or not in a way that is understood
"""

from __future__ import annotations

from collections.abc import Iterable


class ProfileError(Exception):
    """A tokenizer profile cannot be had; the message says what to do."""


class UnknownProfile(ProfileError, KeyError):
    """No profile has this name; `known` holds those that exist."""

    def __init__(self, name: str, known: Iterable[str]) -> None:
        self.name = name
        self.known = tuple(known)
        super().__init__(f"unknown tokenizer profile {name!r}; known: {', '.join(self.known)}")

    def __str__(self) -> str:
        """The message itself (a KeyError would show it quoted)."""
        return str(self.args[0])


class ProfileDataMissing(ProfileError):
    """The vocabulary of a profile is not on this machine, and nothing is ever downloaded."""


class ProfileNeedsServer(ProfileError):
    """The profile counts by asking a server, and was made without one."""


class RemoteUnavailable(ProfileError):
    """The counting server cannot be reached, refuses, or answers something else than llama.cpp does."""
