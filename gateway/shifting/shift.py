"""The algorithm: the oldest unprotected group leaves first, and every cut ends with a whole recount.

Pure: it computes from values and a counting function, changes nothing it was given and always ends. Each group is weighed at
most once and whole recounts are few, so the work is linear in the number of messages.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from gateway.shifting.blocks import PROTECTED_KINDS, PromptBlock, message_protects
from gateway.shifting.counting import TokenCounter
from gateway.shifting.groups import BlockGroup, message_groups
from gateway.shifting.links import ToolLinks, tool_links
from gateway.shifting.result import ShiftResult

Item = TypeVar("Item", bound="Mapping[str, Any] | PromptBlock")


def shift_context(messages: Sequence[Item], count_tokens: TokenCounter, budget: int, cut_step: float = 0.0) -> ShiftResult[Item]:
    """Leaves out the oldest unprotected groups until the rest fits `budget` tokens.

    `messages` are OpenAI message dicts or PromptBlocks; `count_tokens` gives the tokens of a list of them. With `cut_step` (a
    share of the budget) cuts are rounded up to whole steps, so that the kept start of a growing chat stays the same for many
    turns. Nothing given is changed; a prompt that can't be brought down ends with `fits` false.

    >>> roles_and_texts = [("user", "one two"), ("assistant", "three"), ("user", "four")]
    >>> chat = [{"role": role, "content": text} for role, text in roles_and_texts]
    >>> words = lambda messages: sum(len(message["content"].split()) for message in messages)
    >>> shift_context(chat, words, budget=2).kept
    [{'role': 'assistant', 'content': 'three'}, {'role': 'user', 'content': 'four'}]
    """
    items = list(messages)
    total = count_tokens(items)
    if total <= budget:
        return ShiftResult(items, [], (), total, fits=True)
    cut = _Cut(items, count_tokens, budget)
    cut.leave_in_steps(total, cut_step)
    cut.leave_as_needed()
    kept, excluded = cut.split()
    return ShiftResult(kept, excluded, (), cut.tokens, fits=cut.tokens <= budget)


@dataclass(frozen=True, slots=True)
class Protection:
    """What must stay of a prompt, by position, and where the current turn begins."""

    groups: tuple[BlockGroup, ...]
    protected: tuple[bool, ...]  # by group
    turn_start: int  # position of the current user message; the prompt's length where there is none
    own: Sequence[bool]  # by position: protected by what it is, wherever it stands

    def removable(self) -> list[BlockGroup]:
        """The unprotected groups, oldest first."""
        return [group for group, protected in zip(self.groups, self.protected, strict=True) if not protected]

    def last_resort(self) -> list[BlockGroup]:
        """Tool groups of the current turn that may leave once nothing else can: oldest first, never the newest of them."""
        tools = [group for group in self.groups if group.calls and group.first > self.turn_start]
        return [group for group in tools[:-1] if not any(self.own[i] for i in group.indexes)]


def protection(blocks: Sequence[PromptBlock]) -> Protection:
    """Finds the groups of a prompt and which of them are protected: by a member's own nature or by the current turn."""
    own = [block.pinned or block.required or block.kind in PROTECTED_KINDS for block in blocks]
    return _protection([block.role for block in blocks], [block.links for block in blocks], own)


def _protection(roles: Sequence[object], links: Sequence[ToolLinks], own: Sequence[bool]) -> Protection:
    groups = message_groups(links)
    start = _turn_start(zip(reversed(roles), reversed(links), strict=True), len(roles))
    turn = start if start < len(roles) else len(roles) - 1  # without a user message the newest group is the current turn
    protected = [
        indexes[-1] >= turn or own[indexes[0]] or (len(indexes) > 1 and any(own[i] for i in indexes)) for indexes, _ in groups
    ]
    return Protection(tuple(groups), tuple(protected), start, own)


def current_turn(blocks: Sequence[PromptBlock]) -> int:
    """The position of the last user message that holds more than tool results; the prompt's length where there is none."""
    return _turn_start(((block.role, block.links) for block in reversed(blocks)), len(blocks))


def _turn_start(from_the_end: Iterable[tuple[object, ToolLinks]], size: int) -> int:
    for back, (role, links) in enumerate(from_the_end, 1):
        if role == "user" and not links.only_results:
            return size - back
    return size


