"""The x-context-* headers and the `contextShift` report: what was fitted, told along with the answer."""

from __future__ import annotations

import re
from urllib.parse import quote

import msgspec

from gateway.prepared import PreparedPrompt
from gateway.stores.base import AuditKey
from gateway.web.asgi import Headers
from gateway.web.wire_audit import report_object

MOST_IN_SUMMARY = 20  # blocks that the report "summary" lists; the headers have the totals
_FIRST_DATA = re.compile(rb"^data:", re.MULTILINE)


def context_headers(prepared: PreparedPrompt, key: AuditKey | None) -> Headers:
    """The headers of an answer whose prompt has been counted; a preview has no generation and so no ids."""
    budget = prepared.budget
    named = [
        ("strategy", quote(prepared.strategy, safe="")),
        ("limit", str(budget.context_limit)),
        ("reply-reserve", str(budget.reply_reserve)),
        ("prompt-tokens", str(prepared.prompt_tokens)),
        ("excluded", str(len(prepared.excluded))),
        ("excluded-tokens", str(sum([block.tokens for block in prepared.excluded]))),
        ("truncated", str(len(prepared.truncated))),
        ("tokenizer", quote(prepared.tokenizer, safe=":/")),
        ("approximate", "true" if prepared.approximate else "false"),
    ]
    if key is not None:
        named += [("generation-id", key.generation_id), ("chat-id", quote(key.chat_id, safe=""))]
    return [(b"x-context-" + name.encode(), value.encode()) for name, value in named]


def report_field(prepared: PreparedPrompt, key: AuditKey) -> bytes:
    """The `contextShift` member as it stands in a JSON object, with its key and a comma after it; b"" when none was asked for."""
    if prepared.report == "off":
        return b""
    most = None if prepared.report == "full" else MOST_IN_SUMMARY
    blocks = {"excluded": prepared.excluded[:most], "truncated": prepared.truncated[:most]}
    report = report_object(key.generation_id, prepared.summary(), blocks)
    return b'"contextShift":' + msgspec.json.encode(report) + b","


def with_report(data: bytes, report: bytes) -> bytes:
    """A JSON object, or the first chunk of a stream, with the report as its first member; every other byte as it was."""
    if not report:
        return data
    line = _FIRST_DATA.search(data) if data.lstrip()[:1] != b"{" else None
    brace = data.find(b"{", line.end() if line else 0)
    if brace < 0:
        return data
    member = report if data[brace + 1 :].lstrip()[:1] != b"}" else report[:-1]
    return data[: brace + 1] + member + data[brace + 1 :]
