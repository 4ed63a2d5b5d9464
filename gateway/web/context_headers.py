"""The x-context-* headers and the `contextShift` report: what was fitted, told along with the answer."""

from __future__ import annotations

import re
from functools import lru_cache
from urllib.parse import quote

import msgspec

from gateway.prepared import PreparedPrompt
from gateway.stores.base import AuditKey
from gateway.web.asgi import Headers
from gateway.web.wire_prompt import report_object

_NAMES = (
    *("generation-id", "chat-id", "strategy", "limit", "reply-reserve", "prompt-tokens"),
    *("excluded", "excluded-tokens", "truncated", "tokenizer", "approximate"),
)
CONTEXT_HEADERS = tuple(f"x-context-{name}" for name in _NAMES)
EXPOSED_HEADERS = ("x-request-id", "x-should-retry", "retry-after", *CONTEXT_HEADERS)
MOST_IN_SUMMARY = 20  # blocks that the report "summary" lists; the headers have the totals
_FIRST_DATA = re.compile(rb"^data:", re.MULTILINE)


def context_headers(prepared: PreparedPrompt, key: AuditKey) -> Headers:
    """The headers of an answer whose prompt has been counted."""
    budget, excluded = prepared.budget, prepared.excluded
    return [
        (b"x-context-generation-id", key.generation_id.encode()),
        (b"x-context-chat-id", _quoted(key.chat_id)),
        (b"x-context-strategy", _quoted(prepared.strategy)),
        (b"x-context-limit", b"%d" % budget.context_limit),
        (b"x-context-reply-reserve", b"%d" % budget.reply_reserve),
        (b"x-context-prompt-tokens", b"%d" % prepared.prompt_tokens),
        (b"x-context-excluded", b"%d" % len(excluded)),
        (b"x-context-excluded-tokens", b"%d" % sum([block.tokens for block in excluded])),
        (b"x-context-truncated", b"%d" % len(prepared.truncated)),
        (b"x-context-tokenizer", _quoted(prepared.tokenizer)),
        (b"x-context-approximate", b"true" if prepared.approximate else b"false"),
    ]


@lru_cache(maxsize=1024)
def _quoted(text: str) -> bytes:
    return quote(text, safe="").encode()


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
