"""What an answer holds, as JSON Schema: audits, previews, chats, reports, errors, and the headers beside them.

Words that are fixed come from where they are fixed. Describes what `wire_audit`, `wire_prompt`, `wire_chats`,
`error_responses` and `context_headers` write; a test compares real answers. Knows no path.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import get_args, get_type_hints

from gateway.audit import MAX_TEXT
from gateway.errors import GatewayError, TokenBudgetExceeded
from gateway.settings import ClientSettings
from gateway.shifting import BlockKind
from gateway.shifting.result import Reason
from gateway.stores.base import AuditStatus
from gateway.web.context_headers import CONTEXT_HEADERS, MOST_IN_SUMMARY
from gateway.web.json_schema import Schema, choice, flag, items, or_null, part, record, text, whole

_TIME = text(format="date-time")
_REQUEST_KINDS = ("tools", "response-format", "template")  # rows of an audit that are no messages
_WHOLE_HEADERS = ("limit", "reply-reserve", "prompt-tokens", "excluded", "excluded-tokens", "truncated")
_OVERFLOW_CODES = get_args(get_type_hints(ClientSettings)["overflow_code"])


def answer_schemas() -> dict[str, Schema]:
    """The schemas of what the gateway answers, by name."""
    return {
        "Audit": record({**_audit_fields(), **_prompt_fields()}, optional=("blocks", "providerMessages")),
        "AuditAnswer": record({"audit": or_null(part("Audit"))}),
        "Block": _block(),
        "BlocksWindow": record({"blocks": items(part("Block")), "total": whole(0, "How many the audit has.")}),
        "Chat": _chat(),
        "ChatCompletion": _completion(),
        "ChatList": record({"chats": items(part("Chat")), "nextBefore": or_null(text("`before` of the next page."))}),
        "Diagnostic": record({"stage": text(), "level": choice(("info", "warning")), "code": text(), "message": text()}),
        "Error": _error(),
        "Preview": record({**_described_fields(), **_prompt_fields(), "fits": flag(), "deficit": whole(0, "Tokens too many.")}),
        "Previews": record({"previews": items(part("Preview"))}),
        "Report": _report(),
    }


def error_codes(kinds: Sequence[type[GatewayError]]) -> dict[int, list[str]]:
    """The codes of these errors by HTTP status; that of an exceeded budget as clients may be told it."""
    found: dict[int, list[str]] = {}
    for kind in kinds:
        codes = _OVERFLOW_CODES if kind is TokenBudgetExceeded else (kind.code,)
        found.setdefault(kind.default_status, []).extend(codes)
    return dict(sorted(found.items()))


def error_with(codes: Sequence[str]) -> Schema:
    """The error object with one of these codes."""
    narrowed = {"properties": {"error": {"properties": {"code": choice(codes)}}}}
    return {"allOf": [part("Error"), narrowed]}


def context_headers() -> dict[str, Schema]:
    """The headers that tell of a counted prompt."""
    numbers = {f"x-context-{name}" for name in _WHOLE_HEADERS}
    schemas = {name: whole() if name in numbers else text() for name in CONTEXT_HEADERS}
    schemas["x-context-approximate"] = choice(("true", "false"))
    return {name: {"schema": schema} for name, schema in schemas.items()}


def request_id() -> dict[str, Schema]:
    """The header of every answer."""
    return {"x-request-id": {"required": True, "schema": text(pattern="^req_")}}


def retry_headers(status: int) -> dict[str, Schema]:
    """The headers that say whether and when to try again."""
    wait = {"retry-after": {"required": True, "schema": whole(1, "Seconds.")}} if status in (429, 503) else {}
    return {"x-should-retry": {"schema": choice(["false"], "Where repeating is useless.")}, **wait}


def _described_fields() -> dict[str, Schema]:
    return {"provider": text(), "model": text(), "upstreamModel": text()}


def _audit_fields() -> dict[str, Schema]:
    return {
        "generationId": text(),
        "chatId": text(),
        "tenant": or_null(text("The name of the key; null without one.")),
        **_described_fields(),
        "createdAt": _TIME,
        "finishedAt": or_null(_TIME),
        "status": choice(AuditStatus),
        "errorCode": or_null(text("As in an error; also CLIENT_CANCELLED and GATEWAY_RESTARTED.")),
        "usage": {"type": ["object", "null"], "description": "As the provider reported it."},
        "finishReason": or_null(text()),
    }


def _prompt_fields() -> dict[str, Schema]:
    counts = ("contextLimit", "replyReserve", "safetyMargin", "promptTokens", "promptTokensBefore")
    return {
        "contextStrategy": text(),
        "tokenizer": record({"profile": text(), "approximate": flag()}),
        "budget": record({name: whole() for name in counts}, "Tokens."),
        "blocks": items(part("Block"), "In the order of the prompt, with what was left out. Not in the view summary."),
        "providerMessages": items({"type": "object"}, "What the provider got. In the view full alone."),
        "diagnostics": items(part("Diagnostic")),
    }


def _block() -> Schema:
    fields = {
        "order": whole(),
        "id": text(),
        "role": text(),
        "kind": choice((*_REQUEST_KINDS, *BlockKind)),
        "source": text("Who wrote it: the request, its memory, a strategy, a plug-in."),
        "name": or_null(text()),
        "content": text(f"The text, at most {MAX_TEXT} characters of it. Not in the view index."),
        "contentLength": whole(MAX_TEXT + 1, "The characters of a text that is not here whole."),
        "tokens": whole(),
        "approximate": flag(),
        "included": flag(),
        "reason": choice(Reason),
        "group": or_null(text("The same for a call and its results.")),
        "truncatedTo": or_null(whole(0, "The tokens of a text that was shortened.")),
    }
    return record(fields, "One block of a prompt, sent or left out.", optional=("content", "contentLength"))


def _chat() -> Schema:
    fields = {"id": text(), "createdAt": _TIME, "updatedAt": _TIME, "model": text(), "status": choice(AuditStatus)}
    return record({**fields, "generationId": text()})


def _completion() -> Schema:
    choices = items({"type": "object"}, minItems=1)
    fields = {"choices": choices, "contextShift": part("Report")}
    return record(fields, "The provider's chat completion, unchanged but for `contextShift`.", optional=("contextShift",))


def _report() -> Schema:
    block = record(
        {
            "index": or_null(whole(0, "Its place among the messages of the request.")),
            "id": text(),
            "role": text(),
            "kind": choice((*_REQUEST_KINDS, *BlockKind)),
            "tokens": whole(),
            "reason": choice(Reason),
        }
    )
    counts = {name: whole() for name in ("promptTokens", "contextLimit", "replyReserve")}
    lists = {name: items(block) for name in ("excluded", "truncated")}
    said = f"What was left out; there when `report` asks for it. With `summary` a list has at most {MOST_IN_SUMMARY} entries."
    return record({"generationId": text(), **counts, **lists}, said)


def _error() -> Schema:
    fields = {
        "message": text("What happened, the number, and what to do."),
        "type": choice(sorted({kind.type for kind in every_error()})),
        "param": or_null(text("The JSON path, parameter or header that is wrong.")),
        "code": text("Stable."),
        "metadata": {"type": "object", "additionalProperties": {"type": ["number", "string", "boolean", "null"]}},
    }
    return record({"error": record(fields)})


def every_error(kind: type[GatewayError] = GatewayError) -> Iterator[type[GatewayError]]:
    """Every class of error below one."""
    for below in kind.__subclasses__():
        yield below
        yield from every_error(below)
