"""What litellm's catalogue publishes about a model. Reads the catalogue's file; never imports litellm.

The window is `max_input_tokens`. Where input and output share one window (gpt-4o) that is the window; where they have limits
of their own (gpt-5: 272000 in, 128000 out) it is the smaller, safe choice: prompt and reply together always fit then.
`max_tokens` is the output limit in that file and is never taken for the window.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import msgspec

_FILE = "model_prices_and_context_window_backup.json"

Number = int | float | str | None


@dataclass(frozen=True, slots=True)
class PublishedLimits:
    """The limits of one model, in tokens."""

    context_limit: int
    max_output: int | None


class _Entry(msgspec.Struct):
    max_input_tokens: Number = None
    max_output_tokens: Number = None
    litellm_provider: str | None = None


def published_limits(model: str) -> PublishedLimits | None:
    """The published limits of a model; None where the catalogue isn't installed or doesn't know the name."""
    for entry in _entries(_catalogue(), model):
        context_limit = _tokens(entry.max_input_tokens)
        if context_limit is not None:
            return PublishedLimits(context_limit, _tokens(entry.max_output_tokens))
    return None


def _entries(catalogue: Mapping[str, _Entry], model: str) -> Iterator[_Entry]:
    """As it stands, with a provider in front, and without the one in front if the bare name belongs to that provider."""
    for name in (model, f"openai/{model}", f"openrouter/{model}"):
        if name in catalogue:
            yield catalogue[name]
    provider, _, name = model.partition("/")
    entry = catalogue.get(name)
    if entry is not None and entry.litellm_provider == provider:
        yield entry


def _tokens(value: Number) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


@cache
def _catalogue() -> Mapping[str, _Entry]:
    file = _file()
    if file is None:
        return {}
    try:
        return msgspec.json.decode(file.read_bytes(), type=dict[str, _Entry])
    except (OSError, msgspec.DecodeError):
        return {}


def _file() -> Path | None:
    try:
        spec = importlib.util.find_spec("litellm")
    except ValueError:
        return None
    folders = spec.submodule_search_locations if spec else None
    return Path(next(iter(folders))) / _FILE if folders else None
