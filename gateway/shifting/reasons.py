"""Why a block stays: the first reason that applies, in the order of `Reason`; a group has the first of its members'."""

from __future__ import annotations

from collections.abc import Sequence

from gateway.shifting.blocks import BlockKind, PromptBlock
from gateway.shifting.result import Reason
from gateway.shifting.shift import Protection

_RANK = {reason: rank for rank, reason in enumerate(Reason)}
_BY_KIND = {
    BlockKind.SYSTEM: Reason.PROTECTED_SYSTEM,
    BlockKind.CHARACTER: Reason.PROTECTED_CHARACTER,
    BlockKind.PERSONA: Reason.PROTECTED_PERSONA,
}


def inclusion_reasons(blocks: Sequence[PromptBlock], protection: Protection) -> list[Reason]:
    """For each block the reason it has while it is in the prompt."""
    reasons = [Reason.FITS] * len(blocks)
    for group, protected in zip(protection.groups, protection.protected, strict=True):
        if not protected:
            continue
        shared = min((_own_reason(blocks[i]) for i in group.indexes), key=_RANK.__getitem__)
        for i in group.indexes:
            reasons[i] = shared
    return reasons


def _own_reason(block: PromptBlock) -> Reason:
    by_kind = _BY_KIND.get(block.kind)
    if by_kind is not None:
        return by_kind
    if block.pinned or block.required:
        return Reason.PROTECTED_LOREBOOK if block.kind is BlockKind.LOREBOOK else Reason.PROTECTED_PINNED
    return Reason.CURRENT_TURN
