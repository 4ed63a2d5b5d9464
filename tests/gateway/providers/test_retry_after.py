"""How long to wait: every spelling of it, and which one counts."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import formatdate

import pytest

from gateway.providers.retry_after import seconds_to_wait, seconds_until

NOW = 1_800_000_000.0


@pytest.fixture(autouse=True)
def stopped_clock(monkeypatch):
    """It is always the same second."""
    monkeypatch.setattr(time, "time", lambda: NOW)


def wait(headers=None, *, told=None, texts=(), rate_limited=True):
    return seconds_to_wait(headers or {}, told=told, texts=texts, rate_limited=rate_limited)


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("7", 7),
        (" 7 ", 7),
        ("0", 0),
        ("0.5", 0.5),
        ("1s", 1),
        ("120ms", 0.12),
        ("6m0s", 360),
        ("1h2m3.5s", 3723.5),
        ("1m26.4s", 86.4),
        ("250us", 0.00025),
        ("250\u00b5s", 0.00025),
        ("1800000030", 30),
        ("1800000030500", 30.5),
        ("1700000000", 0),
        (formatdate(NOW + 30, usegmt=True), 30),
        ("Wed, 21 Oct 2015 07:28:00 GMT", 0),
        ("Wed, 21 Oct 2015 07:28:00 -0000", 0),
        ((datetime.fromtimestamp(NOW, UTC) + timedelta(seconds=9)).isoformat(), 9),
        ((datetime.fromtimestamp(NOW, UTC) + timedelta(seconds=9)).strftime("%Y-%m-%dT%H:%M:%SZ"), 9),
        ((datetime.fromtimestamp(NOW, UTC) + timedelta(seconds=9)).strftime("%Y-%m-%d %H:%M:%S"), 9),
    ],
)
def test_a_wait_is_a_number_a_duration_or_a_moment(value, seconds):
    assert seconds_until(value) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "value",
    ["", "soon", "-1", "nan", "inf", "-inf", "1e400", "s", "1d", "1s2", "9" * 70, "9" * 20 + "h", "Wed, 99 Oct", "9999-99-99"],
)
def test_what_is_no_wait_is_none(value):
    assert seconds_until(value) is None


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("please try again in 1.2s.", 1.2),
        ("please try again in 500ms. contact us", 0.5),
        ("please try again in 6m0s.", 360),
        ("please try again in 1h2m3s", 3723),
        ("please retry in 26.1s.", 26.1),
        ("please retry after 10 seconds.", 10),
        ("please retry your request after 1 second", 1),
        ("please wait 2 minutes", 120),
        ("wait for 250 milliseconds", 0.25),
        ("try again in about 3 sec", 3),
        ("try again in 1 minute and 30 seconds", 90),
        ("try again in 1 hour, 2 mins", 3720),
        ("the limit resets in 12s", 12),
        ("try again in 5 models", None),
        ("try again in 5 stages", None),
        ("try again in 5", None),
        ("retry in a moment, at most 5s", None),
        ("entry after 5s", None),
        ("try again later", None),
    ],
)
def test_a_sentence_may_tell_the_wait(text, seconds):
    assert wait(texts=["first", text]) == (None if seconds is None else pytest.approx(seconds))


def test_what_asks_outright_counts_before_what_only_tells():
    headers = {"retry-after-ms": "1500", "retry-after": "7", "x-ratelimit-reset-requests": "9s"}
    texts = ["try again in 5s"]
    assert wait(headers, told=3, texts=texts) == 1.5
    headers["retry-after-ms"] = "soon"
    assert wait(headers, told=3, texts=texts) == 7
    headers["retry-after"] = "soon"
    assert wait(headers, told=3, texts=texts) == 3
    assert wait(headers, texts=texts) == 5
    assert wait(headers) == 9
    assert wait({}) is None


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"x-ratelimit-reset-requests": "1s"}, 1),
        ({"x-ratelimit-reset-tokens": "6m0s"}, 360),
        ({"x-ratelimit-reset-tokens": "120ms"}, 0.12),
        ({"x-ratelimit-reset-requests": "8.64s", "x-ratelimit-reset-tokens": "2s"}, 2),
        ({"x-ratelimit-reset-requests": "8s", "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-tokens": "2s"}, 8),
        ({"x-ratelimit-reset-requests": "8s", "x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-tokens": "9s"}, 8),
        (
            {
                "x-ratelimit-reset-requests": "8s",
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-tokens": "2s",
                "x-ratelimit-remaining-tokens": "0",
            },
            8,
        ),
        ({"x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-tokens": "2s"}, 2),
        ({"anthropic-ratelimit-requests-reset": "2027-01-15T08:00:20Z"}, 20),
        (
            {"anthropic-ratelimit-input-tokens-reset": "2027-01-15T08:00:05Z", "anthropic-ratelimit-input-tokens-remaining": "0"},
            5,
        ),
        ({"x-ratelimit-reset": "1800000004"}, 4),
        ({"x-ratelimit-reset": "1800000004000"}, 4),
        ({"x-ratelimit-reset": "11"}, 11),
        ({"ratelimit-reset": "12"}, 12),
        ({"x-ratelimit-reset": "garbage"}, None),
    ],
)
def test_after_a_rate_limit_a_renewed_limit_ends_the_wait(headers, seconds):
    assert wait(headers) == (None if seconds is None else pytest.approx(seconds))
    assert wait(headers, rate_limited=False) is None


def test_a_date_without_a_zone_is_utc_wherever_the_gateway_runs(monkeypatch):
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "Asia/Tokyo")
        time.tzset()
        assert seconds_until("2027-01-15 08:00:09") == pytest.approx(9)
    time.tzset()
