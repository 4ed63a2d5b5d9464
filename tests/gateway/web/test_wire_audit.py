"""An audit is spelled for the API as the interface says, in each of its views."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from gateway.audit import encode_summary
from gateway.stores.base import AuditHead, AuditKey, AuditOutcome, AuditStatus, StoredAudit
from gateway.web.wire_audit import audit_object, iso_time
from tests.support.sample_prompt import BODY, DOCUMENT, LISTED, PROMPT


def stored(outcome: AuditOutcome | None = None, *, body: bytes | None = BODY, tenant: str = "t") -> StoredAudit:
    head = AuditHead(AuditKey(tenant, "c", "gen_1"), "m", 1700000000.1239, encode_summary(PROMPT.summary()))
    return StoredAudit(head, outcome, body)


def shown(audit: StoredAudit, view: str = "full") -> dict[str, Any]:
    found: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(audit_object(audit, view)))
    return found


def test_a_whole_audit_has_every_field() -> None:
    outcome = AuditOutcome(AuditStatus.COMPLETED, 1700000001.0, None, b'{"total_tokens":7}', "stop")
    assert shown(stored(outcome)) == {
        "generationId": "gen_1",
        "chatId": "c",
        "tenant": "t",
        "provider": "up",
        "model": "m",
        "upstreamModel": "m",
        "createdAt": "2023-11-14T22:13:20.123Z",
        "finishedAt": "2023-11-14T22:13:21.000Z",
        "status": "completed",
        "errorCode": None,
        **DOCUMENT,
        "blocks": [{**item, "content": text} for item, text in zip(LISTED, ("", "old", "new"), strict=True)],
        "providerMessages": [{"role": "user", "content": "new"}],
        "usage": {"total_tokens": 7},
        "finishReason": "stop",
    }


def test_an_audit_under_way_has_no_end() -> None:
    found = shown(stored(tenant=""))
    assert (found["status"], found["finishedAt"], found["errorCode"]) == ("prepared", None, None)
    assert (found["usage"], found["finishReason"], found["tenant"]) == (None, None, None)


def test_an_audit_that_failed_says_why() -> None:
    found = shown(stored(AuditOutcome(AuditStatus.FAILED, 0.0, "PROVIDER_TIMEOUT")))
    assert (found["status"], found["errorCode"], found["usage"]) == ("failed", "PROVIDER_TIMEOUT", None)


def test_an_audit_whose_body_is_not_written_yet_has_no_blocks() -> None:
    found = shown(stored(body=None))
    assert (found["blocks"], found["providerMessages"], found["budget"]) == ([], [], DOCUMENT["budget"])


@pytest.mark.parametrize("view", ["index", "summary"])
def test_the_smaller_views_leave_texts_or_blocks_out(view: str) -> None:
    found = shown(stored(), view)
    assert found.get("blocks") == (LISTED if view == "index" else None)
    assert "providerMessages" not in found
    assert found["diagnostics"] == DOCUMENT["diagnostics"]


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0, "1970-01-01T00:00:00.000Z"), (1.0005, "1970-01-01T00:00:01.000Z"), (60.5, "1970-01-01T00:01:00.500Z")],
)
def test_times_are_utc_to_the_millisecond(seconds: float, text: str) -> None:
    assert iso_time(seconds) == text
