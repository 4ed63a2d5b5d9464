"""What foreign code may not do to a prompt: compares what came back with what was given, restores, refuses, and counts anew.

Pure, and trusts nobody: neither numbers nor marks of what came back count. Knows no threads, timeouts or plug-ins. A refused
result is replaced by that of `truncate`; each interference is one remark and never the request's failure.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from gateway.shifting.blocks import PROTECTED_KINDS, BlockKind, PromptBlock
from gateway.shifting.counting import TokenCounter
from gateway.shifting.links import tool_links
from gateway.shifting.result import Reason, ShiftResult
from gateway.shifting.shift import Protection, protection, shift_context

ADDED = "plug-in"
"""The source of every block that foreign code made."""

ROLES = ("system", "developer", "user", "assistant")
"""The roles a made block may have."""

_LEAVING = (Reason.CONTEXT_SHIFT, Reason.LOW_RELEVANCE, Reason.MANUAL, Reason.SUMMARIZED)  # what a strategy may give as a reason


class Interference(NamedTuple):
    """One thing that was put right: a stable code, and words for people."""

    code: str
    text: str


class Guarded(NamedTuple):
    """A result that can be used, what was put right, and whether `truncate` made it instead."""

    result: ShiftResult[PromptBlock]
    interferences: list[Interference]
    rejected: bool = False


class Restored(NamedTuple):
    """Blocks after an interceptor, why others of them left (by id), and what was put right."""

    blocks: list[PromptBlock]
    reasons: dict[str, Reason]
    interferences: list[Interference]


class Refused(Exception):
    """What came back can't be used at all."""

    def __init__(self, code: str, text: str) -> None:
        super().__init__(text)
        self.interference = Interference(code, text)


def guarded(
    blocks: Sequence[PromptBlock], result: object, count_tokens: TokenCounter, budget: int, cut_step: float = 0.0
) -> Guarded:
    """What is left of a strategy's `result` for these blocks: whole, in order, counted anew and shifted until it fits.

    A result that drops or edits protected blocks, or is none, is refused in favour of `truncate` with this cut step.
    """
    try:
        back = _taken_back(blocks, _kept_list(result))
        _require_protected(back)
    except Refused as refused:
        return Guarded(truncated(blocks, count_tokens, budget, cut_step), [refused.interference], rejected=True)
    listed = _Listed(result)
    _note_bookkeeping(back, listed)
    reasons = back.leave_whole(Reason.CONTEXT_SHIFT)
    kept, tokens, late = _brought_down(back.in_order(), count_tokens, budget)
    if any(block.source == ADDED for block in late):
        back.note("added-withdrawn", "blocks it added left again, because with them the prompt was over the budget")
    stay = {block.id for block in kept}
    summarized = listed.truncated if any(block.source == ADDED for block in kept) else frozenset[str]()
    reasons = {key: reason for key, reason in listed.reasons.items() if reason is not Reason.SUMMARIZED} | reasons
    reasons |= dict.fromkeys(summarized, Reason.SUMMARIZED) | {block.id: Reason.FINAL_BUDGET for block in late}
    gone = [block for block in blocks if block.id not in stay]
    compressed = [block for block in gone if reasons.get(block.id) is Reason.SUMMARIZED]
    left = [block for block in gone if reasons.get(block.id) is not Reason.SUMMARIZED]
    shortened = [block for i, block in back.known.items() if block.id in listed.truncated & stay and block is not blocks[i]]
    known = {block.id for block in gone}
    reasons = {key: reason for key, reason in reasons.items() if key in known}
    return Guarded(ShiftResult(kept, left, [*compressed, *shortened], tokens, tokens <= budget, reasons), back.notes)


def truncated(
    blocks: Sequence[PromptBlock], count_tokens: TokenCounter, budget: int, cut_step: float = 0.0
) -> ShiftResult[PromptBlock]:
    """What serves in place of a refused result."""
    return shift_context(blocks, count_tokens, budget, cut_step)


