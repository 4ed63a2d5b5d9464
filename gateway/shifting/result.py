"""What a shift gives back, and the stable words for why a block stayed or left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Generic, TypeVar

Item = TypeVar("Item")


class Reason(StrEnum):
    """Why a block is in the prompt or not."""

    PROTECTED_REQUEST = "protected-request"
    PROTECTED_SYSTEM = "protected-system"
    PROTECTED_CHARACTER = "protected-character"
    PROTECTED_PERSONA = "protected-persona"
    PROTECTED_LOREBOOK = "protected-lorebook"
    PROTECTED_PINNED = "protected-pinned"
    CURRENT_TURN = "current-turn"
    FITS = "fits"
    SHORTENED = "shortened"
    SUMMARY = "summary"

    CONTEXT_SHIFT = "context-shift"
    FINAL_BUDGET = "final-budget"
    LOW_RELEVANCE = "low-relevance"
    MANUAL = "manual"
    SUMMARIZED = "summarized"
    EMPTY = "empty"
    DISABLED = "disabled"
    LORE_BUDGET = "lore-budget"
    INTERCEPTOR = "interceptor"
    GROUP_MEMBER = "group-member"
    NOT_ACTIVATED = "not-activated"


@dataclass(frozen=True, slots=True)
class ShiftResult(Generic[Item]):
    """A partition of the input, in its order.

    `truncated` holds what was compressed rather than dropped. `prompt_tokens` is the last whole count of `kept`; `fits` says
    whether that is within the budget. `reasons` names, by block id, why a block left where it is not context-shift; `diagnostics`
    are remarks for people, each a stable code and a text.
    """

    kept: Sequence[Item]
    excluded: Sequence[Item]
    truncated: Sequence[Item] = ()
    prompt_tokens: int = 0
    fits: bool = True
    reasons: Mapping[str, Reason] = field(default_factory=dict)
    diagnostics: Sequence[tuple[str, str]] = ()
