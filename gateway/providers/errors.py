"""Which of our errors a provider's failure is. Knows the table in errors.toml, no provider by name.

Exceptions are told by their class. Answers are told by exact words (codes, types), then by texts that count only with
certain statuses, then by status. Nothing of an answer goes on but the verdict and numbers.
"""

from __future__ import annotations

import json
import re
import time
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from functools import cache
from importlib.resources import files
from typing import Any

import httpx

from gateway.errors import (
    Number,
    ProviderError,
    ProviderInvalidResponse,
    ProviderOverloaded,
    ProviderServerError,
    ProviderStreamError,
    ProviderTimeout,
    ProviderUnknown,
    ProviderUnreachable,
)

_MAX_DEPTH = 8
_MAX_TEXT = 8192
_MAX_NUMBER = 1e12
_CLASSES: dict[str, type[ProviderError]] = {kind.code: kind for kind in ProviderError.__subclasses__()}
_RETRY_TEXT = re.compile(r"(?:retry|try again) (?:in|after) ([0-9.]+) ?(ms|s\b|sec)", re.IGNORECASE)
_STATUSES_OF_A_KEY = (401, 403)


def transport_error(error: httpx.HTTPError | httpx.InvalidURL, *, connect_s: float) -> ProviderError:
    """An exception on the way to the provider, by its class."""
    if isinstance(error, httpx.PoolTimeout):
        return ProviderOverloaded("The gateway has too many requests open to this provider. Try again later.")
    if isinstance(error, httpx.ConnectTimeout):
        return ProviderTimeout(f"No connection to the provider within {connect_s:g} s.", metadata={"timeoutSeconds": connect_s})
    kinds: tuple[tuple[type[Exception], type[ProviderError]], ...] = (
        (httpx.TimeoutException, ProviderTimeout),
        (httpx.DecodingError, ProviderInvalidResponse),
        (httpx.TooManyRedirects, ProviderInvalidResponse),
    )
    for theirs, ours in kinds:
        if isinstance(error, theirs):
            return ours(_table().messages[ours.code])
    return ProviderUnreachable(_table().messages[ProviderUnreachable.code])


def refusal(status: int, headers: Mapping[str, str], body: bytes, *, own_key: bool = False) -> ProviderError:
    """An answer with a bad status. `own_key`: the client's key was used, so 401 and 403 stay what they are."""
    signals = _Signals(status=status)
    signals.word(headers.get("x-amzn-errortype", "").partition(":")[0])
    _walk(_parsed(body), "", signals, 0)
    code = _verdict(signals)
    kept = status if own_key and status in _STATUSES_OF_A_KEY and code in ("PROVIDER_AUTH", "PROVIDER_PERMISSION") else None
    return _made(_CLASSES[code], signals, retry_after=_retry_after(headers, signals), status=kept)


def reported_error(body: bytes, *, in_band: bool) -> ProviderError:
    """An error object inside a 200. `in_band`: after the first chunk, where an unspecific one is PROVIDER_STREAM_ERROR."""
    signals = _Signals()
    _walk(_parsed(body), "", signals, 0)
    signals.status = signals.inner_status
    kind = _CLASSES[_verdict(signals)]
    if in_band and kind in (ProviderServerError, ProviderUnknown):
        kind = ProviderStreamError
    return _made(kind, signals, retry_after=_retry_after({}, signals))


@dataclass(slots=True)
class _Signals:
    """What an answer says of itself."""

    status: int | None = None
    inner_status: int | None = None
    words: set[str] = field(default_factory=set)
    texts: list[str] = field(default_factory=list)
    numbers: dict[str, float] = field(default_factory=dict)

    def word(self, value: str) -> None:
        if value:
            self.words.add(value.strip().lower()[:_MAX_TEXT])


@dataclass(frozen=True, slots=True)
class _Rule:
    code: str
    statuses: frozenset[int]
    words: frozenset[str]
    patterns: tuple[re.Pattern[str], ...]
    veto: tuple[re.Pattern[str], ...]

    def fires(self, signals: _Signals) -> bool:
        if self.statuses and signals.status is not None and signals.status not in self.statuses:
            return False
        if not self.words.isdisjoint(signals.words):
            return True
        return _any_match(self.patterns, signals.texts) and not _any_match(self.veto, signals.texts)


@dataclass(frozen=True, slots=True)
class _Table:
    walk: Mapping[str, frozenset[str]]
    rules: tuple[_Rule, ...]
    fallback: Mapping[str, str]
    types: Mapping[str, str]
    numbers: Mapping[str, tuple[str, ...]]
    limit: tuple[re.Pattern[str], ...]
    prompt: tuple[re.Pattern[str], ...]
    messages: Mapping[str, str]


@cache
def _table() -> _Table:
    data: dict[str, Any] = tomllib.loads(files("gateway.providers").joinpath("errors.toml").read_text("utf-8"))
    numbers = data["numbers"]
    return _Table(
        walk={key: frozenset(names) for key, names in data["walk"].items()},
        rules=tuple(_rule(entry) for entry in [*data["structured"], *data["text"]]),
        fallback=data["fallback"],
        types=data["types"],
        numbers={key: tuple(numbers[key]) for key in ("limit_keys", "prompt_keys")},
        limit=_compiled(numbers["limit"]),
        prompt=_compiled(numbers["prompt"]),
        messages=data["messages"],
    )