def restored(kept_before: Sequence[PromptBlock], returned: object) -> Restored:
    """The prompt after an interceptor: its edits stand, but protected blocks come back unchanged and in place.

    What it added is unprotected, tool groups stay or leave whole, order is the given one. Undone whole where nothing usable
    came back.
    """
    try:
        back = _taken_back(kept_before, returned)
    except Refused as refused:
        return Restored(list(kept_before), {}, [refused.interference])
    touched = [i for i in sorted(back.protected) if back.known.get(i) is not kept_before[i]]
    if touched:
        back.note("protected-restored", f"it changed or removed {len(touched)} protected blocks; they came back unchanged")
    back.known |= {i: kept_before[i] for i in touched}
    reasons = {block.id: Reason.INTERCEPTOR for i, block in enumerate(kept_before) if i not in back.known}
    reasons |= back.leave_whole(Reason.INTERCEPTOR)
    return Restored(back.in_order(), reasons, back.notes)


@dataclass
class _Back:
    """What came back, matched with what was given: known blocks by position, new ones by the position they follow (-1: none)."""

    given: Sequence[PromptBlock]
    plan: Protection
    protected: frozenset[int]
    known: dict[int, PromptBlock]
    added: dict[int, list[PromptBlock]]
    notes: list[Interference]

    def note(self, code: str, text: str) -> None:
        self.notes.append(Interference(code, text))

    def leave_whole(self, named: Reason) -> dict[str, Reason]:
        """Removes what is left of groups that came back in part; why each of their members left, by id."""
        reasons: dict[str, Reason] = {}
        for group in self.plan.groups:
            left = [i for i in group.indexes if i in self.known]
            if 0 < len(left) < len(group.indexes):
                reasons |= {self.given[i].id: Reason.GROUP_MEMBER if i in self.known else named for i in group.indexes}
                for i in left:
                    del self.known[i]
        if reasons:
            self.note("group-split", "it separated a tool call from its results; such groups left whole")
        return reasons

    def in_order(self) -> list[PromptBlock]:
        """Everything that is left, known blocks in the given order, new ones where they were put."""
        spans = [(group.first, group.indexes[-1]) for group in self.plan.groups if len(group.indexes) > 1]
        places: dict[int, list[PromptBlock]] = {}
        for after, new in sorted(self.added.items()):
            for block in new:
                places.setdefault(self._place(after, block, spans), []).append(block)
        out = list(places.get(-1, ()))
        for i in range(len(self.given)):
            out += [self.known[i]] if i in self.known else []
            out += places.get(i, ())
        return out

    def _place(self, after: int, block: PromptBlock, spans: Sequence[tuple[int, int]]) -> int:
        """Where a new block may stand: never inside a tool group, and no user message behind the current one."""
        forwards = True
        if block.role == "user" and after >= self.plan.turn_start:
            after, forwards = self.plan.turn_start - 1, False
        while inside := [span for span in spans if span[0] <= after < span[1]]:
            after = max(end for _, end in inside) if forwards else min(start for start, _ in inside) - 1
        return after


def _kept_list(result: object) -> object:
    if not isinstance(result, ShiftResult):
        raise Refused("no-result", f"it returned {_kind(result)} instead of a ShiftResult")
    return result.kept


def _taken_back(given: Sequence[PromptBlock], returned: object) -> _Back:
    """Matches by id. Raises Refused for anything but a list of blocks."""
    plan = protection(given)
    own = {i for group, held in zip(plan.groups, plan.protected, strict=True) if held for i in group.indexes}
    protected = frozenset(i for i in own if given[i].source != ADDED)
    back = _Back(given, plan, protected, {}, {}, [])
    position = {block.id: i for i, block in enumerate(given)}
    last, order, twice = -1, list[int](), 0
    for block in _listed_blocks(returned):
        i = position.get(block.id)
        if i is None:
            _take_new(back, last, block)
        elif i in back.known:
            twice += 1
        else:
            back.known[i] = _checked(back, given[i], block)
            last = i
            order.append(i)
    if twice:
        back.note("duplicate-block", f"it returned {twice} blocks twice; each counts once")
    if order != sorted(order):
        back.note("reordered", "it changed the order of messages; they are back in the order of the request")
    return back


def _listed_blocks(returned: object) -> Sequence[PromptBlock]:
    if not isinstance(returned, (list, tuple)):
        raise Refused("no-blocks", f"it returned {_kind(returned)} instead of a list of blocks")
    for item in returned:
        if not _is_sound(item):
            raise Refused("no-blocks", f"among the blocks it returned is {_kind(item)} that is no sound block")
    return returned


def _is_sound(item: object) -> bool:
    if not isinstance(item, PromptBlock) or not isinstance(item.message, Mapping):
        return False
    return all(isinstance(text, str) for text in (item.id, item.role, item.content))


