"""JSON values as the text a model would see, and how much text they hold. Knows nothing of messages or tokens."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any


def compact_json(value: object) -> str:
    """The value as JSON without spaces, non-ASCII kept. Never raises: beyond the recursion limit only its texts are joined."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_plain)
    except RecursionError:
        return " ".join(_texts(value))


def text_weight(value: object, enough: int, known: Callable[[str], bool] | None = None) -> int:
    """The characters of all strings inside a JSON value but those `known`; stops looking once there are `enough`."""
    total = 0
    for text in _texts(value):
        total += 0 if known is not None and known(text) else len(text)
        if total >= enough:
            break
    return total


def _plain(value: object) -> Any:
    return dict(value) if isinstance(value, Mapping) else str(value)


def _texts(value: object) -> Iterator[str]:
    """Every key and every leaf that is not a container, without recursion."""
    waiting = [value]
    while waiting:
        item = waiting.pop()
        if isinstance(item, str):
            yield item
        elif isinstance(item, Mapping):
            for key, inner in item.items():
                yield str(key)
                waiting.append(inner)
        elif isinstance(item, list | tuple):
            waiting.extend(item)
        else:
            yield str(item)
