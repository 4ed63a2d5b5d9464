"""An audit says what its messages said, however odd these were, and keeps long ones only in part."""

from __future__ import annotations

import json

import pytest

from gateway.audit import (
    MAX_TEXT,
    AuditBlock,
    AuditBody,
    AuditSummary,
    decode_body,
    decode_summary,
    encode_body,
    encode_summary,
)
from gateway.chat import Diagnostic


def block(message: int | None = 0, *, included: bool = True, content: str | None = None) -> AuditBlock:
    return AuditBlock(0, "m0", "user", "history", "request", None, 3, False, included, "fits", message=message, content=content)


def stored(*messages: bytes, blocks: list[AuditBlock] | None = None) -> AuditBody:
    parsed = [json.loads(raw) for raw in messages]
    return decode_body(encode_body(blocks or [block(i) for i in range(len(messages))], messages, parsed))


def text(raw: bytes) -> tuple[str, int]:
    body = stored(raw)
    return body.text(body.blocks[0])


def test_a_summary_survives_its_store() -> None:
    told = (Diagnostic("shift", "info", "code", "words"),)
    summary = AuditSummary("up", "m", "m-1", "truncate", "o200k_base", True, 100, 10, 5, 42, 90, told)
    assert decode_summary(encode_summary(summary)) == summary


def test_a_summary_holds_numbers_as_large_as_clients_send_them() -> None:
    summary = AuditSummary("up", "m", "m", "truncate", "words", False, 100, 10**300, 0, 1, 1)
    assert decode_summary(encode_summary(summary)).reply_reserve == 10**300


def test_a_body_survives_its_store() -> None:
    blocks = [block(None, content=""), block(0, included=False)]
    body = stored(b'{"role":"user","content":"a b"}', blocks=blocks)
    assert (body.blocks, list(map(bytes, body.messages)), body.cut) == (blocks, [b'{"role":"user","content":"a b"}'], {})


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b'{"role":"user","content":"caf\\u00e9"}', "café"),
        (b'{"role":"user","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}]}', "a\nb"),
        (b'{"role":"user","content":""}', ""),
        (b'{"role":"user","content":null,"name":null}', ""),
        (b'{"role":"assistant","content":null,"tool_calls":[{"id":"c"}]}', '{"tool_calls":[{"id":"c"}]}'),
        (b'{"role":"user","content":[{"type":"image_url"}]}', '{"content":[{"type":"image_url"}]}'),
    ],
)
def test_a_block_has_the_text_of_its_message(raw: bytes, expected: str) -> None:
    assert text(raw) == (expected, len(expected))


def test_a_block_without_a_message_has_its_own_text() -> None:
    body = stored(blocks=[block(None, content="x" * (MAX_TEXT + 1)), block(None)])
    assert body.text(body.blocks[0]) == ("x" * MAX_TEXT, MAX_TEXT + 1)
    assert body.text(body.blocks[1]) == ("", 0)


@pytest.mark.parametrize("over", [0, 1, 100_000])
def test_a_long_message_is_kept_in_part_with_its_full_length(over: int) -> None:
    said = "ü" * (MAX_TEXT + over)
    long = json.dumps({"role": "user", "content": said, "more": [1]}, ensure_ascii=False).encode()
    body = stored(b'{"role":"user","content":"short"}', long)
    assert body.text(body.blocks[0]) == ("short", 5)
    assert body.text(body.blocks[1]) == (said[:MAX_TEXT], len(said))
    assert json.loads(bytes(body.messages[1])) == {"role": "user", "content": said[:MAX_TEXT], "contentLength": len(said)}
    assert body.cut == {1: len(said)}


def test_a_long_call_is_kept_in_part_as_json() -> None:
    call = {"id": "c", "function": {"name": "f", "arguments": "x" * MAX_TEXT}}
    body = stored(json.dumps({"role": "assistant", "content": None, "tool_calls": [call]}).encode())
    found, length = body.text(body.blocks[0])
    assert found.startswith('{"tool_calls":[{"id":"c"')
    assert len(found) == MAX_TEXT < length


@pytest.mark.parametrize("more", [b'"contentLength":"abc"', b'"contentLength":3', b'"contentLength":null'])
def test_a_clients_own_field_is_never_taken_for_a_mark_of_the_audit(more: bytes) -> None:
    assert text(b'{"role":"user","content":"a b",' + more + b"}") == ("a b", 3)
    assert text(b'{"role":"user",' + more + b"}")[0] != "None"


@pytest.mark.parametrize("number", ["1e400", "1" * 5000, "1" * 30, "-0.0", "1E5"])
def test_an_audit_can_be_read_whatever_numbers_stand_in_a_message(number: str) -> None:
    raw = f'{{"role":"user","content":"a b","n":{number}}}'.encode()
    body = decode_body(encode_body([block()], [raw], [{"role": "user", "content": "a b"}]))
    assert body.text(body.blocks[0]) == ("a b", 3)
    assert bytes(body.provider_messages()[0]) == raw


def test_the_providers_messages_are_the_included_ones_in_order() -> None:
    blocks = [block(None, content=""), block(0, included=False), block(1), block(2)]
    raws = [b'{"role":"user", "content":"%d", "n":1.50}' % number for number in range(3)]
    assert list(map(bytes, stored(*raws, blocks=blocks).provider_messages())) == raws[1:]


def test_what_a_shape_made_of_messages_is_what_the_provider_got() -> None:
    raws = [b'{"role":"user","content":"a"}', b'{"role":"user","content":"b"}', b'{"role":"user","content":"a b"}']
    document = encode_body([block(0), block(1)], raws, [{}, {}, {}], [2])
    assert list(map(bytes, decode_body(document).provider_messages())) == raws[2:]
    assert decode_body(document).text(block(1)) == ("b", 1)
