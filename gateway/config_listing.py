"""The effective configuration as lines to read: key, value, source. Secrets stay hidden; nothing is asked or checked."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from datetime import UTC, datetime
from typing import Any

from gateway.learned import Lesson
from gateway.model_catalog import ModelCatalog, ModelConfig, effective_limits
from gateway.secret import Secret
from gateway.settings import Settings
from gateway.toml_tree import Place, kinds_of

Line = tuple[str, str, str]

_NOT_LISTED = ("model", "file", "sources", "context_limit", "max_output", "reply_reserve")


def describe(settings: Settings, catalog: ModelCatalog, asked: Mapping[str, int | None] | None = None) -> list[Line]:
    """Every key with its value and source. `asked` holds the context limits that upstreams name, by model name."""
    lines = [(key, value, settings.provenance.source(key)) for key, value in _leaves(settings, Place(""))]
    for config in catalog.all():
        lines += _model_lines(config, (asked or {}).get(config.name))
    return lines


def describe_lessons(lessons: Iterable[Lesson]) -> list[Line]:
    """What overflows taught; the account is an opaque word for the server and key."""
    lines: list[Line] = []
    for lesson in lessons:
        place = Place("", f"learned.{lesson.provider}.{lesson.model}")
        until = datetime.fromtimestamp(lesson.expires_at, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        source = f"overflow, account {lesson.account}, until {until}"
        if lesson.learned.context_limit is not None:
            lines.append((place.at("context_limit").key, _text(lesson.learned.context_limit), source))
        if lesson.learned.factor > 1:
            lines.append((place.at("counting_factor").key, _text(float(lesson.learned.factor)), source))
    return lines


def _model_lines(config: ModelConfig, asked: int | None) -> Iterator[Line]:
    place = Place("", f"models.{config.name}")
    limits = effective_limits(config, asked)
    output_source = limits.source if config.max_output is None and limits.max_output else config.sources["max_output"]
    yield place.at("context_limit").key, _text(limits.context_limit), limits.source
    yield place.at("max_output").key, _text(limits.max_output), output_source
    reserve = config.reserve_within(limits.context_limit)
    yield place.at("reply_reserve").key, _text(reserve), config.sources["reply_reserve"]
    for field in fields(config):
        if field.name in _NOT_LISTED:
            continue
        source = config.sources.get(field.name, f"file {config.file}")
        for key, value in _below(getattr(config, field.name), place.at(field.name)):
            yield key, value, source


def _leaves(table: Any, place: Place) -> Iterator[tuple[str, str]]:
    for name in kinds_of(type(table)):
        yield from _below(getattr(table, name), place.at(name))


def _below(value: Any, place: Place) -> Iterator[tuple[str, str]]:
    if is_dataclass(value):
        yield from _leaves(value, place)
    elif isinstance(value, Mapping) and value:
        for name, item in value.items():
            yield from _below(item, place.at(name))
    elif isinstance(value, tuple) and any(is_dataclass(item) for item in value):
        for index, item in enumerate(value):
            yield from _below(item, place.item(index))
    else:
        yield place.key, _text(value)


def _text(value: Any) -> str:
    if value is None:
        return "not set"
    if isinstance(value, Secret):
        return str(value) if value else "not set"
    return "{}" if isinstance(value, Mapping) else json.dumps(value, ensure_ascii=False)
