"""What was fitted is told along with the answer, without touching another byte of it."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import unquote

import pytest

from gateway.audit import AuditBlock
from gateway.stores.base import AuditKey
from gateway.web.context_headers import MOST_IN_SUMMARY, context_headers, report_field, with_report
from tests.support.small_chats import prepared_prompt

KEY = AuditKey("", "a chat/ü", "gen_1")
REPORT = b'"contextShift":{"a":1},'


def left_out(number: int, *, reason: str = "context-shift", included: bool = False) -> AuditBlock:
    return AuditBlock(
        number, f"m{number}", "user", "history", "request", None, 5, False, included, reason, message=number, position=number
    )


def headers(**changes: Any) -> dict[str, str]:
    found = context_headers(prepared_prompt(**changes), KEY)
    return {name.decode(): value.decode() for name, value in found}


def test_every_number_has_its_header() -> None:
    blocks = [left_out(0), left_out(1, reason="summarized"), left_out(2, reason="fits", included=True)]
    found = headers(blocks=blocks, strategy="my strategy", tokenizer="hf:a b/c", approximate=True)
    assert unquote(found.pop("x-context-tokenizer")) == "hf:a b/c"
    assert found == {
        "x-context-strategy": "my%20strategy",
        "x-context-limit": "100",
        "x-context-reply-reserve": "10",
        "x-context-prompt-tokens": "90",
        "x-context-excluded": "2",
        "x-context-excluded-tokens": "10",
        "x-context-truncated": "1",
        "x-context-approximate": "true",
        "x-context-generation-id": "gen_1",
        "x-context-chat-id": "a%20chat%2F%C3%BC",
    }


def report(kind: str, blocks: list[AuditBlock]) -> dict[str, Any]:
    field = report_field(prepared_prompt(report=kind, blocks=blocks), KEY)
    assert field.endswith(b",")
    found: dict[str, Any] = json.loads(b"{" + field[:-1] + b"}")["contextShift"]
    return found


def test_a_report_that_nobody_asked_for_is_empty() -> None:
    assert report_field(prepared_prompt(report="off", blocks=[left_out(0)]), KEY) == b""


def test_a_report_names_what_was_left_out() -> None:
    assert report("full", [left_out(3), left_out(4, reason="fits", included=True)]) == {
        "generationId": "gen_1",
        "promptTokens": 90,
        "contextLimit": 100,
        "replyReserve": 10,
        "excluded": [{"index": 3, "id": "m3", "role": "user", "kind": "history", "tokens": 5, "reason": "context-shift"}],
        "truncated": [],
    }


@pytest.mark.parametrize(("kind", "most"), [("summary", MOST_IN_SUMMARY), ("full", 30)])
def test_a_summary_lists_some_and_a_full_report_all(kind: str, most: int) -> None:
    found = report(kind, [left_out(number, reason="summarized") for number in range(30)])
    assert (len(found["excluded"]), len(found["truncated"])) == (most, most)


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b'{"id":1}', b'{"contextShift":{"a":1},"id":1}'),
        (b' \n{ "id": 1.50 }\n', b' \n{"contextShift":{"a":1}, "id": 1.50 }\n'),
        (b"{}", b'{"contextShift":{"a":1}}'),
        (b"{ }", b'{"contextShift":{"a":1} }'),
        (b'data: {"id":1}\n\n', b'data: {"contextShift":{"a":1},"id":1}\n\n'),
        (b'data:{"id":1}\r\n\r\n', b'data:{"contextShift":{"a":1},"id":1}\r\n\r\n'),
        (b": wait\r\n\r\ndata: {}\r\n\r\n", b': wait\r\n\r\ndata: {"contextShift":{"a":1}}\r\n\r\n'),
        (b': {"no":1}\n\ndata: {"id":1}\n\n', b': {"no":1}\n\ndata: {"contextShift":{"a":1},"id":1}\n\n'),
        (b'data: {"id":1}\n\ndata: {"id":2}\n\n', b'data: {"contextShift":{"a":1},"id":1}\n\ndata: {"id":2}\n\n'),
        (b"data: [DONE]\n\n", b"data: [DONE]\n\n"),
        (b"data: [DONE]\r\n\r\n", b"data: [DONE]\r\n\r\n"),
        (b"", b""),
        (b": only a comment\n\n", b": only a comment\n\n"),
    ],
)
def test_the_report_is_the_first_member_and_every_other_byte_stays(data: bytes, expected: bytes) -> None:
    assert with_report(data, REPORT) == expected
    assert with_report(data, b"") == data
