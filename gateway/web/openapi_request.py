"""What a request may hold, as JSON Schema: the chat completion with its extension, and the headers that say the same.

Describes what `wire*` reads, with its own lists of words; a test compares the two. Knows no path and no answer.
"""

from __future__ import annotations

from gateway.shifting import BlockKind, ContextStrategyRegistry
from gateway.web.context_preview import MOST_STRATEGIES
from gateway.web.json_schema import Schema, choice, flag, items, options, or_null, part, record, text, whole
from gateway.web.wire_options import MAX_CHAT_ID, PURPOSES, REPORTS, SELECTORS

_NO_CONTROL = "^[^\\x00-\\x1f\\x7f-\\x9f]*$"
CHAT_ID = text("Percent-encoded in a path or header.", minLength=1, maxLength=MAX_CHAT_ID, pattern=_NO_CONTROL)
_TOKENS = whole(1, "Tokens.")
_MOST_IN_HEADER = 10**12 - 1
_RANGE = " *(-?[0-9]{1,9}([.][.]-?[0-9]{1,9})?)? *"
_POSITIONS = f"^{_RANGE}(,{_RANGE})*$"
_OWN_NAMES = "camelCase; snake_case is accepted too, and null counts as absent."


def request_schemas() -> dict[str, Schema]:
    """The schemas of what is sent to the gateway, by name."""
    return {
        "ChatRequest": _chat_request(),
        "ContextShift": _context_shift(),
        "Message": _message(),
        "OtherItem": _other_item(),
        "Meta": options(_mark_fields(), f"What is said of a message. {_OWN_NAMES}"),
        "MarkRule": _mark_rule(),
        "MemoryEntry": _memory_entry(),
        "PreviewComparison": _comparison(),
    }


def header_parameters() -> list[Schema]:
    """The request headers for clients that can set nothing else."""
    positions = text("Positions and ranges of messages, like 0,3,-2..-1; negative ones count from the end.", pattern=_POSITIONS)
    found = {
        "X-Context-Chat-Id": {**CHAT_ID, "minLength": 0},
        "X-Context-Strategy": _strategy(),
        "X-Context-Reply-Reserve": whole(1, "Tokens.", maximum=_MOST_IN_HEADER),
        "X-Context-Pin": positions,
        "X-Context-Exclude": positions,
        "X-Context-Report": choice(REPORTS),
        "X-Context-Purpose": choice(PURPOSES),
    }
    return [{"name": name, "in": "header", "required": False, "schema": schema} for name, schema in found.items()]


def _comparison() -> Schema:
    tried = items(text(minLength=1), "The strategies to try.", minItems=1, maxItems=MOST_STRATEGIES)
    said = "One request under several strategies; without `strategies` the same as the request alone."
    return record({"strategies": tried, "request": part("ChatRequest")}, said, optional=["strategies"])


def _strategy() -> Schema:
    names = ContextStrategyRegistry.with_builtins().names()
    return text(
        f"The strategy: {', '.join(names)}, or one that a plug-in brings; an empty text counts as absent.", examples=list(names)
    )


def _chat_request() -> Schema:
    fields = {
        "model": text("A configured model.", minLength=1),
        "messages": items({"anyOf": [part("Message"), part("OtherItem")]}, minItems=1),
        "stream": or_null(flag("Whether the answer comes as server-sent events.")),
        "max_completion_tokens": or_null(_TOKENS),
        "max_tokens": or_null(_TOKENS),
        "contextStrategy": or_null(_strategy()),
        "contextShift": or_null(part("ContextShift")),
    }
    said = (
        "OpenAI's chat completion request. Fields that are not listed go to the provider as they are. `contextStrategy` and "
        "`contextShift` are the gateway's own and never reach the provider."
    )
    return record(fields, said, optional=[name for name in fields if name not in ("model", "messages")])


def _context_shift() -> Schema:
    fields = {
        "chatId": CHAT_ID,
        "contextStrategy": _strategy(),
        "replyReserve": whole(1, "Tokens kept for the reply where the request names no limit."),
        "contextLimit": whole(1, "Tokens; may only lower the model's."),
        "report": choice(REPORTS, "Whether the answer says what was left out."),
        "purpose": choice(PURPOSES, "An auxiliary request does not replace the chat's audit."),
        "marks": items(part("MarkRule")),
        "memory": items(part("MemoryEntry"), "Each a system message directly before the current user message."),
    }
    return options(fields, f"What the gateway is asked to do. {_OWN_NAMES}")


def _mark_fields() -> dict[str, Schema]:
    return {
        "pinned": flag("Always sent."),
        "manualExcluded": flag("Left out under the strategy manual."),
        "required": flag("Always sent."),
        "kind": choice(BlockKind, "What it is for; decides before the role whether it is protected."),
        "relevance": {"type": "number", "description": "From 0 to 1; clamped."},
        "entryId": text(),
        "label": text(),
    }


def _message() -> Schema:
    direct = {name: or_null(_mark_fields()[name]) for name in ("pinned", "manualExcluded")}
    marked = {"meta": or_null(part("Meta")), **direct}
    content = {"description": "A text, or a list of parts; a part may have marks of its own.", "items": {"properties": marked}}
    fields = {"role": text(), "content": content, "id": or_null(text()), **marked}
    return record(fields, "A message with the marks of the gateway.", optional=[name for name in fields if name != "role"])


def _other_item() -> Schema:
    return {"type": "object", "properties": {"role": {"type": "null"}}, "description": "Without a role: passed on as it is."}


def _mark_rule() -> Schema:
    position = whole(None, "Negative ones count from the end.")
    span = items(position, "Both ends included.", minItems=2, maxItems=2)
    kinds = {"index": position, "id": text(), "range": span, "name": text()}
    one_of = [{"required": [name], "properties": {name: kinds[name]}} for name in SELECTORS]
    said = f"The messages that one of {', '.join(SELECTORS)} finds, and their marks."
    return {**options({**_mark_fields(), **kinds}, said), "oneOf": one_of}


def _memory_entry() -> Schema:
    marks = _mark_fields()
    fields = {"content": text(), "relevance": or_null(marks["relevance"]), "required": or_null(marks["required"])}
    return record(fields, optional=("relevance", "required"))
