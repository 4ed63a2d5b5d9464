"""Messages in the shape that some providers insist on: no neighbours of one role, one system message, a user who begins.

Pure: messages as mappings in, messages and what each is made of out; nothing given is changed, and no text is lost or reordered
but that of system messages, which `strict` puts at the front. Knows no tokens, no budget and no blocks.

`merge` joins neighbours of one role, and leaves those apart whose `name` differs: two speakers. `strict` also brings the system
texts together at the front, joins whatever the names, and puts a user message before an assistant that would begin. A developer
counts as system. Messages with tool calls or results are never joined, so that around them roles stay as they came.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from gateway.settings import MessageShape
from gateway.shifting.links import CALL_LIST_KEYS

CONTINUED: Mapping[str, Any] = {"role": "user", "content": "(continued)"}
"""What stands before an assistant that would begin."""

_BLANK_LINE = "\n\n"
_SYSTEM = "system"
_SYSTEMS = ("system", "developer")
_KINDS = {**dict.fromkeys(_SYSTEMS, _SYSTEM), "user": "user", "assistant": "assistant"}
_CALL_KEYS = (*CALL_LIST_KEYS, "function_call")
_TOOL_PARTS = ("tool_use", "tool_result")  # the last words of such a part's type


class Shaped(NamedTuple):
    """A message as it is sent, the positions of those it is made of (none: it is the shape's own), how many values were lost."""

    message: Mapping[str, Any]
    sources: tuple[int, ...]
    lost: int = 0


def shaped(messages: Sequence[Mapping[str, Any]], shape: MessageShape) -> list[Shaped]:
    """The messages in a shape, in the order of sending; one that stays as it is is the very mapping that was given."""
    if shape == "as-is":
        return [Shaped(message, (at,)) for at, message in enumerate(messages)]
    strict = shape == "strict"
    kinds = [_kind(message) for message in messages]
    order: Iterable[int] = range(len(messages))
    if strict:
        order = sorted(order, key=lambda at: kinds[at] != _SYSTEM)
    runs = _runs(messages, kinds, order, names_count=not strict)
    out = [_joined(messages, run) if len(run) > 1 else Shaped(messages[run[0]], (run[0],)) for run in runs]
    if strict:
        first = next((at for at, one in enumerate(out) if _role(one.message) not in _SYSTEMS), len(out))
        if first < len(out) and _role(out[first].message) == "assistant":
            out.insert(first, Shaped(CONTINUED, ()))
    return out


def is_changed(found: Sequence[Shaped]) -> bool:
    """Whether a shape makes any difference."""
    return any(one.sources != (at,) for at, one in enumerate(found))


def remarks(found: Sequence[Shaped], shape: MessageShape) -> list[tuple[str, str, str]]:
    """What a shape did where it made a difference: levels, stable codes, words for people."""
    places = [at for one in found for at in one.sources]
    done = [f"message_shape {shape}: {len(places)} messages are sent as {len(found)}"]
    if any(len(one.sources) > 1 for one in found):
        done.append("neighbours of one role are joined by a blank line")
    if places != sorted(places):
        done.append("system messages stand at the front")
    if any(not one.sources for one in found):
        done.append("a user message (continued) stands before the assistant's first")
    out = [("info", "message-shape", "; ".join(done))]
    lost = sum(one.lost for one in found)
    if lost:
        text = f"joined messages differed in other fields ({lost}): the first's went out, and of differing names none"
        out.append(("warning", "message-shape-lost", text))
    return out


def _kind(message: Mapping[str, Any]) -> str | None:
    """With what a message may be joined; None for one that never is."""
    kind = _KINDS.get(_role(message))
    if len(message) == 2 and type(message.get("content")) is str:
        return kind  # nothing but role and text, as most are
    if kind is None or any(message.get(key) for key in _CALL_KEYS):
        return None
    content = message.get("content")
    if isinstance(content, list):
        return None if any(map(_is_of_tools, content)) else kind
    return kind if content is None or isinstance(content, str) else None


def _role(message: Mapping[str, Any]) -> str:
    role = message.get("role")
    return role if isinstance(role, str) else ""


def _is_of_tools(part: object) -> bool:
    kind = part.get("type") if isinstance(part, Mapping) else None
    return isinstance(kind, str) and kind.endswith(_TOOL_PARTS)


def _runs(
    messages: Sequence[Mapping[str, Any]], kinds: Sequence[str | None], order: Iterable[int], *, names_count: bool
) -> list[list[int]]:
    """The positions of what becomes one message."""
    runs: list[list[int]] = []
    kind_before: str | None = None
    for at in order:
        kind = kinds[at]
        joins = kind is not None and kind == kind_before
        if joins and names_count:
            joins = messages[at].get("name") == messages[runs[-1][0]].get("name")
        if joins:
            runs[-1].append(at)
        else:
            runs.append([at])
        kind_before = kind
    return runs


def _joined(messages: Sequence[Mapping[str, Any]], run: Sequence[int]) -> Shaped:
    sources = [messages[at] for at in run]
    out, lost = dict(sources[0]), 0
    for message in sources[1:]:
        for key, value in message.items():
            if value is not None and out.get(key) is None:
                out[key] = value
            elif key not in ("role", "content", "name") and value is not None and value != out[key]:
                lost += 1
    names = [message.get("name") for message in sources]
    if any(name != names[0] for name in names):
        del out["name"]
        lost += 1
    if "content" in out:
        out["content"] = _joined_content([message.get("content") for message in sources])
    return Shaped(out, tuple(run), lost)


def _joined_content(contents: Sequence[str | list[Any] | None]) -> str | list[Any] | None:
    """Texts with a blank line between them; parts in their order as soon as one has any. What is empty leaves no trace."""
    filled = [content for content in contents if content]
    texts = [content for content in filled if isinstance(content, str)]
    if len(texts) == len(filled):
        return _BLANK_LINE.join(texts) if texts else contents[0]
    out: list[Any] = []
    for content in filled:
        _append(out, [_text_part(content)] if isinstance(content, str) else content)
    return out


def _append(out: list[Any], parts: Sequence[Any]) -> None:
    """Adds parts. Where text meets text there is a blank line; plain texts become one part, and one with marks keeps its own."""
    if not out or not (_text(out[-1]) and _text(parts[0])):
        out += parts
        return
    before, after = out[-1], parts[0]
    if _is_plain(before) and _is_plain(after):
        out[-1] = _text_part(before["text"] + _BLANK_LINE + after["text"])
        out += parts[1:]
        return
    if _is_plain(before):
        out[-1] = _text_part(before["text"] + _BLANK_LINE)
    else:
        after = {**after, "text": _BLANK_LINE + after["text"]}
    out += [after, *parts[1:]]


def _text(part: object) -> str:
    """The text of a part that is one; "" for any other."""
    text = part.get("text") if isinstance(part, Mapping) and part.get("type") == "text" else None
    return text if isinstance(text, str) else ""


def _is_plain(part: Mapping[str, Any]) -> bool:
    return len(part) == 2


def _text_part(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
