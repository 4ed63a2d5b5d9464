"""The rules of a stream that a client may see, read strictly and apart from the code that makes it legal."""

from __future__ import annotations

import json
import re
from typing import Any

_LINE_END = re.compile(r"\r\n|\n")
_COMMENT = re.compile(r":[ -~]*")


def legal_events(stream: bytes) -> list[Any]:
    """The parsed data of every event, "[DONE]" as it is. Fails where the stream breaks a rule."""
    *lines, last = _LINE_END.split(stream.decode("utf-8"))
    assert last == "", "the stream ends within a line"
    assert not lines or lines[-1] == "", "the last event has no blank line"
    events: list[Any] = []
    in_event = 0
    for line in lines:
        assert "\r" not in line, "a carriage return stands alone"
        if not line:
            in_event = 0
        elif line.startswith(":"):
            assert _COMMENT.fullmatch(line), line
            assert "ping" not in line.lower(), line
            assert "data:" not in line.lower(), line
        else:
            events.append(_data(line))
            in_event += 1
        assert in_event < 2, "an event has several data lines"
    assert "[DONE]" not in events[:-1], "something follows [DONE]"
    return events


def require_legal(stream: bytes, *, error: bool = False) -> list[Any]:
    """The chunks of a whole stream: [DONE] is last, before it an error object if there is to be one, else every end."""
    *chunks, done = legal_events(stream)
    assert done == "[DONE]"
    if error:
        broken = chunks.pop()
        assert set(broken) == {"error"}
        assert isinstance(broken["error"]["message"], str)
    require_chunks(chunks, finished=not error)
    return chunks


def require_chunks(chunks: list[Any], *, finished: bool) -> None:
    """Every event has a list of choices and no error; `finished`: each choice seen has its finish_reason."""
    ends: dict[int, bool] = {}
    for chunk in chunks:
        assert isinstance(chunk, dict), chunk
        assert isinstance(chunk.get("choices"), list), chunk
        assert "error" not in chunk, chunk
        for choice in chunk["choices"]:
            index = choice.get("index", 0)
            ends[index] = ends.get(index, False) or bool(choice.get("finish_reason"))
    if finished:
        assert ends, "no choice has been seen"
        assert all(ends.values()), f"choices without an end: {ends}"


def _data(line: str) -> Any:
    name, _, value = line.partition(":")
    assert name == "data", line
    value = value.removeprefix(" ")
    return value if value == "[DONE]" else json.loads(value, parse_constant=_refused)


def _refused(constant: str) -> Any:
    raise AssertionError(f"{constant} is no JSON")
