from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer_profiles.images import TileRule
from tokenizer_profiles.message_counter import ChatRules, MessageCounter

COUNTER = MessageCounter(lambda text: len(text.split()), ChatRules(), TileRule(85, 170))
FIXED = 4  # 3 a message, 1 for the role
CALL = ChatRules().per_call
PICTURE = {"type": "image_url", "image_url": {"url": "https://example.test/x.png"}}


def cost(message: dict[str, Any]) -> tuple[int, bool]:
    count = COUNTER.count(message)
    return count.tokens - FIXED, count.approximate


def parts(*content: object) -> tuple[int, bool]:
    return cost({"role": "user", "content": list(content)})


def test_a_text_costs_its_tokens_and_is_exact() -> None:
    assert cost({"role": "user", "content": "one two three"}) == (3, False)
    assert cost({"role": "system", "content": ""}) == (0, False)


def test_the_quick_way_counts_the_same() -> None:
    for content in ("one two", None, 7, [{"type": "text", "text": "one"}]):
        for role in ("user", "tool", ["x"]):
            message = {"role": role, "content": content}
            assert COUNTER.tokens(message) == COUNTER.count(message).tokens


def test_a_name_costs_one_more() -> None:
    assert cost({"role": "user", "content": "one", "name": "Ann"}) == (3, False)


def test_null_and_absent_cost_nothing() -> None:
    message = {"role": "assistant", "content": None, "refusal": None, "tool_calls": None, "audio": None, "name": None}
    assert cost(message) == cost({"role": "assistant"}) == (0, False)
    assert cost({"role": "assistant", "content": "one", "tool_calls": []}) == (1, False)


def test_a_refusal_is_part_of_the_prompt() -> None:
    assert cost({"role": "assistant", "content": None, "refusal": "I cannot"}) == (2, False)


def test_a_role_of_its_own_is_counted_as_text() -> None:
    assert cost({"role": "my critic", "content": "one"}) == (3, False)
    assert cost({"role": 7, "content": "one"}) == (2, True)


def test_text_parts_add_up_exactly() -> None:
    assert parts({"type": "text", "text": "one two"}, {"type": "input_text", "text": "three"}) == (3, False)
    assert parts({"type": "output_text", "text": "one"}, {"type": "refusal", "refusal": "no no"}) == (3, False)
    assert parts({"type": "text", "text": "one", "cache_control": {"type": "ephemeral"}}) == (1, False)
    assert parts({"type": "text", "text": "one", "annotations": "more words"}) == (3, True)


def test_a_tool_call_costs_its_name_and_arguments_and_an_overhead() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "find", "arguments": "two words"}}
    assert cost({"role": "assistant", "content": None, "tool_calls": [call]}) == (CALL + 4, True)
    assert cost({"role": "assistant", "content": None, "tool_calls": [call, call]}) == (2 * (CALL + 4), True)
    custom = {"id": "c1", "type": "custom", "custom": {"name": "find", "input": "two words"}}
    assert cost({"role": "assistant", "tool_calls": [custom]}) == (CALL + 4, True)


def test_a_legacy_function_call_costs_the_same() -> None:
    assert cost({"role": "assistant", "function_call": {"name": "find", "arguments": "two words"}}) == (CALL + 3, True)


def test_a_tool_result_costs_its_link() -> None:
    assert cost({"role": "tool", "tool_call_id": "c1", "content": "one"}) == (2, True)
    assert cost({"role": "tool", "callId": "c1", "content": "one"}) == (2, True)


def test_an_item_without_a_role_is_counted() -> None:
    assert cost({"type": "function_call", "call_id": "c1", "name": "f", "arguments": "two words"}) == (5, True)


def test_reasoning_and_unknown_keys_are_counted_as_text() -> None:
    assert cost({"role": "assistant", "content": "one", "reasoning_content": "two three"}) == (3, True)
    assert cost({"role": "assistant", "content": "one", "x_note": {"k": "two three"}}) == (3, True)


def test_content_blocks_of_tools_are_counted() -> None:
    assert parts({"type": "tool_use", "id": "t1", "name": "find", "input": {"q": "a b"}}) == (CALL + 4, True)
    result = {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "a b"}]}
    assert parts(result) == (CALL + 3, True)
    assert parts({"type": "tool_result", "tool_use_id": "t1", "content": "a b"}) == (CALL + 3, True)
    assert parts({**result, "content": [PICTURE]})[0] == CALL + 1 + 1445


