"""The rows of an audit: every block of a prompt in real order, in or out, with its tokens and the reason. Decides nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from gateway.assembly import Assembled
from gateway.audit import AuditBlock
from gateway.chat import ChatMessage
from gateway.fitting import Fitted, Kept
from gateway.shifting import BlockKind, PromptBlock, Reason
from gateway.shifting.reasons import inclusion_reasons
from tokenizer_profiles.base import PromptCount, TokenCount

# What the row of a message follows from: block, count, order, tokens, whether and why it stays, its group's oldest. The
# block's id follows from the message's index.
_Standing = tuple[PromptBlock, TokenCount, int, int | None, bool, Reason, int | None]


class Ledger(NamedTuple):
    """The rows, the messages they speak of, and the places of those messages that are sent, in order."""

    blocks: list[AuditBlock]
    messages: Sequence[ChatMessage]
    kept: Sequence[int]


def ledger_of(prompt: Assembled, blocks: Sequence[PromptBlock], before: Sequence[TokenCount], fitted: Fitted) -> Ledger:
    """Tools, response format and template first, then the messages, kept or not; what was added stands where it is sent.

    `before` are the tokens of each message by itself. What only a shape made has no row: it stands behind the other messages.
    """
    head = _request_rows(fitted.prompt)
    rows = _message_rows(prompt, blocks, before, fitted, len(head))
    if fitted.untouched:
        return Ledger(head + rows, prompt.messages, range(len(blocks)))
    written = [one for one in (*fitted.kept, *fitted.withdrawn) if one.at is None or one.message is not prompt.messages[one.at]]
    messages = prompt.messages
    if written:
        messages = [*messages, *(one.message for one in written if one.at is None)]
        rows = _with_written(rows, messages, fitted, len(head))
    kept = [row.message for row in rows if row.included and row.message is not None]
    if fitted.sent is None:
        return Ledger(head + rows, messages, kept)
    return Ledger(head + rows, *_in_shape(messages, kept, fitted.sent.messages))


def _in_shape(
    messages: Sequence[ChatMessage], kept: Sequence[int], sent: Sequence[ChatMessage]
) -> tuple[Sequence[ChatMessage], list[int]]:
    """The messages, behind them those that only the shape made, and the places of what is sent."""
    known = {id(messages[place]): place for place in kept}
    made = [message for message in sent if id(message) not in known]
    known |= {id(message): place for place, message in enumerate(made, len(messages))}
    return [*messages, *made], [known[id(message)] for message in sent]


def _request_rows(prompt: PromptCount) -> list[AuditBlock]:
    rows = [
        _request_row(order, kind, count)
        for order, (kind, count) in enumerate((("tools", prompt.tools), ("response-format", prompt.response_format)))
        if count.tokens
    ]
    rows = [row._replace(order=order) for order, row in enumerate(rows)]
    return [*rows, _request_row(len(rows), "template", prompt.template)]


def _request_row(order: int, kind: str, count: TokenCount) -> AuditBlock:
    source = "template" if kind == "template" else "request"
    reason = Reason.PROTECTED_REQUEST.value
    return AuditBlock(order, kind, "system", kind, source, None, count.tokens, count.approximate, True, reason, content="")


def _message_rows(
    prompt: Assembled, blocks: Sequence[PromptBlock], before: Sequence[TokenCount], fitted: Fitted, start: int
) -> list[AuditBlock]:
    out: list[AuditBlock] = []
    reasons, oldest = inclusion_reasons(blocks)
    kept = None if fitted.untouched else {one.at: one.block for one in fitted.kept}
    counts = _final_counts(before, fitted.kept)
    for at, (block, message, count, reason) in enumerate(zip(blocks, prompt.messages, counts, reasons, strict=True)):
        stays = block if kept is None else kept.get(at)
        if stays is None:
            reason = fitted.reasons.get(block.id, Reason.CONTEXT_SHIFT)
        tokens = (stays or block).tokens
        standing = (block, count, start + at, tokens, stays is not None, reason, oldest.get(at))
        known = message.row
        if known is not None and known[0] == standing:
            out.append(known[1])
        else:
            out.append(_message_row(at, message, standing, prompt.indexes[at]))
    return out


def _final_counts(before: Sequence[TokenCount], kept: Sequence[Kept]) -> Sequence[TokenCount]:
    """What each message costs: by the last count where it is kept and was counted anew."""
    if not kept or kept[0].counted is None:
        return before
    out = list(before)
    for one in kept:
        if one.at is not None and one.counted is not None:
            out[one.at] = one.counted
    return out


def _message_row(at: int, message: ChatMessage, standing: _Standing, index: int | None) -> AuditBlock:
    """The row of a message, remembered for the next turn, in which most are the same."""
    block, count, order, tokens, included, reason, oldest = standing
    group = None if oldest is None else f"g{oldest}"
    named = (order, message.id or block.id, block.role, block.kind, block.source, _name(message))
    made = AuditBlock(*named, tokens or 0, count.approximate, included, reason, group, None, at, None, index)
    message.row = (standing, made)
    return made


def _with_written(rows: Sequence[AuditBlock], messages: list[ChatMessage], fitted: Fitted, start: int) -> list[AuditBlock]:
    """The rows with what a strategy or a plug-in wrote; puts edited messages into `messages`, whose end holds the added ones."""
    out = list(rows)
    for one in fitted.kept:
        if one.at is not None and one.message is not messages[one.at]:
            messages[one.at] = one.message
            out[one.at] = _edited_row(out[one.at], one, fitted)
    added: dict[int, list[AuditBlock]] = {}
    place = len(rows)
    anchors = _anchors(fitted.kept, len(rows))
    for one in (*fitted.kept, *fitted.withdrawn):
        if one.at is None:
            at = anchors.get(id(one), len(rows))
            added.setdefault(at, []).append(_added_row(one, place, fitted, included=id(one) in anchors))
            place += 1
    merged = [row for at in range(len(rows) + 1) for row in (*added.get(at, ()), *out[at : at + 1])]
    return [row._replace(order=start + order) for order, row in enumerate(merged)]


def _anchors(kept: Sequence[Kept], end: int) -> dict[int, int]:
    """Before which place of the assembled prompt each added block stands."""
    out: dict[int, int] = {}
    after = end
    for one in reversed(kept):
        if one.at is None:
            out[id(one)] = after
        else:
            after = one.at
    return out


def _edited_row(row: AuditBlock, one: Kept, fitted: Fitted) -> AuditBlock:
    tokens = one.block.tokens or 0
    if one.block.id in fitted.shortened:
        return row._replace(tokens=tokens, reason=Reason.SHORTENED, truncated_to=tokens)
    return row._replace(tokens=tokens)


def _added_row(one: Kept, place: int, fitted: Fitted, *, included: bool) -> AuditBlock:
    block = one.block
    kept = Reason.SUMMARY if block.kind is BlockKind.SUMMARY else Reason.FITS
    reason = kept if included else fitted.reasons.get(block.id, Reason.FINAL_BUDGET)
    named = (0, block.id, block.role, block.kind, block.source, _name(one.message))
    approximate = fitted.prompt.approximate or (one.counted is not None and one.counted.approximate)
    return AuditBlock(*named, block.tokens or 0, approximate, included, reason, message=place)


def _name(message: ChatMessage) -> str | None:
    found = message.message.get("name")
    return found if isinstance(found, str) else None
