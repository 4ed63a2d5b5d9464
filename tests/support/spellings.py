"""Every way to write one JSON value: spaces, the order of keys, escapes, the spelling of numbers."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import strategies as st


def spelled_string(text: str, escaped: bool) -> str:
    """A JSON string, plain or with every character escaped."""
    if not escaped:
        return json.dumps(text, ensure_ascii=False)
    units = text.encode("utf-16-be")
    return '"' + "".join(f"\\u{units[i]:02x}{units[i + 1]:02X}" for i in range(0, len(units), 2)) + '"'


def spelled_value(value: Any, draw: Any) -> str:
    """Any JSON spelling of a value: spaces, the order of keys, escapes and the way numbers are written."""
    space = draw(st.sampled_from(["", " ", "\n\t", "\r\n "]))
    if isinstance(value, str):
        return spelled_string(value, draw(st.booleans()))
    if isinstance(value, dict):
        keys = draw(st.permutations(list(value)))
        pairs = [f"{spelled_string(k, draw(st.booleans()))}{space}:{space}{spelled_value(value[k], draw)}" for k in keys]
        return "{" + space + f"{space},{space}".join(pairs) + space + "}"
    if isinstance(value, list):
        return "[" + space + f"{space},{space}".join([spelled_value(item, draw) for item in value]) + space + "]"
    if isinstance(value, int) and not isinstance(value, bool):
        return draw(st.sampled_from([f"{value}", f"{value}.0", f"{value}e0", f"{value}00E-2" if value else "-0"]))
    return json.dumps(value)
