"""Copies of blocks for foreign code, and the way back: what is unchanged becomes the original again, the rest plain data.

So whatever a plug-in does to the objects it was given, or puts into those it returns, the gateway's own stay as they are. Each
set of copies is marked, so that a list of another request is known as foreign. Everything here runs on the plug-in's thread.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from gateway.shifting import BlockKind, PromptBlock, ShiftResult, TokenCounter
from gateway.shifting.blocks import text_of
from gateway.shifting.guard import Refused
from gateway.shifting.links import ToolLinks
from gateway.shifting.shift import protection

MOST_ADDED = 256  # blocks one call may add
_numbers = itertools.count()


@dataclass(frozen=True, slots=True)
class _Marked(ToolLinks):
    """The links of a copy, with the number of the set it belongs to. Survives `replace`, `with_content` and deep copies."""

    number: int = -1


class Copies:
    """Copies of one prompt, given out once."""

    def __init__(self, blocks: Sequence[PromptBlock]) -> None:
        self._number = next(_numbers)
        self._originals = {block.id: block for block in blocks}
        self._protected = _protected(blocks)
        self.blocks = [self._copy(block) for block in blocks]
        self._by_copy = {id(copy): block for copy, block in zip(self.blocks, blocks, strict=True)}
        self._kept_alive = tuple(self.blocks)  # ids of objects are unique only while they live

    def counter(self, count_tokens: TokenCounter, require_time: Callable[[], None]) -> TokenCounter:
        """Counts copies as their originals, and what was written by its text, whatever number it bears; raises out of time."""

        def count(items: Sequence[Any]) -> int:
            require_time()
            return count_tokens([self._by_copy.get(id(item)) or replace(item, tokens=None) for item in items])

        return count

    def result(self, returned: object) -> ShiftResult[PromptBlock]:
        """A strategy's result in terms of the originals. Raises Refused."""
        if not isinstance(returned, ShiftResult):
            raise Refused("no-result", f"it returned {type(returned).__name__} instead of a ShiftResult")
        reasons = returned.reasons if isinstance(returned.reasons, Mapping) else {}
        given = {str(key): reason for key, reason in reasons.items()}
        return ShiftResult(
            self.taken_back(returned.kept), self._mentioned(returned.excluded), self._mentioned(returned.truncated), reasons=given
        )

    def taken_back(self, returned: object) -> list[PromptBlock]:
        """Returned blocks in terms of the originals. Raises Refused for anything but a list of sound blocks."""
        if not isinstance(returned, (list, tuple)):
            raise Refused("no-blocks", f"it returned {type(returned).__name__} instead of a list of blocks")
        if len(returned) > len(self.blocks) + MOST_ADDED:
            raise Refused("too-many-blocks", f"it returned {len(returned)} blocks, more than {MOST_ADDED} new ones")
        return [self._back(item) for item in returned]

    def _mentioned(self, items: object) -> list[PromptBlock]:
        """The originals of what only needs to be named."""
        listed = items if isinstance(items, (list, tuple)) else ()
        names = [item.id for item in listed if isinstance(item, PromptBlock) and isinstance(item.id, str)]
        return [self._originals[name] for name in names if name in self._originals]

    def _copy(self, block: PromptBlock) -> PromptBlock:
        links = _Marked(block.links.calls, block.links.results, block.links.only_results, self._number)
        return replace(block, message=_plain(block.message), links=links, protected=block.id in self._protected)

    def _back(self, item: object) -> PromptBlock:
        if not isinstance(item, PromptBlock) or not _is_readable(item):
            raise Refused("no-blocks", f"among the blocks it returned is a {type(item).__name__} that is no sound block")
        if isinstance(item.links, _Marked) and item.links.number != self._number:
            raise Refused("foreign-blocks", "it returned blocks of another request")
        original = self._originals.get(item.id)
        if original is None:
            return _made(item)
        if not isinstance(item.links, _Marked):
            raise Refused("foreign-blocks", "it returned blocks of its own under names of this request's")
        return original if _is_same(item, original) else _edited(item, original)


def _protected(blocks: Sequence[PromptBlock]) -> set[str]:
    plan = protection(blocks)
    held = [group for group, protected in zip(plan.groups, plan.protected, strict=True) if protected]
    return {blocks[i].id for group in held for i in group.indexes}


def _is_readable(block: PromptBlock) -> bool:
    return all(isinstance(text, str) for text in (block.id, block.role, block.content)) and isinstance(block.message, Mapping)


def _is_same(block: PromptBlock, original: PromptBlock) -> bool:
    return block.role == original.role and block.content == original.content and block.message == original.message


def _edited(block: PromptBlock, original: PromptBlock) -> PromptBlock:
    """The original with what was written into it. A text wins over a message that was left as it was."""
    changed = block.message != original.message
    message = dict(block.message)
    if not changed and block.content != original.content:
        message["content"] = block.content
    if block.role != original.role:
        message["role"] = block.role
    message = _sound(message)
    role = message.get("role")
    return replace(
        original, role=role if isinstance(role, str) else original.role, content=text_of(message), message=message, tokens=None
    )


def _made(block: PromptBlock) -> PromptBlock:
    message = _sound({**block.message, "role": block.role})
    if text_of(message) != block.content:
        message["content"] = _sound({"content": block.content})["content"]
    kind = next((kind for kind in BlockKind if block.kind == kind), BlockKind.OTHER)
    made = PromptBlock("", str(message["role"]), text_of(message), kind, message=message)
    return replace(made, pinned=block.pinned is True, required=block.required is True, protected=block.protected is True)


def _sound(message: Mapping[str, Any]) -> dict[str, Any]:
    """A message as plain data that can be sent. Raises Refused for one that is no JSON."""
    try:
        text = json.dumps(message, ensure_ascii=False, allow_nan=False)
        text.encode("utf-8")  # half a surrogate pair can't be sent
    except (TypeError, ValueError, RecursionError) as error:
        raise Refused("no-json", "a message it wrote can't be sent as JSON") from error
    sound: dict[str, Any] = json.loads(text)
    return sound


def _plain(value: Any) -> Any:
    """A deep copy of JSON-like data."""
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, (list, tuple)) else value
