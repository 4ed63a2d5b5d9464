"""The strategy `summarize`: what truncate promises, and a summary that is small, whole, in its place and true."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.shifting import BlockKind, PromptBlock, Reason, ShiftOptions, ShiftResult, shift_context
from gateway.shifting.blocks import block_of
from gateway.shifting.sentences import sentences_of
from gateway.shifting.shift import protection
from gateway.shifting.strategies.summarize import SUMMARY_ID, Summarize
from tests.gateway.shifting.conversations import conversations, words


def counted(blocks: list[PromptBlock]) -> int:
    return words([block.message for block in blocks])


def shifted(blocks: list[PromptBlock], budget: int, summary: int = 60, cut_step: float = 0.0) -> ShiftResult[PromptBlock]:
    return Summarize().shift(blocks, counted, budget, options=ShiftOptions(cut_step, summary))


def chat(*texts: str) -> list[dict[str, Any]]:
    """A system message, then user and assistant in turn."""
    roles = ["system", *(["user", "assistant"] * len(texts))]
    return [{"role": role, "content": text} for role, text in zip(roles, texts, strict=False)]


def blocks_of(messages: list[dict[str, Any]]) -> list[PromptBlock]:
    return [block_of(message, i) for i, message in enumerate(messages)]


def talk(turns: int) -> list[PromptBlock]:
    """A chat in which every question and every answer holds one number to remember."""
    texts = ["Help people."]
    for i in range(turns):
        texts += [
            f"We talk of this again. Locker {i} holds item {1000 + i}.",
            f"Well noted, we go on. Shelf {i} is row {2000 + i}.",
        ]
    return blocks_of(chat(*texts, "What now?"))


def summary_of(result: ShiftResult[PromptBlock]) -> PromptBlock | None:
    return next((block for block in result.kept if block.id == SUMMARY_ID), None)


CALL = {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {"name": "f", "arguments": "{}"}}]}


def result_of(text: Any, **more: Any) -> dict[str, Any]:
    return {"role": "tool", "tool_call_id": "c", "content": text, **more}


def test_what_fits_is_untouched() -> None:
    blocks = talk(3)
    result = shifted(blocks, 10_000)
    assert result.kept == blocks
    assert (result.excluded, list(result.truncated), result.diagnostics) == ([], [], ())


def test_a_summary_stands_before_the_current_input_and_all_fits() -> None:
    blocks = talk(30)
    result = shifted(blocks, 300)
    summary = summary_of(result)
    assert summary is not None
    assert [block.id for block in result.kept[-2:]] == [SUMMARY_ID, blocks[-1].id]
    assert (summary.role, summary.kind, summary.source) == ("system", BlockKind.SUMMARY, "summary")
    assert dict(summary.message) == {"role": "system", "content": summary.content}
    assert result.fits
    assert result.prompt_tokens == counted(list(result.kept)) <= 300
    assert counted([summary]) - counted([]) <= 60


def test_with_tool_steps_after_the_input_it_stands_before_the_input() -> None:
    blocks = [*talk(30), block_of(CALL, 90), block_of(result_of("It is seven."), 91)]
    assert [block.id for block in shifted(blocks, 300).kept[-4:]] == [SUMMARY_ID, "m61", "m90", "m91"]


def test_without_a_user_message_it_stands_before_the_newest_group() -> None:
    blocks = [replace(block, role="assistant") for block in talk(30)[1:-1]]
    assert [block.id for block in shifted(blocks, 300).kept[-2:]] == [SUMMARY_ID, blocks[-1].id]


def test_the_newest_facts_are_not_lost_first_and_sentences_are_whole() -> None:
    result = shifted(talk(30), 300)
    summary = summary_of(result)
    assert summary is not None
    whole = {sentence for block in result.excluded for sentence in sentences_of(block.content)}
    lines = summary.content.splitlines()[1:]
    assert {sentence for line in lines for sentence in sentences_of(line.split(": ", 1)[1])} <= whole
    last = result.excluded[-1]
    assert f"{last.role}: {sentences_of(last.content)[-1]}" in lines


def test_the_told_are_summarized_and_the_others_have_left_by_context_shift() -> None:
    result = shifted(talk(30), 300)
    told = [block for block in result.excluded if result.reasons.get(block.id) is Reason.SUMMARIZED]
    assert list(result.truncated) == told
    assert 2 <= len(told) < len(result.excluded)
    summary = summary_of(result)
    assert summary is not None
    assert all(any(sentence in summary.content for sentence in sentences_of(block.content)) for block in told)


def test_members_of_a_told_group_share_its_reason() -> None:
    group = [CALL, result_of("Vault 77 opens with 4711. Guard Bo sleeps at 23.")]
    blocks = blocks_of([*chat("s", "One two three. " * 30), *group, {"role": "user", "content": "w " * 40}])
    result = shifted(blocks, 120, summary=72)
    assert [block.id for block in result.truncated if block.role != "user"] == ["m2", "m3"]
    assert result.reasons["m2"] is result.reasons["m3"] is Reason.SUMMARIZED


@pytest.mark.parametrize("summary", [0, 5, 23])
def test_without_room_for_a_summary_it_is_truncate_and_says_so(summary: int) -> None:
    blocks = talk(30)
    result = shifted(blocks, 300, summary, cut_step=0.25)
    assert result.kept == shift_context(blocks, counted, 300, 0.25).kept
    assert [code for code, _ in result.diagnostics] == ["no-summary"]
    assert list(result.truncated) == []


def test_of_text_without_full_stops_beginnings_are_told_whole_characters_of_it() -> None:
    family = "\U0001f469\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466\U0001f1f3\U0001f1f4"
    blocks = blocks_of(chat("sys", "photos of us " + f"{family} " * 200, "seen a " * 200, "and now?"))
    summary = summary_of(shifted(blocks, 100))
    assert summary is not None
    told = summary.content.splitlines()[1:]
    assert [line[:18] for line in told] == ["user: photos of us", "assistant: seen a "]
    assert all(line.endswith(" …") for line in told)
    assert set(told[0].removeprefix("user: photos of us ").removesuffix(" …").split()) == {family}


def test_texts_that_say_nothing_leave_without_a_summary() -> None:
    blocks = blocks_of(chat("sys", "!" * 9 + " ? " * 200, "", "and now?"))
    result = shifted(blocks, 100)
    assert summary_of(result) is None
    assert result.fits
    assert [code for code, _ in result.diagnostics] == ["no-summary"]


def test_a_summary_that_always_counts_too_much_is_given_up() -> None:
    def count(items: list[PromptBlock]) -> int:
        return 301 if any(block.id == SUMMARY_ID and "\n" in block.content for block in items) else counted(items)

    blocks = talk(30)
    result = Summarize().shift(blocks, count, 300, options=ShiftOptions(0.0, 60))
    assert result.kept == shift_context(blocks, counted, 300).kept


def test_protected_context_never_leaves_for_a_summary() -> None:
    tools = [CALL, result_of("r " * 40), {"role": "assistant", "content": "", "tool_calls": [{"id": "d"}]}]
    last = {"role": "tool", "tool_call_id": "d", "content": "r " * 40}
    blocks = blocks_of([*chat("s", "Old words are here. New words are there. " * 4, "Yes. No. " * 4, "go"), *tools, last])
    result = shifted(blocks, 140)
    assert [block.id for block in result.kept] == ["m0", SUMMARY_ID, "m3", "m4", "m5", "m6", "m7"]


def test_a_prompt_with_a_summary_gets_no_second_one() -> None:
    first = shifted(talk(30), 300)
    again = shifted(list(first.kept), 200)
    assert [block.id for block in again.kept].count(SUMMARY_ID) <= 1
    assert again.fits


def test_a_long_message_is_shortened_before_any_leaves() -> None:
    blocks = blocks_of(chat("s", "long words stand here " * 100, "Yes.", "go on"))
    result = shifted(blocks, 200)
    assert [block.id for block in result.kept] == ["m0", "m1", "m2", "m3"]
    assert result.excluded == []
    (edited,) = result.truncated
    assert edited is result.kept[1]
    assert counted([edited]) <= 50
    assert "tokens left out" in edited.content
    assert result.fits


def test_of_long_messages_the_oldest_is_shortened_first_and_no_more_than_needed() -> None:
    blocks = blocks_of(chat("s", "w " * 90, "w " * 90, "w " * 60, "w " * 60, "go on"))
    assert [block.id for block in shifted(blocks, 304).truncated] == ["m1"]


def test_a_message_that_was_shortened_and_leaves_is_given_back_as_it_was() -> None:
    blocks = blocks_of(chat("s", *["Long words stand here today. " * 40] * 8, "go on"))
    result = shifted(blocks, 200)
    assert any(block in result.excluded for block in blocks[1:5])
    assert all(any(block is one for one in blocks) for block in result.excluded)


@pytest.mark.parametrize(
    "message", [{"meta": {"pinned": True}}, {"role": "system"}, {"content": [{"type": "text", "text": "w " * 500}]}]
)
def test_protected_messages_and_parts_are_never_shortened(message: dict[str, Any]) -> None:
    blocks = blocks_of([{"role": "user", "content": "w " * 500} | message, *chat("s", "go")])
    assert all(any(block is one for one in blocks) for block in shifted(blocks, 200).kept if block.id != SUMMARY_ID)


def test_results_of_the_newest_tool_group_are_shortened_once_nothing_else_can_go() -> None:
    older = [{**CALL, "tool_calls": [{"id": "b"}]}, {"role": "tool", "tool_call_id": "b", "content": "w " * 500}]
    blocks = blocks_of([*chat("s", "Old. Words.", "Yes.", "go on"), *older, CALL, result_of("begin " + "w " * 500 + "end")])
    result = shifted(blocks, 150)
    assert [block.id for block in result.kept] == ["m0", "m3", "m6", "m7"]
    assert result.fits
    assert result.prompt_tokens == counted(list(result.kept)) <= 150
    assert [block.id for block in result.truncated] == ["m7"]
    assert result.kept[-1].content.startswith("begin ")
    assert result.kept[-1].content.endswith(" end")


@pytest.mark.parametrize(
    "result", [result_of("w " * 500, meta={"pinned": True}), result_of([{"type": "text", "text": "w"}] * 500)]
)
def test_a_pinned_result_and_one_of_parts_are_never_shortened(result: dict[str, Any]) -> None:
    blocks = blocks_of([{"role": "user", "content": "w " * 100}, CALL, result])
    found = shifted(blocks, 60)
    assert found.kept == blocks
    assert not found.fits


def test_a_result_that_cannot_be_made_to_fit_stays_as_it_was() -> None:
    blocks = blocks_of([*chat("s " * 100, "go"), CALL, result_of("w " * 500)])
    found = shifted(blocks, 60)
    assert found.kept == blocks
    assert not found.fits
    assert list(found.truncated) == []


def test_the_start_of_a_growing_chat_stays_for_many_turns() -> None:
    blocks = known(talk(80))
    starts = []
    for turns in range(40, 60):
        chat_so_far = [*blocks[: 1 + 2 * turns], blocks[-1]]
        result = Summarize().shift(chat_so_far, count_known, 400, options=ShiftOptions(0.25, 60))
        assert summary_of(result) is not None
        starts.append(result.kept[1].id)
    assert len(set(starts)) <= 7


def known(blocks: list[PromptBlock]) -> list[PromptBlock]:
    return [replace(block, tokens=2 + len(block.content.split())) for block in blocks]


def count_known(items: list[PromptBlock]) -> int:
    return 3 + sum(2 + len(block.content.split()) if block.tokens is None else block.tokens for block in items)


def test_with_blocks_that_were_counted_all_fits_too() -> None:
    blocks = known(talk(30))
    result = Summarize().shift(blocks, count_known, 300, options=ShiftOptions(0.0, 60))
    assert summary_of(result) is not None
    assert result.prompt_tokens == count_known(list(result.kept)) <= 300


def test_the_splitter_is_whatever_it_is_given() -> None:
    asked: list[str] = []

    def split(text: str) -> list[str]:
        asked.append(text)
        return text.split(". ")

    result = Summarize(split).shift(talk(30), counted, 300, options=ShiftOptions(0.0, 60))
    assert summary_of(result) is not None
    assert set(asked) == {block.content for block in result.excluded}


_sentence = st.integers(0, 40).map(lambda i: f"Fact {i} is {i * 37}.")
_told = st.lists(_sentence, max_size=8).map(" ".join)
_talks = st.tuples(conversations, st.lists(st.tuples(st.sampled_from(["user", "assistant", "tool"]), _told), max_size=12)).map(
    lambda parts: [*({"role": role, "content": text} for role, text in parts[1]), *parts[0]]
)


@settings(max_examples=150, deadline=None)
@given(_talks, st.integers(-5, 250), st.integers(0, 60), st.sampled_from([0.0, 0.125]))
def test_the_promises_hold(messages: list[dict[str, Any]], budget: int, most: int, cut_step: float) -> None:
    blocks = blocks_of(messages)
    result = shifted(blocks, budget, most, cut_step)
    summary = summary_of(result)
    kept = [block for block in result.kept if block is not summary]
    assert result.fits or not shift_context(blocks, counted, budget, cut_step).fits
    assert result.prompt_tokens == counted(list(result.kept))
    assert result.fits == (result.prompt_tokens <= budget)
    assert sorted([int(block.id[1:]) for block in (*kept, *result.excluded)]) == list(range(len(blocks)))
    assert kept == sorted(kept, key=lambda block: int(block.id[1:]))
    plan = protection(blocks)
    stay = {block.id for block in kept}
    for group, protected in zip(plan.groups, plan.protected, strict=True):
        members = [blocks[i] for i in group.indexes]
        assert len({block.id in stay for block in members}) == 1
        if protected and group not in plan.last_resort():
            assert all(block.id in stay for block in members)
    originals = {block.id: block for block in blocks}
    assert all(len(block.content) <= len(originals[block.id].content) for block in result.truncated)
    if summary is not None:
        replaced = sum(counted([block]) for block in result.excluded)
        assert counted([summary]) <= min(most + 3, replaced)
        if plan.turn_start < len(blocks):
            assert list(result.kept).index(summary) == sum(int(block.id[1:]) < plan.turn_start for block in kept)
    assert result == shifted(blocks, budget, most, cut_step)


def test_ten_thousand_messages_take_linear_time_and_tiny_budgets_none() -> None:
    blocks = talk(5000)
    for budget in (-1, 0, 1, 20, 4000):
        start = time.perf_counter()
        result = shifted(blocks, budget, summary=400)
        assert time.perf_counter() - start < 10
        assert result.fits == (budget == 20 or budget == 4000)
