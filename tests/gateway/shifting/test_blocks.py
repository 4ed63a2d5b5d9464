"""What a block is, and what protects it."""

from __future__ import annotations

import dataclasses

import pytest

from gateway.shifting import BlockKind, PromptBlock
from gateway.shifting.blocks import block_of, kind_of_role, text_of


@pytest.mark.parametrize(
    ("message", "protected"),
    [
        ({"role": "system"}, True),
        ({"role": "developer"}, True),
        ({"role": "user"}, False),
        ({"role": "user", "meta": {"kind": "character"}}, True),
        ({"role": "user", "meta": {"kind": "persona"}}, True),
        ({"role": "system", "meta": {"kind": "lorebook"}}, False),
        ({"role": "system", "meta": {"kind": "lorebook", "required": True}}, True),
        ({"role": "system", "meta": {"kind": "history"}}, False),
        ({"role": "assistant", "pinned": True}, True),
        ({"role": "assistant", "pinned": True, "meta": {"pinned": False}}, False),
        ({"role": "assistant", "pinned": "true"}, False),
        ({"role": "assistant", "meta": {"kind": "no-such-kind"}}, False),
        ({"role": "system", "meta": {"kind": 7}}, True),
        ({"role": "system", "meta": "text"}, True),
    ],
)
def test_the_kind_decides_before_the_role(message: dict[str, object], protected: bool) -> None:
    assert block_of(message, 0).self_protected is protected


def test_a_kind_follows_from_the_role_where_none_is_named() -> None:
    assert [kind_of_role(role) for role in ("system", "developer", "tool", "function", "user", None, 3)] == [
        BlockKind.SYSTEM, BlockKind.SYSTEM, BlockKind.TOOL, BlockKind.TOOL, *[BlockKind.HISTORY] * 3,
    ]  # fmt: skip


def test_the_text_of_parts_is_one_line_each() -> None:
    parts = [{"type": "text", "text": "a"}, "b", {"type": "image_url"}, {"type": "text", "text": 3}, None]
    assert text_of({"content": parts}) == "a\nb"
    assert text_of({"content": None}) == ""
    assert text_of({"content": 7}) == ""


def test_marks_of_wrong_types_are_left_out() -> None:
    block = block_of({"role": "user", "meta": {"relevance": True, "required": 1, "manualExcluded": True}}, 4)
    assert (block.id, block.relevance, block.required, block.manual_excluded) == ("m4", None, False, True)
    assert block_of({"role": "user", "meta": {"relevance": 0.5}}, 0).relevance == 0.5


def test_a_block_is_edited_into_a_new_one() -> None:
    block = PromptBlock("m1", "user", "old", tokens=3, message={"role": "user", "content": "old", "name": "n"})
    edited = block.with_content("new")
    assert (edited.content, edited.tokens, edited.message) == ("new", None, {"role": "user", "content": "new", "name": "n"})
    assert block.content == "old"
    with pytest.raises(dataclasses.FrozenInstanceError):
        block.content = "x"  # type: ignore[misc]


def test_a_new_block_is_unprotected() -> None:
    block = PromptBlock.new("system", "hint", kind="memory")
    assert (block.kind, block.self_protected, block.message) == (BlockKind.MEMORY, False, {"role": "system", "content": "hint"})