class _Cut:
    """One cut under way: which groups have left, and the last whole count of the rest."""

    def __init__(self, items: list[Any], count_tokens: TokenCounter, budget: int) -> None:
        self._items = items
        self._protection = _protection_of(items)
        self._counted = all(isinstance(item, PromptBlock) and item.tokens is not None for item in items)
        self._count = count_tokens
        self._budget = budget
        self._gone: set[int] = set()
        self._too_heavy = 0.0  # what a group weighs alone beyond what its leaving frees, such as a primer
        self.tokens = 0

    def leave_in_steps(self, total: int, cut_step: float) -> None:
        """Unprotected groups leave until a whole number of steps is freed, then one by one while it is still over."""
        step = max(1, math.floor(cut_step * self._budget))
        wanted = math.ceil((total - self._budget) / step) * step
        waiting = self._protection.removable()
        freed = left = 0
        while freed < wanted and left < len(waiting):
            freed += self._weight(waiting[left])
            left += 1
        self._leave(waiting[:left])
        if left:
            self._too_heavy = (freed - (total - self.tokens)) / left
        self._leave_fewest(waiting[left:])

    def leave_as_needed(self) -> None:
        """Tool groups of the current turn leave, exactly as many as needed."""
        if self.tokens > self._budget:
            self._leave_fewest(self._protection.last_resort())

    def split(self) -> tuple[list[Any], list[Any]]:
        """What stays and what has left, in the input's order."""
        kept = [item for i, item in enumerate(self._items) if i not in self._gone]
        return kept, [self._items[i] for i in sorted(self._gone)]

    def _leave_fewest(self, waiting: Sequence[BlockGroup]) -> None:
        """Lets the fewest of these leave, in order, that bring the count down; all of them where none does.

        The same as one by one with a recount each, but their weights tell about how many it will be, and the search for the
        exact number starts there: a few recounts instead of one a group.
        """
        if self.tokens <= self._budget or not waiting:
            return
        likely, over = 0, float(self.tokens - self._budget)
        while over > 0 and likely < len(waiting):
            over -= self._weight(waiting[likely]) - self._too_heavy
            likely += 1
        counted: dict[int, int] = {}

        def fits(number: int) -> bool:
            if number not in counted:
                counted[number] = self._without(waiting[:number])
            return counted[number] <= self._budget

        enough = _first_true(len(waiting), likely, fits)
        self._leave(waiting[:enough], counted.get(enough))

    def _leave(self, groups: Sequence[BlockGroup], counted: int | None = None) -> None:
        self.tokens = self._without(groups) if counted is None else counted
        self._gone.update([i for group in groups for i in group.indexes])

    def _without(self, groups: Sequence[BlockGroup]) -> int:
        gone = self._gone.union([i for group in groups for i in group.indexes])
        return self._count([item for i, item in enumerate(self._items) if i not in gone])

    def _weight(self, group: BlockGroup) -> int:
        """The tokens of a group: what is known of its blocks, else a count of the group alone."""
        members = [self._items[i] for i in group.indexes]
        return sum([block.tokens for block in members]) if self._counted else self._count(members)


def _protection_of(items: Sequence[Any]) -> Protection:
    """Of blocks or of message dicts, which need not become blocks for it."""
    if all(isinstance(item, PromptBlock) for item in items):
        return protection(items)
    roles = [item.get("role") for item in items]
    return _protection(roles, [tool_links(item) for item in items], [message_protects(item) for item in items])


def _first_true(most: int, likely: int, holds: Callable[[int], bool]) -> int:
    """The smallest number from 1 to `most` that holds, `most` where none does; `holds` is taken to be monotone.

    Looks outwards from the likely number in growing strides, then halves what is left.
    """
    stride = 1
    if holds(likely):
        low, high = likely, likely
        while low > 1 and holds(low - 1):
            high = low - 1
            low, stride = max(1, high - stride), stride * 2
    else:
        low, high = likely + 1, likely + 1
        while high < most and not holds(high):
            low = high + 1
            high, stride = min(most, high + stride), stride * 2
    while low < high:
        middle = (low + high) // 2
        if holds(middle):
            high = middle
        else:
            low = middle + 1
    return min(high, most)
