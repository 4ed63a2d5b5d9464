"""The contract of a kind of profile: what a name such as `o200k_base` or `hf:DIR` makes. Knows no member of the family."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import cache

from tokenizer_profiles.base import TokenizerProfile

Ask = Callable[[str, str, bytes], Awaitable[bytes]]  # method, path from the server's root, body -> body of a good answer


@dataclass(frozen=True, slots=True)
class ProfileRequest:
    """What is known when a profile is asked for: the model's name, what stands behind the colon of the profile's, a server."""

    model: str = ""
    argument: str = ""
    ask: Ask | None = None


class ProfileKind(ABC):
    """Makes the profiles of one name; shares between them what can be shared."""

    approximate: bool = False  # whether its profiles only estimate plain text
    takes_argument: bool = False  # whether the name is followed by a colon and an argument
    install: str = ""  # what brings the data when it is not present, as in "install sluicegate[qwen]"

    @property
    def data_present(self) -> bool:
        """Whether what it counts with is on this machine; True when it needs nothing."""
        return True

    @abstractmethod
    def make(self, request: ProfileRequest) -> TokenizerProfile:
        """A profile for a request. Reads nothing from disk and opens no connection."""


class LateKind(ProfileKind):
    """A kind that is made, and its module imported, when something of it is asked for. It may not be an approximate one."""

    def __init__(self, load: Callable[[], ProfileKind], *, takes_argument: bool = False) -> None:
        self._load = cache(load)
        self.takes_argument = takes_argument

    @property
    def install(self) -> str:  # type: ignore[override]  # read only here
        """See `ProfileKind`."""
        return self._load().install

    @property
    def data_present(self) -> bool:
        """See `ProfileKind`."""
        return self._load().data_present

    def make(self, request: ProfileRequest) -> TokenizerProfile:
        """See `ProfileKind`."""
        return self._load().make(request)


@dataclass(frozen=True, slots=True)
class ProfileDescription:
    """A line for people: a profile's name, the model families `auto` gives to it, its exactness, whether its data is here.

    The name ends with a colon where an argument follows; `install` is empty unless the data is missing.
    """

    name: str
    models: tuple[str, ...]
    approximate: bool
    data_present: bool
    install: str = ""


@dataclass(frozen=True, slots=True)
class Choice:
    """What `auto` gives to a model: a profile's name, and why it is not the better one of the model's family, if so."""

    profile: str
    reason: str = ""
