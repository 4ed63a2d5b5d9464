"""From a profile's name and a model's name to the profile that counts. Reads no files and imports no tokenizer.

`auto` never fails for want of data: a model whose family is known, but not installed here, is counted by `approximate`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping

from tokenizer_profiles.base import TokenizerProfile
from tokenizer_profiles.builtin import APPROXIMATE, AUTO, builtin_kinds
from tokenizer_profiles.errors import UnknownProfile
from tokenizer_profiles.kinds import Ask, Choice, ProfileDescription, ProfileKind, ProfileRequest
from tokenizer_profiles.model_families import MODEL_FAMILIES, family_of

_log = logging.getLogger(__name__)


class ProfileRegistry:
    """The known kinds of profile. An empty one knows only `auto`."""

    def __init__(self, kinds: Mapping[str, ProfileKind] | None = None) -> None:
        self._kinds: dict[str, ProfileKind] = dict(kinds or {})

    @classmethod
    def with_builtins(cls) -> ProfileRegistry:
        """A registry of every built-in kind."""
        registry = cls()
        for name, kind in builtin_kinds().items():
            registry.register(name, kind)
        return registry

    def register(self, name: str, kind: ProfileKind) -> Callable[[], None]:
        """Adds a kind, or replaces the one of that name; what is returned takes it away again, safe to call twice."""
        self._kinds[name] = kind

        def undo() -> None:
            if self._kinds.get(name) is kind:
                del self._kinds[name]

        return undo

    def names(self) -> tuple[str, ...]:
        """Every name that `resolve` takes; one that ends with a colon wants an argument behind it."""
        return (AUTO, *(_called(name, kind) for name, kind in self._kinds.items()))

    def choose(self, model: str) -> Choice:
        """What `auto` gives to a model by its name; with the reason when that is `approximate`."""
        family = family_of(model)
        if family is None:
            return Choice(APPROXIMATE, "no tokenizer is known for a model of this name")
        kind = self._kinds.get(family.profile)
        if kind is None:
            return Choice(APPROXIMATE, f"there is no profile {family.profile}")
        if not kind.data_present:
            return Choice(APPROXIMATE, f"the data of {family.profile} is not on this machine: {kind.install}".rstrip(": "))
        return Choice(family.profile)

    def resolve(self, name: str, model: str = "", ask: Ask | None = None) -> TokenizerProfile:
        """The profile called `name` for a model; `auto` picks it by the model's name.

        Profiles are made once and shared, but for `remote`, which belongs to the `ask` it is given: keep it. Raises
        UnknownProfile, and ProfileNeedsServer for `remote` without `ask`. Loads nothing: see `TokenizerProfile.load`.
        """
        wanted = self._chosen(model) if name == AUTO else name
        stem, colon, argument = wanted.partition(":")
        kind = self._kinds.get(stem)
        if kind is None or kind.takes_argument != bool(colon) or bool(colon) != bool(argument):
            raise UnknownProfile(wanted, self.names())
        return kind.make(ProfileRequest(model, argument, ask))

    def describe(self) -> tuple[ProfileDescription, ...]:
        """Every kind for people to read, with the families of models that `auto` gives to it."""
        return tuple(
            ProfileDescription(
                _called(name, kind),
                tuple(family.label for family in MODEL_FAMILIES if family.profile == name),
                kind.approximate,
                kind.data_present,
                "" if kind.data_present else kind.install,
            )
            for name, kind in self._kinds.items()
        )

    def _chosen(self, model: str) -> str:
        choice = self.choose(model)
        if choice.reason and family_of(model) is not None:
            _log.warning("%s is counted approximately: %s", model, choice.reason)
        return choice.profile


def _called(name: str, kind: ProfileKind) -> str:
    return f"{name}:" if kind.takes_argument else name
