"""A small fitted prompt and how the API spells it: one block left out, one shortened."""

from __future__ import annotations

from typing import Any

from gateway.audit import AuditBlock, encode_body
from gateway.chat import Diagnostic
from tests.support.small_chats import prepared_prompt

TOLD = Diagnostic("shift", "info", "code", "words")
BLOCKS = [
    AuditBlock(0, "template", "system", "template", "template", None, 3, False, True, "protected-request", content=""),
    AuditBlock(1, "m0", "user", "history", "request", "ann", 4, True, False, "context-shift", "g0", None, 0, None, 0),
    AuditBlock(2, "m1", "user", "history", "request", None, 5, False, True, "current-turn", None, 9, 1, None, 1),
]
PROMPT = prepared_prompt(blocks=BLOCKS, diagnostics=(TOLD,))
BODY = encode_body(BLOCKS, [b'{"role":"user","content":"old"}', b'{"role":"user","content":"new"}'], [{}, {}])
DOCUMENT = {
    "contextStrategy": "truncate",
    "tokenizer": {"profile": "words", "approximate": False},
    "budget": {
        "contextLimit": 100, "replyReserve": 10, "safetyMargin": 5, "promptTokens": 90, "promptTokensBefore": 120,
    },
    "diagnostics": [{"stage": "shift", "level": "info", "code": "code", "message": "words"}],
}  # fmt: skip


def block(order: int, reason: str, **values: Any) -> dict[str, Any]:
    common = {"role": "user", "kind": "history", "source": "request", "name": None, "approximate": False, "reason": reason}
    return {"order": order, **common, "group": None, "truncatedTo": None, **values}


LISTED = [
    block(0, "protected-request", id="template", role="system", kind="template", source="template", tokens=3, included=True),
    block(1, "context-shift", id="m0", name="ann", tokens=4, approximate=True, included=False, group="g0"),
    block(2, "current-turn", id="m1", tokens=5, included=True, truncatedTo=9),
]