def _rule(entry: Mapping[str, Any]) -> _Rule:
    return _Rule(
        entry["code"],
        frozenset(entry.get("statuses", ())),
        frozenset(entry.get("words", ())),
        _compiled(entry.get("patterns", ())),
        _compiled(entry.get("veto", ())),
    )


def _compiled(patterns: Iterable[str]) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(pattern, re.IGNORECASE) for pattern in patterns)


def _verdict(signals: _Signals) -> str:
    table = _table()
    for rule in table.rules:
        if rule.fires(signals):
            return rule.code
    if signals.status is not None:
        status = str(signals.status)
        return table.fallback.get(status) or table.fallback.get(f"{status[0]}xx", ProviderUnknown.code)
    return next((code for word, code in table.types.items() if word in signals.words), ProviderUnknown.code)


def _made(kind: type[ProviderError], signals: _Signals, *, retry_after: float | None, status: int | None = None) -> ProviderError:
    metadata: dict[str, Number] = {}
    if signals.status is not None:
        metadata["providerStatus"] = signals.status
    if kind.code == "PROVIDER_CONTEXT_OVERFLOW":
        table = _table()
        found = {
            "providerLimit": _number(signals, table.numbers["limit_keys"], table.limit),
            "providerPromptTokens": _number(signals, table.numbers["prompt_keys"], table.prompt),
        }
        metadata.update({key: value for key, value in found.items() if value})
    waiting = retry_after if kind.retryable else None
    return kind(_table().messages[kind.code], metadata=metadata, retry_after=waiting, status=status)


def _parsed(body: bytes) -> object:
    text = body.decode("utf-8", "replace")
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return {"message": text}


def _walk(value: object, key: str, signals: _Signals, depth: int) -> None:
    """Collects words, texts and numbers from the places that the table names."""
    if depth > _MAX_DEPTH:
        return
    if isinstance(value, str):
        _note_text(value, key, signals, depth)
    elif isinstance(value, (int, float)):
        _note_number(value, key, signals)
    for name, inner in _below(value, key):
        _walk(inner, name, signals, depth + 1)


def _below(value: object, key: str) -> list[tuple[str, object]]:
    """What is looked at inside a value, with its key; the elements of a list have the list's."""
    if isinstance(value, list):
        return [(key, inner) for inner in value]
    if not isinstance(value, dict):
        return []
    entered = _table().walk["descend"] | _table().walk["params"]
    inside = [(str(name).lower(), inner) for name, inner in value.items()]
    return [(name, inner) for name, inner in inside if name in entered or not isinstance(inner, (dict, list))]


def _note_text(value: str, key: str, signals: _Signals, depth: int) -> None:
    walk = _table().walk
    if key in walk["words"]:
        signals.word(value)
    if key in walk["params"]:
        signals.word(f"param={value}")
        signals.texts.append(f"param={value[:64]}")
    if key in walk["texts"]:
        if value.lstrip()[:1] in ("{", "["):
            _walk(_parsed(value.encode("utf-8", "replace")), key, signals, depth + 1)
        else:
            signals.texts.append(value[:_MAX_TEXT])
    if key in walk["statuses"] and value.isascii() and value.isdigit() and len(value) == 3:
        _note_number(int(value), key, signals)
    if key == "retrydelay" and value.endswith("s"):
        signals.numbers.setdefault("retry_after", _seconds(value[:-1]) or 0.0)


def _note_number(value: float, key: str, signals: _Signals) -> None:
    if not 0 <= value < _MAX_NUMBER:
        return
    signals.numbers.setdefault(key, value)
    if key in _table().walk["statuses"] and signals.inner_status is None and 400 <= value < 600:
        signals.inner_status = int(value)


def _number(signals: _Signals, keys: Iterable[str], patterns: Iterable[re.Pattern[str]]) -> int | None:
    for key in keys:
        if key in signals.numbers:
            return int(signals.numbers[key])
    for pattern in patterns:
        for text in signals.texts:
            match = pattern.search(text)
            if match and len(match[1]) < 12:
                return int(match[1])
    return None


def _retry_after(headers: Mapping[str, str], signals: _Signals) -> float | None:
    """Seconds to wait: from the headers, from a structured field, else from the text."""
    milliseconds = _seconds(headers.get("retry-after-ms", ""))
    if milliseconds is not None:
        return milliseconds / 1000
    value = headers.get("retry-after", "")
    seconds = _seconds(value)
    if seconds is None and value:
        seconds = _until(value)
    if seconds is None:
        seconds = signals.numbers.get("retry_after")
    if seconds is None:
        match = next(filter(None, map(_RETRY_TEXT.search, signals.texts)), None)
        told = _seconds(match[1]) if match else None
        seconds = told / 1000 if told is not None and match and match[2].lower() == "ms" else told
    return seconds


def _seconds(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        return None
    return seconds if 0 <= seconds < 1e9 else None


def _until(date: str) -> float | None:
    try:
        return max(0.0, parsedate_to_datetime(date).timestamp() - time.time())
    except (ValueError, OverflowError):
        return None


def _any_match(patterns: Iterable[re.Pattern[str]], texts: Iterable[str]) -> bool:
    return any(pattern.search(text) for pattern in patterns for text in texts)
