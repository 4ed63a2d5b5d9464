"""From counted blocks to those that are sent: what a strategy left and wrote is taken up, and counted until the whole fits.

A kept block that is the client's own keeps the client's message, byte for byte. One of a known id with another text is an edited
message, one of an unknown id a new one: those are unprotected, and the first to leave again when the last count is over. Knows no
model, no limit's origin and no audit.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any, NamedTuple

from gateway.chat import ChatMessage, made_message
from gateway.shifting import BlockKind, PromptBlock, Reason, ShiftResult, shift_context
from tokenizer_profiles.base import PromptCount

Shift = Callable[[Sequence[PromptBlock]], ShiftResult[PromptBlock]]
CountMessages = Callable[[Sequence[ChatMessage]], Awaitable[PromptCount]]


class Kept(NamedTuple):
    """A block that is sent, with its message; `at` is its place in the assembled prompt, None where it had none."""

    block: PromptBlock
    message: ChatMessage
    at: int | None


class Fitted(NamedTuple):
    """What is sent, with its final count, and why the others left; `withdrawn` are new blocks that had to leave again.

    `shortened` are the ids of kept blocks whose text was cut. `untouched` says that every block stayed as it was.
    """

    kept: Sequence[Kept]
    prompt: PromptCount
    tokens: int
    reasons: Mapping[str, Reason] = MappingProxyType({})
    withdrawn: Sequence[Kept] = ()
    shortened: frozenset[str] = frozenset()
    untouched: bool = False


def counter_of(prompt: PromptCount, alone: Callable[[Mapping[str, Any]], int]) -> Callable[[Sequence[PromptBlock]], int]:
    """Counts blocks for a strategy: what surrounds the messages, what is known of the blocks, and `alone` for those it wrote."""
    fixed = prompt.tools.tokens + prompt.response_format.tokens + prompt.template.tokens
    written: dict[tuple[str, str], int] = {}

    def tokens(block: PromptBlock) -> int:
        if block.tokens is not None:
            return block.tokens
        key = (block.role, block.content)
        if key not in written:
            written[key] = alone(block.message)
        return written[key]

    def count(blocks: Sequence[PromptBlock]) -> int:
        return fixed + sum([block.tokens or tokens(block) for block in blocks])

    return count


async def taken_up(
    result: ShiftResult[PromptBlock],
    blocks: Sequence[PromptBlock],
    messages: Sequence[ChatMessage],
    *,
    limit: int,
    additive: PromptCount | None,
    count: CountMessages,
) -> Fitted:
    """What a strategy left of `blocks`, whose messages these are, counted as it will be sent.

    `additive` is the count of all messages where the parts of it hold for any choice of them; where they don't, or where
    something was written, what is left is counted anew, and more leaves until it fits `limit`.
    """
    kept = _kept(result.kept, blocks, messages)
    own = all(one.at is not None and one.message is messages[one.at] for one in kept)
    if additive is not None and own:
        fixed = additive.total - sum([part.tokens for part in additive.messages])
        tokens = fixed + sum([one.block.tokens or 0 for one in kept])
        if tokens <= limit:
            return Fitted(kept, additive, tokens, result.reasons)
    reasons, withdrawn = dict(result.reasons), list[Kept]()
    while True:
        prompt = await count([one.message for one in kept])
        kept = [
            one._replace(block=replace(one.block, tokens=part.tokens)) for one, part in zip(kept, prompt.messages, strict=True)
        ]
        if prompt.total <= limit:
            break
        fewer = _fewer(kept, prompt, limit)
        if len(fewer) == len(kept):
            break
        withdrawn += [one for one in kept if one.at is None]
        kept = fewer
    for one in withdrawn:
        reasons[one.block.id] = Reason.FINAL_BUDGET
    if any(one.block.kind is BlockKind.SUMMARY for one in withdrawn):
        reasons = {key: Reason.CONTEXT_SHIFT if reason is Reason.SUMMARIZED else reason for key, reason in reasons.items()}
    shortened = frozenset(block.id for block in result.truncated) & {one.block.id for one in kept}
    return Fitted(kept, prompt, prompt.total, reasons, withdrawn, shortened)


def _kept(result: Sequence[PromptBlock], blocks: Sequence[PromptBlock], messages: Sequence[ChatMessage]) -> list[Kept]:
    place = {block.id: at for at, block in enumerate(blocks)}
    return [_one_kept(block, place.get(block.id), blocks, messages) for block in result]


def _one_kept(block: PromptBlock, at: int | None, blocks: Sequence[PromptBlock], messages: Sequence[ChatMessage]) -> Kept:
    if at is None:
        return Kept(block, made_message(block.message, block.source), None)
    own = block is blocks[at] or block.message is blocks[at].message
    return Kept(block, messages[at] if own else made_message(block.message, messages[at].source, messages[at].id), at)


def _fewer(kept: Sequence[Kept], prompt: PromptCount, limit: int) -> list[Kept]:
    """Without what was added, else without the oldest groups that have to leave."""
    own = [one for one in kept if one.at is not None]
    if len(own) < len(kept):
        return own
    fixed = prompt.total - sum([part.tokens for part in prompt.messages])

    def count(blocks: Sequence[PromptBlock]) -> int:
        return fixed + sum([block.tokens or 0 for block in blocks])

    stay = {id(block) for block in shift_context([one.block for one in kept], count, limit).kept}
    return [one for one in kept if id(one.block) in stay]
