"""How a stored audit is spelled for the API: camelCase JSON, times in ISO 8601, the view that was asked for."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import msgspec

from gateway.audit import AuditBody, decode_body, decode_summary
from gateway.stores.base import AuditStatus, StoredAudit
from gateway.web.wire_prompt import block_object, described, prompt_object

VIEWS = ("full", "index", "summary")


def audit_object(stored: StoredAudit, view: str) -> dict[str, Any]:
    """The `audit` of an answer. View `index` leaves the texts out, `summary` the blocks."""
    summary, outcome, key = decode_summary(stored.head.document), stored.outcome, stored.head.key
    return {
        "generationId": key.generation_id,
        "chatId": key.chat_id,
        "tenant": key.tenant or None,
        **described(summary),
        "createdAt": iso_time(stored.head.created_at),
        "finishedAt": None if outcome is None else iso_time(outcome.finished_at),
        "status": (AuditStatus.PREPARED if outcome is None else outcome.status).value,
        "errorCode": None if outcome is None else outcome.error_code,
        **prompt_object(summary, decode_body(stored.body) if stored.body else AuditBody([], []), view),
        "usage": None if outcome is None or outcome.usage is None else msgspec.Raw(outcome.usage),
        "finishReason": None if outcome is None else outcome.finish_reason,
    }


def blocks_object(stored: StoredAudit, first: int, limit: int) -> dict[str, Any]:
    """So many of an audit's blocks from the given one on, with their texts, and their number in all."""
    body = decode_body(stored.body) if stored.body else AuditBody([], [])
    window = body.blocks[first : first + limit]
    return {"blocks": [block_object(body, block, texts=True) for block in window], "total": len(body.blocks)}


def iso_time(seconds: float) -> str:
    """A time in UTC, to the millisecond."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
