"""How long a provider asks to wait, in seconds. Knows the spellings of headers, bodies and sentences, and no error code.

What asks outright counts before what only tells when a limit is renewed. Bounds are the answer's, not ours.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

_MAX_VALUE_CHARS = 64
_MAX_SECONDS = 1e9
_EPOCH_S = 1e8  # a number from here on is a moment: seconds, or from the next one on milliseconds
_EPOCH_MS = 1e11
_UNIT_S = {"h": 3600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ns": 1e-9}
_GO = re.compile(r"(?:\d+(?:\.\d+)?(?:ns|us|µs|μs|ms|s|m|h))+")
_GO_PART = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|μs|ms|s|m|h)")
_UNIT = r"(?:milliseconds?|millis|msecs?|ms|hours?|hrs?|h|minutes?|mins?|m|seconds?|secs?|s)(?![a-z])"
_PART = rf"\d{{1,9}}(?:\.\d{{1,9}})? ?{_UNIT}"
_SENTENCE = re.compile(
    rf"\b(?:try again|retry|retrying|wait|resets?)(?: your request)?(?: in| after| for)? (?:about |at least |another )?"
    rf"({_PART}(?:(?:,? and |, | )?{_PART}){{0,3}})"
)
_SENTENCE_PART = re.compile(rf"(\d+(?:\.\d+)?) ?({_UNIT})")
_RENEWED = (  # when a limit is renewed, and the header that says what is left of it
    *((f"x-ratelimit-reset-{limit}", f"x-ratelimit-remaining-{limit}") for limit in ("requests", "tokens", "tokens-minute")),
    *(
        (f"anthropic-ratelimit-{limit}-reset", f"anthropic-ratelimit-{limit}-remaining")
        for limit in ("requests", "tokens", "input-tokens", "output-tokens")
    ),
    ("x-ratelimit-reset", "x-ratelimit-remaining"),
    ("ratelimit-reset", "ratelimit-remaining"),
)


def seconds_to_wait(headers: Mapping[str, str], *, told: float | None, texts: Iterable[str], rate_limited: bool) -> float | None:
    """Seconds; None where nothing tells them. `told`: what a field of the body says; `texts`: its sentences, in lower case.

    In this order: retry-after-ms, retry-after, `told`, a sentence, and after a rate limit the time until a limit is renewed.
    """
    asked = _milliseconds(headers.get("retry-after-ms", ""))
    if asked is None:
        asked = seconds_until(headers.get("retry-after", ""))
    if asked is None:
        asked = told
    if asked is None:
        asked = next((seconds for seconds in map(_said, texts) if seconds is not None), None)
    return _renewed(headers) if asked is None and rate_limited else asked


def seconds_until(value: str) -> float | None:
    """Seconds from a number of them, a duration like `6m0s`, an epoch (s or ms), an HTTP or ISO date; a past date is 0."""
    value = value.strip()[:_MAX_VALUE_CHARS]
    number = _number(value)
    if number is not None:
        return _from_number(number)
    if _GO.fullmatch(value):
        return _bounded(sum(float(count) * _UNIT_S[unit] for count, unit in _GO_PART.findall(value)))
    moment = _moment(value)
    return None if moment is None else max(0.0, moment - time.time())


def _from_number(number: float) -> float | None:
    if number < _EPOCH_S:
        return _bounded(number)
    return _bounded(max(0.0, number / (1000 if number >= _EPOCH_MS else 1) - time.time()))


def _moment(value: str) -> float | None:
    """The epoch seconds of a date; one without a zone is UTC."""
    for read in (datetime.fromisoformat, parsedate_to_datetime):
        try:
            moment = read(value)
            return (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            continue
    return None


def _milliseconds(value: str) -> float | None:
    number = _number(value)
    return None if number is None else _bounded(number / 1000)


def _said(text: str) -> float | None:
    found = _SENTENCE.search(text)
    if found is None:
        return None
    return _bounded(sum(float(count) * _seconds_of(unit) for count, unit in _SENTENCE_PART.findall(found[1])))


def _seconds_of(unit: str) -> float:
    if unit.startswith(("ms", "mil")):
        return _UNIT_S["ms"]
    return _UNIT_S[unit[0]]


def _renewed(headers: Mapping[str, str]) -> float | None:
    """The time until every limit known to be used up is renewed; where none is known to be, until the first is."""
    limits = [(seconds_until(headers.get(reset, "")), _number(headers.get(left, ""))) for reset, left in _RENEWED]
    known = [(seconds, left) for seconds, left in limits if seconds is not None]
    used_up = [seconds for seconds, left in known if left is not None and left <= 0]
    return max(used_up) if used_up else min((seconds for seconds, _ in known), default=None)


def _number(value: str) -> float | None:
    try:
        number = float(value)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _bounded(seconds: float) -> float | None:
    return seconds if 0 <= seconds < _MAX_SECONDS else None
