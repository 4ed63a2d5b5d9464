"""Strategies by name. Built-ins enter by the same door as everyone else's."""

from __future__ import annotations

from gateway.shifting.strategies.base import AnyStrategy, Cleanup
from gateway.shifting.strategies.builtin import BUILTIN


class UnknownStrategy(KeyError):
    """No strategy of that name is registered; `names()` are the known ones."""

    def __init__(self, name: str, known: tuple[str, ...]) -> None:
        super().__init__(name)
        self.name = name
        self._known = known

    def names(self) -> tuple[str, ...]:
        """The names that are known."""
        return self._known

    def __str__(self) -> str:
        return f"unknown context strategy; known are: {', '.join(self._known)}"


class ContextStrategyRegistry:
    """Strategies by name; registering a name again stacks, and the newest serves."""

    def __init__(self) -> None:
        self._stacks: dict[str, list[tuple[object, AnyStrategy]]] = {}

    @classmethod
    def with_builtins(cls) -> ContextStrategyRegistry:
        """A registry that holds the product's own strategies."""
        registry = cls()
        for name, strategy in BUILTIN.items():
            registry.register(name, strategy)
        return registry

    def register(self, name: str, strategy: AnyStrategy) -> Cleanup:
        """Adds a strategy; the cleanup removes just this registration and may be called twice."""
        ticket = object()
        self._stacks.setdefault(name, []).append((ticket, strategy))

        def cleanup() -> None:
            rest = [entry for entry in self._stacks.get(name, ()) if entry[0] is not ticket]
            if rest:
                self._stacks[name] = rest
            else:
                self._stacks.pop(name, None)

        return cleanup

    def get(self, name: str) -> AnyStrategy:
        """The strategy that serves under a name. Raises UnknownStrategy."""
        stack = self._stacks.get(name)
        if not stack:
            raise UnknownStrategy(name, self.names())
        return stack[-1][1]

    def names(self) -> tuple[str, ...]:
        """The registered names, sorted."""
        return tuple(sorted(self._stacks))
