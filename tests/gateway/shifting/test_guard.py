"""Whatever foreign code gives back: protected blocks unchanged and in place, groups whole, order kept, budget held."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.shifting import BlockKind, PromptBlock, Reason, ShiftResult, shift_context
from gateway.shifting.blocks import block_of
from gateway.shifting.guard import ADDED, Guarded, Restored, guarded, restored
from gateway.shifting.links import tool_links
from gateway.shifting.shift import protection
from tests.gateway.shifting.conversations import conversations, words

CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}
RESULT = {"role": "tool", "tool_call_id": "c", "content": "bulk"}


def counted(blocks: Any) -> int:
    return words([block.message for block in blocks])


def blocks_of(messages: list[dict[str, Any]]) -> list[PromptBlock]:
    return [block_of(message, i) for i, message in enumerate(messages)]


def chat() -> list[PromptBlock]:
    """A system message, two turns with a tool call in the first, and the current input."""
    start = [{"role": "system", "content": "rules"}, {"role": "user", "content": "q1"}, CALL, RESULT]
    rest = [("assistant", "a1"), ("user", "q2"), ("assistant", "a2"), ("user", "now")]
    return blocks_of([*start, *({"role": role, "content": text} for role, text in rest)])


def ids(blocks: Any) -> list[str]:
    return [block.id for block in blocks]


def codes(outcome: Guarded | Restored) -> list[str]:
    return [found.code for found in outcome.interferences]


def returned(blocks: list[PromptBlock], kept: list[PromptBlock], **more: Any) -> Guarded:
    left = [block for block in blocks if not any(block is one for one in kept)]
    return guarded(blocks, ShiftResult(kept, more.pop("excluded", left), **more), counted, 1000)


def test_an_honest_result_stands_without_a_remark() -> None:
    blocks = chat()
    outcome = returned(blocks, [blocks[0], *blocks[4:]], reasons={"m1": Reason.LOW_RELEVANCE, "m2": "odd", 3: Reason.MANUAL})
    assert outcome.interferences == []
    assert not outcome.rejected
    assert outcome.result.kept == [blocks[0], *blocks[4:]]
    assert outcome.result.excluded == blocks[1:4]
    assert outcome.result.reasons == {"m1": Reason.LOW_RELEVANCE}
    assert outcome.result.prompt_tokens == counted(outcome.result.kept)


@pytest.mark.parametrize(
    ("result", "code"),
    [
        (None, "no-result"),
        ([], "no-result"),
        (ShiftResult("m0, m3", []), "no-blocks"),
        (ShiftResult(None, []), "no-blocks"),  # type: ignore[arg-type]
        (ShiftResult([{"role": "user"}], []), "no-blocks"),
        (ShiftResult([PromptBlock("m0", "user", 7)], []), "no-blocks"),  # type: ignore[arg-type]
        (ShiftResult([PromptBlock("m0", "user", "x", message=[])], []), "no-blocks"),  # type: ignore[arg-type]
        (ShiftResult([], []), "protected-dropped"),
    ],
)
def test_what_is_no_result_is_replaced_by_truncate(result: object, code: str) -> None:
    blocks = chat()
    outcome = guarded(blocks, result, counted, 22, 0.5)
    assert codes(outcome) == [code]
    assert outcome.rejected
    assert outcome.result == shift_context(blocks, counted, 22, 0.5)


@pytest.mark.parametrize("position", [0, 7])
def test_protected_blocks_may_be_neither_dropped_nor_edited(position: int) -> None:
    blocks = chat()
    dropped = returned(blocks, [block for i, block in enumerate(blocks) if i != position])
    edited = returned(blocks, [block.with_content("no rules") if i == position else block for i, block in enumerate(blocks)])
    assert codes(dropped) == ["protected-dropped"]
    assert codes(edited) == ["protected-edited"]
    assert dropped.result.kept == edited.result.kept == blocks


def test_tool_groups_of_the_turn_may_leave_when_nothing_else_is_left_and_only_as_many_as_needed() -> None:
    pairs = [
        ({**CALL, "tool_calls": [{"id": name, "function": {}}]}, {**RESULT, "tool_call_id": name, "content": "w " * 9})
        for name in ("x", "y", "z")
    ]
    said = [{"role": "user", "content": "old"}, {"role": "user", "content": "now"}]
    blocks = blocks_of(said + [message for pair in pairs for message in pair])
    tight = shift_context(blocks, counted, 40)
    assert ids(tight.excluded) == ["m0", "m2", "m3"]
    outcome = guarded(blocks, ShiftResult([blocks[1], *blocks[6:]], [blocks[0], *blocks[2:6]]), counted, 40)
    assert (outcome.result.kept, outcome.rejected) == (tight.kept, False)
    assert guarded(blocks, ShiftResult([*blocks[:2], *blocks[6:]], blocks[2:6]), counted, 40).rejected


def test_forgotten_blocks_are_excluded() -> None:
    blocks = chat()
    outcome = returned(blocks, [blocks[0], blocks[7]], excluded=[])
    assert codes(outcome) == ["forgotten"]
    assert ids(outcome.result.excluded) == ["m1", "m2", "m3", "m4", "m5", "m6"]


@pytest.mark.parametrize("half", [2, 3])
def test_half_a_tool_group_leaves_whole(half: int) -> None:
    blocks = chat()
    outcome = returned(blocks, [blocks[0], blocks[half], *blocks[4:]])
    assert codes(outcome) == ["group-split"]
    assert outcome.result.kept == [blocks[0], *blocks[4:]]
    assert outcome.result.reasons == {f"m{half}": Reason.GROUP_MEMBER, f"m{5 - half}": Reason.CONTEXT_SHIFT}


def test_the_order_is_the_requests_and_each_block_counts_once() -> None:
    blocks = chat()
    kept = [blocks[7], blocks[3], blocks[2], blocks[0], blocks[0], replace(blocks[3], content="again")]
    outcome = returned(blocks, kept, excluded=[blocks[1], *blocks[4:8]])
    assert codes(outcome) == ["duplicate-block", "reordered", "kept-and-excluded"]
    assert ids(outcome.result.kept) == ["m0", "m2", "m3", "m7"]


def test_invented_protection_is_void_and_new_blocks_are_the_first_to_leave() -> None:
    blocks = chat()
    pinned = PromptBlock(
        "m99", "user", "INVENTED", BlockKind.SYSTEM, pinned=True, message={"role": "user", "content": "INVENTED"}
    )
    outcome = returned(blocks, [*blocks, pinned])
    assert codes(outcome) == ["added-protection"]
    (new,) = [block for block in outcome.result.kept if block.source == ADDED]
    assert (new.pinned, new.kind, new.id) == (False, BlockKind.OTHER, "plug-in-0")
    assert outcome.result.kept[-1] is blocks[7], "a new user message never becomes the current turn"
    tight = guarded(blocks, ShiftResult([*blocks, pinned], []), counted, counted(blocks))
    assert codes(tight) == ["added-protection", "added-withdrawn"]
    assert tight.result.kept == blocks


def test_claimed_numbers_count_for_nothing() -> None:
    blocks = chat()
    outcome = guarded(blocks, ShiftResult(blocks, [], (), 1, True), counted, 25)
    assert counted(outcome.result.kept) == outcome.result.prompt_tokens <= 25
    assert set(outcome.result.reasons.values()) == {Reason.FINAL_BUDGET}
    assert [blocks[0], blocks[7]] == [outcome.result.kept[0], outcome.result.kept[-1]]


def test_a_summary_and_shortened_blocks_are_told_as_compressed() -> None:
    blocks = chat()
    summary = PromptBlock.new("system", "told before", kind="summary")
    short = blocks[4].with_content("a")
    gone = blocks[1:4]
    outcome = returned(blocks, [blocks[0], summary, short, *blocks[5:]], excluded=[], truncated=[*gone, blocks[4]])
    assert outcome.interferences == []
    assert ids(outcome.result.truncated) == ["m1", "m2", "m3", "m4"]
    assert set(outcome.result.reasons.values()) == {Reason.SUMMARIZED}
    assert outcome.result.kept[2].content == "a"
    without = returned(blocks, [blocks[0], *blocks[4:]], excluded=[], truncated=gone, reasons={"m1": Reason.SUMMARIZED})
    assert (ids(without.result.excluded), without.result.truncated, without.result.reasons) == (["m1", "m2", "m3"], [], {})


def test_tool_messages_may_not_be_made_nor_their_links_edited() -> None:
    blocks = chat()
    other = replace(blocks[3], message={**RESULT, "tool_call_id": "d"})
    as_tool = replace(blocks[4], role="tool")
    made = [replace(blocks[2], id="new"), PromptBlock.new("tool", "x")]
    outcome = returned(blocks, [*blocks[:3], other, as_tool, *blocks[5:], *made], excluded=[])
    assert codes(outcome) == ["tool-link-edited", "tool-link-edited", "added-tool-message", "added-tool-message"]
    assert outcome.result.kept == blocks
    edited = returned(blocks, [*blocks[:3], blocks[3].with_content("less"), *blocks[4:]], excluded=[])
    assert edited.interferences == []
    assert (edited.result.kept[3].content, edited.result.kept[3].tokens) == ("less", None)


def test_new_blocks_stand_where_they_were_put_but_in_no_tool_group() -> None:
    blocks = chat()
    new = [PromptBlock.new("system", str(n)) for n in range(5)]
    back = restored(blocks, [new[0], *blocks[:3], new[1], blocks[3], new[2], *blocks[4:], new[3]])
    assert [block.content for block in back.blocks] == ["0", "rules", "q1", "", "bulk", "1", "2", "a1", "q2", "a2", "now", "3"]
    assert back.interferences == []
    turn = blocks_of([{"role": "user", "content": "q"}, CALL, {"role": "user", "content": "now"}, RESULT])
    asked = restored(turn, [*turn, PromptBlock.new("user", "new")])
    assert [block.content for block in asked.blocks] == ["q", "new", "", "now", "bulk"]


def test_an_interceptor_can_not_touch_protected_blocks_and_its_other_edits_stand() -> None:
    blocks = chat()
    back = restored(blocks, [blocks[7].with_content("evil"), blocks[1].with_content("mild"), blocks[5], blocks[6]])
    assert codes(back) == ["reordered", "protected-restored"]
    assert [block.content for block in back.blocks] == ["rules", "mild", "q2", "a2", "now"]
    assert back.reasons == {"m2": Reason.INTERCEPTOR, "m3": Reason.INTERCEPTOR, "m4": Reason.INTERCEPTOR}


def test_an_interceptor_that_removes_a_call_removes_its_result() -> None:
    blocks = chat()
    back = restored(blocks, [block for block in blocks if block.id != "m2"])
    assert back.reasons == {"m2": Reason.INTERCEPTOR, "m3": Reason.GROUP_MEMBER}
    assert ids(back.blocks) == ["m0", "m1", "m4", "m5", "m6", "m7"]


def test_what_another_interceptor_added_may_be_removed_wherever_it_stands() -> None:
    blocks = restored(chat(), [*chat(), PromptBlock.new("system", "late")]).blocks
    back = restored(blocks, blocks[:-1])
    assert (ids(back.blocks), back.interferences) == (ids(chat()), [])


@pytest.mark.parametrize("nonsense", [None, "blocks", iter(()), [None], {"m0": 1}])
def test_an_interceptor_that_returns_no_blocks_is_undone(nonsense: object) -> None:
    blocks = chat()
    back = restored(blocks, nonsense)
    assert (back.blocks, codes(back)) == (blocks, ["no-blocks"])


def hostile(blocks: list[PromptBlock]) -> st.SearchStrategy[list[PromptBlock]]:
    """Lists that drop, repeat, reorder, edit and invent."""
    one = st.sampled_from(blocks)
    item = st.one_of(
        one,
        one,
        one,
        st.builds(lambda block, text: block.with_content(text), one, st.sampled_from(["", "x", "w " * 20])),
        st.builds(
            lambda block, name: replace(block, id=name, pinned=True, tokens=0), one, st.sampled_from(["", "m99", ADDED + "-0"])
        ),
        st.builds(lambda block, role: replace(block, role=role, required=True), one, st.sampled_from(["user", "tool", "system"])),
        st.sampled_from([PromptBlock.new("user", "new w w"), PromptBlock.new("system", "sys"), PromptBlock.new("tool", "t")]),
    )
    return st.one_of(
        st.lists(item, max_size=len(blocks) + 3), st.just([*blocks]).map(lambda every: every[::-1]), st.just(blocks[1:])
    )


def assert_sound(given_blocks: list[PromptBlock], kept: list[PromptBlock], may_leave: set[int]) -> None:
    """Protected blocks are there, the very objects; known ones in order and once; groups whole; no links of its own making."""
    position = {block.id: i for i, block in enumerate(given_blocks)}
    known = [position[block.id] for block in kept if block.id in position]
    assert known == sorted(set(known))
    plan = protection(given_blocks)
    for group, protected in zip(plan.groups, plan.protected, strict=True):
        left = set(group.indexes) & set(known)
        assert left in (set(), set(group.indexes))
        assert left or not protected or set(group.indexes) <= may_leave
        if protected:
            assert all(block is given_blocks[position[block.id]] for block in kept if position.get(block.id) in left)
    for block in kept:
        if block.id in position:
            assert tool_links(block.message) == tool_links(given_blocks[position[block.id]].message)
        else:
            assert not block.self_protected
            assert not tool_links(block.message)
    assert len({block.id for block in kept}) == len(kept)


@settings(deadline=None, max_examples=150)
@given(st.data(), conversations, st.integers(0, 80))
def test_whatever_a_strategy_returns_the_promises_hold(data: st.DataObject, messages: list[dict[str, Any]], budget: int) -> None:
    blocks = blocks_of(messages)
    kept = data.draw(hostile(blocks))
    excluded = data.draw(st.one_of(st.just([]), st.none(), st.lists(st.sampled_from(blocks))))
    outcome = guarded(blocks, ShiftResult(kept, excluded, excluded, 1, True), counted, budget)
    result = outcome.result
    plan = protection(blocks)
    assert_sound(blocks, list(result.kept), {i for group in plan.last_resort() for i in group.indexes})
    assert result.prompt_tokens == counted(result.kept)
    assert result.fits == (result.prompt_tokens <= budget)
    assert result.fits or result.prompt_tokens == shift_context(blocks, counted, budget).prompt_tokens
    gone = {block.id for block in blocks} - set(ids(result.kept))
    compressed = {block.id for block in result.truncated} & gone
    assert set(ids(result.excluded)) | compressed == gone
    assert not set(ids(result.excluded)) & compressed


@settings(deadline=None, max_examples=100)
@given(st.data(), conversations)
def test_whatever_an_interceptor_returns_the_promises_hold(data: st.DataObject, messages: list[dict[str, Any]]) -> None:
    blocks = blocks_of(messages)
    back = restored(blocks, data.draw(hostile(blocks)))
    assert_sound(blocks, back.blocks, set())
    assert set(back.reasons) == set(ids(blocks)) - set(ids(back.blocks))
    again = restored(back.blocks, data.draw(hostile(back.blocks)))
    held = [block for block in again.blocks if block.id in ids(blocks)]
    assert_sound(blocks, held, set())
