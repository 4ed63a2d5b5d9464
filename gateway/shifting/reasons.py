"""Why a block stays: the first reason that applies, in the order of `Reason`; a group has the first of its members'."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.shifting.blocks import PROTECTED_KINDS, BlockKind, PromptBlock
from gateway.shifting.groups import has_links
from gateway.shifting.result import Reason
from gateway.shifting.shift import current_turn, protection

_RANK = {reason: rank for rank, reason in enumerate(Reason)}
_BY_KIND = {
    BlockKind.SYSTEM: Reason.PROTECTED_SYSTEM,
    BlockKind.CHARACTER: Reason.PROTECTED_CHARACTER,
    BlockKind.PERSONA: Reason.PROTECTED_PERSONA,
}


def inclusion_reasons(blocks: Sequence[PromptBlock]) -> tuple[list[Reason], dict[int, int]]:
    """For each block the reason it has while it is in the prompt; for each member of a larger group its oldest member."""
    links = [block.links for block in blocks]
    if not has_links(links):
        return _single_reasons(blocks), {}
    reasons = [Reason.FITS] * len(blocks)
    oldest: dict[int, int] = {}
    plan = protection(blocks)
    for group, protected in zip(plan.groups, plan.protected, strict=True):
        if len(group.indexes) > 1:
            oldest.update(dict.fromkeys(group.indexes, group.first))
        if protected:
            shared = min((_own_reason(blocks[i]) for i in group.indexes), key=_RANK.__getitem__)
            for i in group.indexes:
                reasons[i] = shared
    return reasons, oldest


def _single_reasons(blocks: Sequence[PromptBlock]) -> list[Reason]:
    """The same where each block is a group of its own, which most prompts are made of."""
    turn = min(current_turn(blocks), len(blocks) - 1)
    reasons = [
        _own_reason(block) if block.pinned or block.required or block.kind in PROTECTED_KINDS else Reason.FITS
        for block in blocks[:turn]
    ]
    return reasons + [_own_reason(block) for block in blocks[turn:]]


def _own_reason(block: PromptBlock) -> Reason:
    by_kind = _BY_KIND.get(block.kind)
    if by_kind is not None:
        return by_kind
    if block.pinned or block.required:
        return Reason.PROTECTED_LOREBOOK if block.kind is BlockKind.LOREBOOK else Reason.PROTECTED_PINNED
    return Reason.CURRENT_TURN