def test_an_image_costs_its_tiles_and_is_approximate() -> None:
    assert parts(PICTURE) == (1445, True)
    assert parts({"type": "image_url", "image_url": {"url": PICTURE, "detail": "low"}}) == (85, True)
    assert parts({"type": "input_image", "image_url": "https://example.test/x.png", "detail": "low"}) == (85, True)
    assert parts({"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}) == (
        1445,
        True,
    )
    assert parts({"type": "image_url"}) == (1445, True)


def test_a_sound_is_never_counted_as_text() -> None:
    data = base64.b64encode(bytes(320_000)).decode()
    assert parts({"type": "input_audio", "input_audio": {"data": data, "format": "wav"}}) == (100, True)
    assert parts({"type": "input_audio", "input_audio": "odd shape"}) == (CALL + 2, True)


def test_a_file_is_never_counted_as_base64() -> None:
    pdf = "data:application/pdf;base64," + base64.b64encode(bytes(3_200)).decode()
    assert parts({"type": "file", "file": {"file_data": pdf, "filename": "a.pdf"}}) == (1001, True)
    assert parts({"type": "input_file", "file_id": "file-1"}) == (1001, True)
    text = base64.b64encode(b"one two three").decode()
    assert parts({"type": "document", "source": {"type": "base64", "media_type": "text/plain", "data": text}})[0] == 4
    assert parts({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "one two"}}) == (2, True)


def test_unknown_parts_are_counted_as_text() -> None:
    assert parts({"type": "x_future", "x_future": {"note": "two words"}}) == (CALL + 2, True)
    assert parts({"type": "video_url", "video_url": {"url": "https://example.test/v.mp4"}}) == (CALL + 1, True)
    assert parts({"note": "no type"}) == (CALL + 2, True)


def test_malformed_shapes_are_counted_as_their_json() -> None:
    assert cost({"role": "user", "content": 12}) == (1, True)
    assert cost({"role": "user", "content": {"text": "one two"}}) == (2, True)
    assert parts(7, "two words", None) == (3, True)
    assert parts({"type": "text", "text": 7}) == (CALL + 1, True)
    assert parts({"type": ["x"], "text": "one"}) == (CALL + 1, True)
    assert cost({"role": "assistant", "tool_calls": "odd"}) == (1, True)
    assert cost({"role": "assistant", "tool_calls": ["odd", {"function": "odd"}, None]}) == (2, True)
    assert cost({"role": "assistant", "function_call": "odd"}) == (1, True)
    assert cost({"role": "user", "content": "one", "name": ["x"]}) == (2, True)


def test_results_inside_results_end_somewhere() -> None:
    part: dict[str, Any] = {"type": "text", "text": "deep"}
    for _ in range(3000):
        part = {"type": "tool_result", "content": [part]}
    tokens, approximate = parts(part)
    assert tokens > 8
    assert approximate


def test_media_are_estimated_apart() -> None:
    assert COUNTER.media({"role": "user", "content": [PICTURE, {"type": "text", "text": "one"}]}) == 1445
    assert COUNTER.media({"role": "user", "content": "one"}) is None


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = st.sampled_from(["role", "content", "name", "tool_calls", "function_call", "refusal", "tool_call_id", "x"])
PART = st.dictionaries(st.sampled_from(["type", "text", "image_url", "source", "file", "input_audio", "content"]), JSON)
KIND = st.sampled_from(["text", "image_url", "image", "input_audio", "file", "document", "tool_result", "refusal"])


@settings(deadline=None, max_examples=300)
@given(st.dictionaries(KEYS, JSON), st.lists(st.builds(lambda part, kind: {**part, "type": kind}, PART, KIND), max_size=3))
def test_no_message_raises_or_costs_less_than_nothing(message: dict[str, Any], content: list[Any]) -> None:
    assert COUNTER.count(message).tokens == COUNTER.tokens(message) >= FIXED
    assert COUNTER.count({**message, "content": content}).tokens >= FIXED


def test_a_counter_of_estimates_marks_everything() -> None:
    counter = MessageCounter(len, ChatRules(), TileRule(85, 170), approximate=True)
    assert counter.count({"role": "user", "content": "abc"}).approximate


@pytest.mark.parametrize("key", ["id", "type", "status", "index", "cache_control"])
def test_bookkeeping_keys_are_free(key: str) -> None:
    assert cost({"role": "user", "content": "one", key: "x y z"}) == (1, False)
