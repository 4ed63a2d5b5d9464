"""Random conversations for property tests: systems, pins, tool calls near and far, ids reused in every turn, orphans."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

IDS = ("call_0", "call_1", "x")


def words(items: list[Any]) -> int:
    """Words of a list of messages, plus two a message and three for the prompt: additive but for the constant."""
    return 3 + sum(2 + len(str(item.get("content") or "").split()) + 3 * len(item.get("tool_calls") or []) for item in items)


_text = st.integers(0, 9).map(lambda count: " ".join(["word"] * count))
_meta = st.sampled_from([{}, {}, {}, {"meta": {"pinned": True}}, {"meta": {"kind": "lorebook"}}, {"meta": {"kind": "persona"}}])


def _message(role: str, **more: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.builds(lambda text, meta: {"role": role, "content": text, **more, **meta}, _text, _meta)


def _call(ids: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    calls = [{"id": name, "type": "function", "function": {"name": "f", "arguments": "{}"}} for name in ids]
    return _message("assistant", tool_calls=calls)


_single = st.one_of(
    _message("user"),
    _message("user"),
    _message("assistant"),
    _message("system"),
    st.lists(st.sampled_from(IDS), min_size=1, max_size=2, unique=True).flatmap(_call),
    st.sampled_from(IDS).flatmap(lambda name: _message("tool", tool_call_id=name)),
)
_turn = st.builds(
    lambda *parts: list(parts),
    _message("user"),
    _call(["call_0"]),
    _message("tool", tool_call_id="call_0"),
    _message("assistant"),
)

conversations = st.lists(st.one_of(_single.map(lambda message: [message]), _turn), min_size=1, max_size=12).map(
    lambda parts: [message for part in parts for message in part]
)
