"""How a fitted prompt is spelled for the API, in audits, previews and reports: camelCase JSON. Knows no store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gateway.audit import MAX_TEXT, AuditBlock, AuditBody, AuditSummary, decode_body


def preview_object(summary: AuditSummary, body: bytes, *, fits: bool, deficit: int) -> dict[str, Any]:
    """The audit's fields less id, status and times, plus whether it fits and by how many tokens not."""
    told = described(summary) | prompt_object(summary, decode_body(body), "full")
    return {**told, "fits": fits, "deficit": deficit}


def prompt_object(summary: AuditSummary, body: AuditBody, view: str) -> dict[str, Any]:
    """The part of an audit that speaks of the prompt."""
    out: dict[str, Any] = {
        "contextStrategy": summary.context_strategy,
        "tokenizer": {"profile": summary.tokenizer, "approximate": summary.approximate},
        "budget": {
            "contextLimit": summary.context_limit,
            "replyReserve": summary.reply_reserve,
            "safetyMargin": summary.safety_margin,
            "promptTokens": summary.prompt_tokens,
            "promptTokensBefore": summary.prompt_tokens_before,
        },
    }
    if view != "summary":
        out["blocks"] = [block_object(body, block, texts=view == "full") for block in body.blocks]
    if view == "full":
        out["providerMessages"] = body.provider_messages()
    out["diagnostics"] = [
        {"stage": item.stage, "level": item.level, "code": item.code, "message": item.message} for item in summary.diagnostics
    ]
    return out


def block_object(body: AuditBody, block: AuditBlock, *, texts: bool) -> dict[str, Any]:
    """One block."""
    out: dict[str, Any] = {"order": block.order, "id": block.id, "role": block.role, "kind": block.kind, "source": block.source}
    out["name"] = block.name
    if texts:
        out["content"], length = body.text(block)
        if length > MAX_TEXT:
            out["contentLength"] = length
    out |= {"tokens": block.tokens, "approximate": block.approximate, "included": block.included, "reason": block.reason}
    return out | {"group": block.group, "truncatedTo": block.truncated_to}


def report_object(generation_id: str, summary: AuditSummary, blocks: Mapping[str, Sequence[AuditBlock]]) -> dict[str, Any]:
    """The `contextShift` object of an answer; `index` is a block's position among the request's messages."""
    return {
        "generationId": generation_id,
        "promptTokens": summary.prompt_tokens,
        "contextLimit": summary.context_limit,
        "replyReserve": summary.reply_reserve,
        **{name: [_reported(block) for block in listed] for name, listed in blocks.items()},
    }


def described(summary: AuditSummary) -> dict[str, Any]:
    """Who serves a prompt."""
    return {"provider": summary.provider, "model": summary.model, "upstreamModel": summary.upstream_model}


def _reported(block: AuditBlock) -> dict[str, Any]:
    return {
        "index": block.position,
        "id": block.id,
        "role": block.role,
        "kind": block.kind,
        "tokens": block.tokens,
        "reason": block.reason,
    }
