"""Long messages cut in the middle: head and tail stay, the marker tells the truth, characters stay whole, and it is shorter."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.shifting import PromptBlock
from gateway.shifting.graphemes import may_cut
from gateway.shifting.shortening import LEAST_END, LEAST_ROOM, shortened, shorter_text, water_level

FAMILY = "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466"
FLAG = "\U0001f1f3\U0001f1f4"
MARKER = re.compile(r"\n\[… (\d+) tokens left out …\]\n")


def count(blocks: list[PromptBlock]) -> int:
    """A token is four bytes; seven for a prompt and three for each block."""
    return 7 + sum(3 + bytes_of(block.content) // 4 if block.tokens is None else block.tokens for block in blocks)


def bytes_of(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))


def block(content: Any, **more: Any) -> PromptBlock:
    text = content if isinstance(content, str) else ""
    return PromptBlock("m1", "tool", text, message={"role": "tool", "tool_call_id": "c", "content": content}, **more)


def cut(text: str, room: int) -> str:
    found = shortened(block(text), room, count)
    assert found is not None
    return found.content


def test_head_and_tail_stay_with_a_marker_between_that_counts_what_is_gone() -> None:
    text = "begin " + "word " * 2000 + "end"
    found = shortened(block(text, tokens=3 + len(text) // 4), 200, count)
    assert found is not None
    head, number, tail = MARKER.split(found.content)
    assert head.startswith("begin word")
    assert tail.endswith("word end")
    assert int(number) == 3 + len(text) // 4 - (3 + len(head + tail) // 4)
    assert found.tokens == 3 + bytes_of(found.content) // 4
    assert 150 <= found.tokens <= 200


def test_it_is_the_same_message_with_another_text() -> None:
    original = block("word " * 2000)
    found = shortened(original, 100, count)
    assert found is not None
    assert found.id == "m1"
    assert dict(found.message) == {"role": "tool", "tool_call_id": "c", "content": found.content}
    assert found.tokens is None
    assert original.content == "word " * 2000


def test_cuts_fall_on_space_where_some_is_near() -> None:
    head, _, tail = MARKER.split(cut("word " * 2000, 100))
    assert head.endswith("word ")
    assert tail.startswith(" word")


@pytest.mark.parametrize("character", [FAMILY, FLAG, "\U0001f44d\U0001f3fd", "e\u0301", "\u1112\u1161\u11ab", "你"])
@pytest.mark.parametrize("room", range(200, 220))
def test_cuts_never_fall_inside_a_character(character: str, room: int) -> None:
    head, _, tail = MARKER.split(cut(character * 500, room))
    assert head == character * (len(head) // len(character))
    assert tail == character * (len(tail) // len(character))
    assert min(len(head), len(tail)) >= LEAST_END


def test_a_lone_accent_after_the_space_is_no_place_for_a_cut() -> None:
    text = "x" * 300 + " \u0301" * 300 + "y" * 300
    head, _, tail = MARKER.split(cut(text, 150))
    assert may_cut(text, len(head))
    assert may_cut(text, len(text) - len(tail))


@pytest.mark.parametrize("content", [None, ["a"], [{"type": "text", "text": "word " * 900}], {"a": 1}])
def test_only_plain_strings_are_shortened(content: Any) -> None:
    assert shortened(block(content), 100, count) is None


@pytest.mark.parametrize("room", [-10, 0, 1, LEAST_ROOM - 1])
def test_too_little_room_is_no_room(room: int) -> None:
    assert shortened(block("word " * 2000), room, count) is None


def test_what_would_not_get_smaller_stays() -> None:
    assert shortened(block("tiny"), 100, count) is None
    assert shorter_text("word " * 900, 60, 59, lambda text: 59 + (" 1 " in text)) is None


def test_a_count_that_jumps_is_searched_in_few_rounds() -> None:
    asked: list[int] = []

    def size(text: str) -> int:
        asked.append(len(text))
        return 40 if len(text) <= 3000 else 9000

    found = shorter_text("word " * 5000, 10_000, 100, size)
    assert found is not None
    assert 2500 <= len(found) <= 3000
    assert len(asked) <= 12


def test_ends_too_short_to_know_the_text_by_are_not_sent() -> None:
    assert shortened(block(FAMILY * 500), 100, count) is None
    assert shortened(block("word " * 500), 40, count) is None


def test_a_message_without_a_dict_of_its_own_is_shortened_by_its_text() -> None:
    found = shortened(replace(block("word " * 2000), message={}), 100, count)
    assert found is not None
    assert found.content.startswith("word")


_pieces = st.lists(st.sampled_from([*"ab \n", FAMILY, FLAG, "\u0301", "\ud83d"]))


@given(_pieces.map(lambda pieces: "".join(pieces) * 40), st.integers(-5, 300))
def test_never_longer_and_within_the_room(text: str, room: int) -> None:
    found = shortened(block(text), room, count)
    if found is not None:
        assert len(found.content) < len(text)
        assert count([found]) <= room
        head, _, tail = MARKER.split(found.content)
        assert text.startswith(head)
        assert text.endswith(tail)
        assert shortened(block(text), room, count) == found


@given(st.lists(st.integers(0, 100), max_size=6), st.integers(-10, 400))
def test_the_water_level_is_the_largest_that_fits(weights: list[int], room: int) -> None:
    level = water_level(weights, room)
    if sum(weights) <= room:
        assert level == max(weights, default=0)
    elif room >= 0:
        assert sum(min(weight, level) for weight in weights) <= room
        assert sum(min(weight, level + 1) for weight in weights) > room
    else:
        assert level == 0