def _kind(value: object) -> str:
    return "None" if value is None else f"something of type {type(value).__name__}"


def _checked(back: _Back, given: PromptBlock, block: PromptBlock) -> PromptBlock:
    """The given block where it is unchanged, else the same with the other text, uncounted; its marks stay those of the given."""
    if block is given or (block.role, block.content, block.message) == (given.role, given.content, given.message):
        return given
    if tool_links(block.message) != tool_links(given.message) or (block.role not in ROLES and block.role != given.role):
        back.note("tool-link-edited", "it edited which tool call a message makes or answers; that edit was undone")
        return given
    return replace(given, role=block.role, content=block.content, message=block.message, tokens=None)


def _take_new(back: _Back, after: int, block: PromptBlock) -> None:
    if block.role not in ROLES or tool_links(block.message):
        back.note("added-tool-message", "it added a tool message or a tool call; that block was left out")
        return
    if block.pinned or block.required or block.kind in PROTECTED_KINDS or block.protected:
        back.note("added-protection", "a block it added claimed to be protected; it counts as unprotected")
    kind = BlockKind.OTHER if block.kind in PROTECTED_KINDS or not isinstance(block.kind, BlockKind) else block.kind
    taken = {known.id for known in back.given} | {new.id for some in back.added.values() for new in some}
    name = next(name for number in range(len(taken) + 1) if (name := f"{ADDED}-{number}") not in taken)
    made = PromptBlock(name, block.role, block.content, kind, ADDED, message=block.message)
    back.added.setdefault(after, []).append(made)


def _require_protected(back: _Back) -> None:
    """Raises Refused for what may not be missing or changed.

    Tool groups of the current turn are put back instead, where nothing unprotected is left: the final shift decides on those.
    """
    missing = {i for i in back.protected if i not in back.known}
    edited = [i for i in back.protected & back.known.keys() if back.known[i] is not back.given[i]]
    if missing and not any(i in back.known for group in back.plan.removable() for i in group.indexes):
        resort = missing & {i for group in back.plan.last_resort() for i in group.indexes}
        back.known |= {i: back.given[i] for i in resort}
        missing -= resort
    if missing:
        raise Refused("protected-dropped", f"it left out {len(missing)} protected blocks")
    if edited:
        raise Refused("protected-edited", f"it edited {len(edited)} protected blocks")


class _Listed:
    """What a result says of the blocks that left; odd values say nothing."""

    def __init__(self, result: object) -> None:
        self.excluded = _ids(getattr(result, "excluded", ()))
        self.truncated = _ids(getattr(result, "truncated", ()))
        given = getattr(result, "reasons", None)
        found = dict(given) if isinstance(given, Mapping) else {}
        self.reasons = {key: why for key, why in found.items() if isinstance(why, Reason) and why in _LEAVING}


def _ids(items: object) -> frozenset[str]:
    listed = items if isinstance(items, (list, tuple)) else ()
    return frozenset(item.id for item in listed if _is_sound(item))


def _note_bookkeeping(back: _Back, listed: _Listed) -> None:
    kept = {block.id for block in back.known.values()}
    mentioned = kept | listed.excluded | listed.truncated
    forgotten = sum(block.id not in mentioned for block in back.given)
    if forgotten:
        back.note("forgotten", f"it mentioned {forgotten} blocks nowhere; they count as excluded")
    if kept & listed.excluded:
        back.note("kept-and-excluded", f"it both kept and excluded {len(kept & listed.excluded)} blocks; they count as kept")


def _brought_down(
    kept: list[PromptBlock], count_tokens: TokenCounter, budget: int
) -> tuple[list[PromptBlock], int, list[PromptBlock]]:
    """What fits of it, its count, and what had to leave for that: new blocks first, the latest of them before the others."""
    late: list[PromptBlock] = []
    new = [block for block in kept if block.source == ADDED]
    tokens = count_tokens(kept)
    while tokens > budget and new:
        leaving = new.pop()
        late.append(leaving)
        kept = [block for block in kept if block is not leaving]
        tokens = count_tokens(kept)
    if tokens <= budget:
        return kept, tokens, late
    result = shift_context(kept, count_tokens, budget)
    return list(result.kept), result.prompt_tokens, [*late, *result.excluded]
