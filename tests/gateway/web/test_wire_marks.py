"""Marks are read where they stand, in both spellings, and a wrong type is told by its path."""

from __future__ import annotations

from typing import Any

import pytest

from gateway.chat import NO_MARKS, Marks
from gateway.errors import InvalidRequest
from gateway.shifting import BlockKind
from gateway.web.wire_marks import flag_value, marks_of, message_marks, object_value, pick, text_value, unknown_meta_keys

WHOLE = Marks(True, False, True, BlockKind.LOREBOOK, 0.5, "e", "l")


@pytest.mark.parametrize(
    "meta",
    [
        {"manualExcluded": False, "entryId": "e"},
        {"manual_excluded": False, "entry_id": "e"},
        {"manualExcluded": None, "manual_excluded": False, "entryId": None, "entry_id": "e"},
        {"manualExcluded": False, "manual_excluded": True, "entryId": "e", "entry_id": "x"},
    ],
)
def test_marks_are_read_in_both_spellings_camel_case_first(meta: dict[str, Any]) -> None:
    more = {"pinned": True, "required": True, "kind": "lorebook", "relevance": 0.5, "label": "l"}
    assert marks_of({**meta, **more}, "meta") == WHOLE


def test_null_counts_as_absent_everywhere() -> None:
    names = ("pinned", "manualExcluded", "required", "kind", "relevance", "entryId", "label")
    assert marks_of(dict.fromkeys(names), "meta") == NO_MARKS
    nothing = {"meta": None, "pinned": None, "manualExcluded": None, "content": [{"meta": None, "pinned": None}]}
    assert message_marks(nothing, "messages[0]") == NO_MARKS


@pytest.mark.parametrize("kind", list(BlockKind))
def test_every_kind_is_known(kind: BlockKind) -> None:
    assert marks_of({"kind": kind.value}, "meta").kind is kind


@pytest.mark.parametrize(
    ("given", "read"),
    [(0, 0.0), (1, 1.0), (0.25, 0.25), (-1, 0.0), (1.5, 1.0), (float("inf"), 1.0), (10**400, 1.0), (-(10**400), 0.0)],
    ids=lambda value: repr(value)[:12],
)
def test_relevance_is_clamped(given: float, read: float) -> None:
    assert marks_of({"relevance": given}, "meta").relevance == read


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"meta": []}, "messages[3].meta"),
        ({"meta": "x"}, "messages[3].meta"),
        ({"meta": {"pinned": "true"}}, "messages[3].meta.pinned"),
        ({"meta": {"pinned": 1}}, "messages[3].meta.pinned"),
        ({"meta": {"manualExcluded": 0}}, "messages[3].meta.manualExcluded"),
        ({"meta": {"manual_excluded": 0}}, "messages[3].meta.manualExcluded"),
        ({"meta": {"required": "yes"}}, "messages[3].meta.required"),
        ({"meta": {"kind": 5}}, "messages[3].meta.kind"),
        ({"meta": {"kind": "nonsense"}}, "messages[3].meta.kind"),
        ({"meta": {"kind": ""}}, "messages[3].meta.kind"),
        ({"meta": {"relevance": "0.5"}}, "messages[3].meta.relevance"),
        ({"meta": {"relevance": True}}, "messages[3].meta.relevance"),
        ({"meta": {"relevance": []}}, "messages[3].meta.relevance"),
        ({"meta": {"entryId": 5}}, "messages[3].meta.entryId"),
        ({"meta": {"label": 5}}, "messages[3].meta.label"),
        ({"pinned": "x"}, "messages[3].pinned"),
        ({"manualExcluded": {}}, "messages[3].manualExcluded"),
        ({"content": [{}, {"pinned": 1}]}, "messages[3].content[1].pinned"),
        ({"content": [{"manual_excluded": 1}]}, "messages[3].content[0].manualExcluded"),
        ({"content": [{"meta": {"relevance": "x"}}]}, "messages[3].content[0].meta.relevance"),
        ({"content": [{"meta": 1}]}, "messages[3].content[0].meta"),
    ],
)
def test_a_value_of_another_type_is_told_by_its_path(message: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        message_marks(message, "messages[3]")
    assert caught.value.param == param
    assert caught.value.message.startswith(param)


def test_meta_wins_over_the_message_and_the_message_over_its_parts() -> None:
    parts = [
        {"pinned": True, "manualExcluded": True, "meta": {"pinned": False, "label": "part"}},
        "text",
        {"meta": {"label": "x"}},
    ]
    message = {"meta": {"pinned": True}, "pinned": False, "manualExcluded": False, "content": parts}
    assert message_marks(message, "m") == Marks(pinned=True, manual_excluded=False, label="part")
    assert message_marks({"content": parts}, "m") == Marks(pinned=False, manual_excluded=True, label="part")


def test_content_that_is_no_list_has_no_parts() -> None:
    assert message_marks({"content": "pinned"}, "m") == NO_MARKS


def test_unknown_keys_of_meta_are_found() -> None:
    assert unknown_meta_keys({"meta": {"zeta": 1, "pinned": True, "alpha": 2, "entry_id": "e", "id": "i"}}) == ("alpha", "zeta")
    assert unknown_meta_keys({"meta": "x"}) == unknown_meta_keys({}) == ()


def test_values_are_read_by_type() -> None:
    assert (text_value("a", "p"), text_value(None, "p"), flag_value(False, "p"), flag_value(None, "p")) == (
        "a",
        None,
        False,
        None,
    )
    assert (object_value(None, "p"), object_value({"a": 1}, "p")) == ({}, {"a": 1})
    assert (pick({"aB": 1, "a_b": 2}, "aB", "a_b"), pick({"a_b": 2}, "aB", "a_b"), pick({}, "aB", "a_b")) == (1, 2, None)
    assert pick({"aB": False, "a_b": True}, "aB", "a_b") is False
