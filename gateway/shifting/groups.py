"""Blocks that may only leave together: a tool call with all its results, wherever they stand.

The rules are the contract's: a result belongs to the nearest earlier call of its id that still waits for one, or, where none
waits, to the nearest earlier call of that id, so that ids reused in every turn stay apart. Groups that share a member are one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gateway.shifting.links import NO_LINKS, ToolLinks


class BlockGroup(NamedTuple):
    """Positions of blocks that leave together, in order; `calls` says whether a tool call is among them."""

    indexes: tuple[int, ...]
    calls: bool = False

    @property
    def first(self) -> int:
        """The position of the oldest member, which is the group's age."""
        return self.indexes[0]


class _Call:
    __slots__ = ("index", "waiting")

    def __init__(self, index: int) -> None:
        self.index = index
        self.waiting = True


class _Calls:
    """The calls seen so far, by every id they go by."""

    def __init__(self) -> None:
        self._latest: dict[str, _Call] = {}
        self._waiting: dict[str, list[_Call]] = {}

    def add(self, index: int, ids: tuple[str, ...]) -> None:
        call = _Call(index)
        for name in ids:
            self._latest[name] = call
            self._waiting.setdefault(name, []).append(call)

    def answered_by(self, result: str) -> _Call | None:
        stack = self._waiting.get(result, [])
        while stack:
            call = stack.pop()
            if call.waiting:
                call.waiting = False
                return call
        return self._latest.get(result)


class _Roots:
    """Disjoint sets of positions; the oldest member is the root."""

    def __init__(self, size: int) -> None:
        self._parent = list(range(size))

    def root(self, index: int) -> int:
        parent = self._parent
        while parent[index] != index:
            parent[index] = parent[parent[index]]
            index = parent[index]
        return index

    def join(self, one: int, other: int) -> None:
        a, b = self.root(one), self.root(other)
        self._parent[max(a, b)] = min(a, b)


def group_roots(links: Sequence[ToolLinks]) -> list[int]:
    """For each message the position of its group's oldest member. Linear in the number of links."""
    roots = _Roots(len(links))
    calls = _Calls()
    for index, link in enumerate(links):
        if not link:
            continue
        for result in link.results:
            call = calls.answered_by(result)
            if call is not None:
                roots.join(call.index, index)
        for ids in link.calls:
            calls.add(index, ids)
    return [roots.root(index) for index in range(len(links))]


def has_links(links: Sequence[ToolLinks]) -> bool:
    """Whether any message calls or answers anything; where none does, each is a group of its own."""
    return links.count(NO_LINKS) < len(links) and any(links)


def message_groups(links: Sequence[ToolLinks]) -> list[BlockGroup]:
    """All groups of a prompt given the links of its messages, oldest first."""
    if not has_links(links):
        return list(map(BlockGroup, zip(range(len(links)))))
    members: dict[int, list[int]] = {}
    for index, root in enumerate(group_roots(links)):
        members.setdefault(root, []).append(index)
    return [BlockGroup(tuple(indexes), any(links[i].calls for i in indexes)) for _, indexes in sorted(members.items())]
