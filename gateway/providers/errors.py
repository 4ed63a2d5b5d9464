"""Which of our errors a provider's failure is. Knows the table in errors.toml, no provider by name.

Exceptions are told by their class. Answers are told by exact words (codes, types), then by texts that count only with
certain statuses, then by status. Nothing of an answer goes on but the verdict and numbers.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

import httpx

from gateway.errors import (
    Number,
    ProviderError,
    ProviderInvalidResponse,
    ProviderOverloaded,
    ProviderRateLimit,
    ProviderServerError,
    ProviderStreamError,
    ProviderTimeout,
    ProviderUnknown,
    ProviderUnreachable,
)
from gateway.providers.error_signals import Signals, Walk, signals_of
from gateway.providers.retry_after import seconds_to_wait

_CLASSES: dict[str, type[ProviderError]] = {kind.code: kind for kind in ProviderError.__subclasses__()}
_STATUSES_OF_A_KEY = (401, 403)
_RELAYED = 424  # somebody behind the provider failed; the body may name that one's status


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
    signals = signals_of(body, _table().walk)
    signals.word(headers.get("x-amzn-errortype", "").partition(":")[0])
    behind = signals.numbers.get("originalstatuscode", 0) if status == _RELAYED else 0
    signals.status = int(behind) if 400 <= behind < 600 else status
    code = _verdict(signals)
    kept = status if own_key and status in _STATUSES_OF_A_KEY and code in ("PROVIDER_AUTH", "PROVIDER_PERMISSION") else None
    return _made(_CLASSES[code], signals, headers, provider_status=status, status=kept)


def reported_error(body: bytes, *, in_band: bool) -> ProviderError:
    """An error object inside a 200. `in_band`: after the first chunk, where an unspecific one is PROVIDER_STREAM_ERROR."""
    signals = signals_of(body, _table().walk)
    signals.status = signals.inner_status
    kind = _CLASSES[_verdict(signals)]
    if in_band and kind in (ProviderServerError, ProviderUnknown):
        kind = ProviderStreamError
    return _made(kind, signals, {}, provider_status=signals.status)


@dataclass(frozen=True, slots=True)
class _Rule:
    code: str
    statuses: frozenset[int]
    words: frozenset[str]
    patterns: tuple[re.Pattern[str], ...]
    veto: tuple[re.Pattern[str], ...]

    def fires(self, signals: Signals) -> bool:
        if self.statuses and signals.status is not None and signals.status not in self.statuses:
            return False
        if not self.words.isdisjoint(signals.words):
            return True
        return _any_match(self.patterns, signals.texts) and not _any_match(self.veto, signals.texts)


@dataclass(frozen=True, slots=True)
class _Table:
    walk: Walk
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
        walk=Walk(**{key: frozenset(names) for key, names in data["walk"].items()}),
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
    return tuple(re.compile(pattern) for pattern in patterns)


def _verdict(signals: Signals) -> str:
    table = _table()
    for rule in table.rules:
        if rule.fires(signals):
            return rule.code
    if signals.status is not None:
        status = str(signals.status)
        return table.fallback.get(status) or table.fallback.get(f"{status[0]}xx", ProviderUnknown.code)
    return next((code for word, code in table.types.items() if word in signals.words), ProviderUnknown.code)


def _made(
    kind: type[ProviderError],
    signals: Signals,
    headers: Mapping[str, str],
    *,
    provider_status: int | None,
    status: int | None = None,
) -> ProviderError:
    metadata: dict[str, Number] = {} if provider_status is None else {"providerStatus": provider_status}
    if kind.code == "PROVIDER_CONTEXT_OVERFLOW":
        metadata.update(_overflow_numbers(signals))
    waiting = None
    if kind.retryable:
        limited = kind is ProviderRateLimit
        waiting = seconds_to_wait(headers, told=signals.wait, texts=signals.texts, rate_limited=limited)
    return kind(_table().messages[kind.code], metadata=metadata, retry_after=waiting, status=status)


def _overflow_numbers(signals: Signals) -> dict[str, Number]:
    """The provider's limit, and its count of the prompt alone (or the least it can be), where they are told."""
    table = _table()
    found = {
        "providerLimit": _number(signals, table.numbers["limit_keys"], table.limit),
        "providerPromptTokens": _number(signals, table.numbers["prompt_keys"], table.prompt),
    }
    return {key: value for key, value in found.items() if value}


def _number(signals: Signals, keys: Iterable[str], patterns: Iterable[re.Pattern[str]]) -> int | None:
    """The number under a key, else what the groups of the first pattern that matches add up to."""
    for key in keys:
        if key in signals.numbers:
            return int(signals.numbers[key])
    for pattern in patterns:
        match = next(filter(None, map(pattern.search, signals.texts)), None)
        if match:
            return sum(int(group) for group in match.groups() if group)
    return None


def _any_match(patterns: Iterable[re.Pattern[str]], texts: Iterable[str]) -> bool:
    return any(pattern.search(text) for pattern in patterns for text in texts)
