"""A fitted prompt is spelled alike in audits, previews and reports."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.audit import MAX_TEXT, AuditBlock, decode_body, encode_body
from gateway.web.wire_prompt import described, preview_object, prompt_object, report_object
from tests.support.sample_prompt import BLOCKS, BODY, DOCUMENT, LISTED, PROMPT

WHO = {"provider": "up", "model": "m", "upstreamModel": "m"}
WHOLE = {
    **DOCUMENT,
    "blocks": [{**item, "content": text} for item, text in zip(LISTED, ("", "old", "new"), strict=True)],
    "providerMessages": [{"role": "user", "content": "new"}],
}


def spelled(found: dict[str, Any]) -> Any:
    """What a client reads of it; messages are kept as raw JSON until then."""
    return msgspec.json.decode(msgspec.json.encode(found))


@pytest.mark.parametrize(
    ("view", "expected"), [("full", WHOLE), ("index", {**DOCUMENT, "blocks": LISTED}), ("summary", DOCUMENT)]
)
def test_a_prompt_is_told_in_each_view(view: str, expected: dict[str, Any]) -> None:
    assert spelled(prompt_object(PROMPT.summary(), decode_body(BODY), view)) == expected


def test_a_preview_tells_who_would_serve_and_whether_it_fits() -> None:
    found = spelled(preview_object(PROMPT.summary(), BODY, fits=False, deficit=3))
    assert found == {**WHO, **WHOLE, "fits": False, "deficit": 3}
    assert described(PROMPT.summary()) == WHO


def test_a_long_text_is_capped_with_its_full_length() -> None:
    long = [AuditBlock(0, "x", "system", "other", "request", None, 1, False, True, "fits", content="x" * (MAX_TEXT + 5))]
    found = prompt_object(PROMPT.summary(), decode_body(encode_body(long, [], [])), "full")["blocks"][0]
    assert (len(found["content"]), found["contentLength"]) == (MAX_TEXT, MAX_TEXT + 5)


def test_a_report_lists_blocks_by_their_message() -> None:
    found = report_object("gen_1", PROMPT.summary(), {"excluded": [BLOCKS[1]], "truncated": []})
    assert found == {
        "generationId": "gen_1",
        "promptTokens": 90,
        "contextLimit": 100,
        "replyReserve": 10,
        "excluded": [{"index": 0, "id": "m0", "role": "user", "kind": "history", "tokens": 4, "reason": "context-shift"}],
        "truncated": [],
    }
