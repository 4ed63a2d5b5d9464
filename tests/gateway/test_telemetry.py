"""What moves which number, and that names and labels keep to the rules."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from fractions import Fraction

import pytest

from gateway.learned import Learned, Lesson
from gateway.telemetry import MOST_CHARACTERS, MOST_LESSONS, Counter, Gauge, Histogram, Telemetry

LABELS = {"model", "provider", "strategy", "outcome", "code", "reason", "route", "result", "version"}


@dataclass
class Block:
    """A block that was left out."""

    reason: str
    tokens: int


@dataclass
class Prompt:
    """A prompt that was fitted."""

    provider: str = "up"
    configured: str = "m"
    strategy: str = "truncate"
    prompt_tokens: int = 80
    prompt_tokens_before: int = 80
    excluded: list[Block] = field(default_factory=list)
    truncated: list[object] = field(default_factory=list)


def lesson(model: str, limit: int | None, sixteenths: int = 16, account: str = "a") -> Lesson:
    return Lesson("up", model, account, Learned(limit, sixteenths), 0.0)


def test_names_follow_the_conventions() -> None:
    metrics = Telemetry().all()
    names = [metric.name for metric in metrics]
    assert len(set(names)) == len(names)
    for metric in metrics:
        assert re.fullmatch(r"sluicegate_[a-z][a-z_]*[a-z]", metric.name)
        assert metric.name.endswith("_total") == (type(metric) is Counter), metric.name
        assert metric.text.endswith(".")
        assert set(metric.labels) <= LABELS, metric.name


def test_a_value_on_a_bound_lies_up_to_it_and_one_beyond_all_is_not_lost() -> None:
    histogram = Histogram("h", "x", "l", bounds=(1, 2))
    for value in (0.5, 1, 1.5, 2, 2.5):
        histogram.observe(value, "a")
    assert histogram.counts == {("a",): [2, 2, 1]}
    assert histogram.sums == {("a",): 7.5}


def test_bounds_rise() -> None:
    for metric in Telemetry().all():
        if isinstance(metric, Histogram):
            assert list(metric.bounds) == sorted(set(metric.bounds)), metric.name


def test_a_count_that_is_exact_lies_apart_from_one_that_is_a_little_off() -> None:
    telemetry = Telemetry()
    for ours in (9985, 10_000, 10_005):
        telemetry.generated(Prompt(prompt_tokens=ours), "", b'{"prompt_tokens": 10000}')
    (counts,) = telemetry.count_error.counts.values()
    assert sorted(counts)[-3:] == [1, 1, 1]


def test_a_number_without_labels_is_there_from_the_start() -> None:
    assert Gauge("g", "x").values == {(): 0}
    assert Counter("c", "x", "l").values == {}


@pytest.mark.parametrize(
    ("code", "outcome"),
    [("", "completed"), ("CLIENT_CANCELLED", "cancelled"), ("PROVIDER_TIMEOUT", "failed"), ("TOKEN_BUDGET_EXCEEDED", "failed")],
)
def test_the_outcome_follows_from_the_code(code: str, outcome: str) -> None:
    telemetry = Telemetry()
    telemetry.ended("/v1/models", code, 0.2)
    telemetry.generated(Prompt(), code, None)
    assert telemetry.requests.values == {("/v1/models", outcome, code): 1}
    assert telemetry.generations.values == {("up", "m", "truncate", outcome, code): 1}
    assert telemetry.request_duration.sums == {("/v1/models",): 0.2}
    assert telemetry.budget_exceeded.values == ({("m",): 1} if code == "TOKEN_BUDGET_EXCEEDED" else {})


def test_what_is_left_out_is_counted_by_its_reason() -> None:
    telemetry = Telemetry()
    left = [Block("context-shift", 30), Block("context-shift", 12), Block("manual", 5)]
    telemetry.fitted(Prompt(prompt_tokens_before=127, excluded=left, truncated=[1, 2]), 0.003)
    assert telemetry.excluded_blocks.values == {("context-shift",): 2, ("manual",): 1}
    assert telemetry.excluded_tokens.values == {("context-shift",): 42, ("manual",): 5}
    assert telemetry.truncated_blocks.values == {(): 2}
    assert telemetry.shift_duration.sums == {("truncate",): 0.003}
    assert telemetry.prompt_tokens.sums == {("m",): 80}


def test_a_block_that_never_had_a_place_is_counted_although_no_token_left() -> None:
    telemetry = Telemetry()
    telemetry.fitted(Prompt(excluded=[Block("not-activated", 9)]), 0.003)
    assert telemetry.excluded_blocks.values == {("not-activated",): 1}
    assert telemetry.truncated_blocks.values == {(): 0}


def test_the_first_chunk_is_timed_by_provider_and_model() -> None:
    telemetry = Telemetry()
    telemetry.first_chunk(Prompt(), 0.4)
    assert telemetry.time_to_first_chunk.sums == {("up", "m"): 0.4}


@pytest.mark.parametrize(
    "usage", [None, b"", b"null", b"{}", b'{"prompt_tokens": 0}', b'{"prompt_tokens": null}', b'{"prompt_tokens": "9"}', b"{"]
)
def test_an_answer_without_a_usable_number_says_nothing_of_our_count(usage: bytes | None) -> None:
    telemetry = Telemetry()
    telemetry.generated(Prompt(), "", usage)
    assert telemetry.count_error.counts == {}


def test_our_count_is_divided_by_theirs() -> None:
    telemetry = Telemetry()
    telemetry.generated(Prompt(prompt_tokens=90), "", b'{"prompt_tokens": 100, "total_tokens": 120, "other": {}}')
    assert telemetry.count_error.sums == {("m",): 0.9}


def test_overflows_are_told_apart_by_how_they_ended() -> None:
    telemetry = Telemetry()
    telemetry.overflowed(Prompt(), recovered=True)
    telemetry.overflowed(Prompt(), recovered=False)
    assert telemetry.overflows.values == {("up", "m", "recovered"): 1, ("up", "m", "failed"): 1}


def test_of_several_keys_for_one_model_the_sternest_lesson_is_shown() -> None:
    telemetry = Telemetry()
    telemetry.learned([lesson("x", 9000, 20), lesson("x", 8000, 18, "b"), lesson("x", None, 16, "c"), lesson("y", None, 17)])
    assert telemetry.learned_limit.values == {("up", "x"): 8000}
    assert telemetry.learned_factor.values == {("up", "x"): 1.25, ("up", "y"): float(Fraction(17, 16))}


def test_a_lesson_that_was_forgotten_is_no_longer_shown() -> None:
    telemetry = Telemetry()
    telemetry.learned([lesson("x", 9000)])
    telemetry.learned([])
    assert (telemetry.learned_limit.values, telemetry.learned_factor.values) == ({}, {})


def test_names_of_upstream_models_are_bounded_in_length_and_number() -> None:
    telemetry = Telemetry()
    telemetry.learned(lesson(f"{number}" + "x" * 1000, 9000) for number in range(MOST_LESSONS + 1))
    assert len(telemetry.learned_limit.values) == len(telemetry.learned_factor.values) == MOST_LESSONS
    assert {len(model) for _, model in telemetry.learned_limit.values} == {MOST_CHARACTERS}


def test_what_is_counted_elsewhere_is_brought_up_to_date_before_it_is_read() -> None:
    telemetry = Telemetry()
    assert telemetry.config_reloads.values == {("ok",): 0, ("failed",): 0}
    telemetry.before_reading = lambda: telemetry.configuration(reloads=3, failures=2, broken=True)
    assert telemetry.all()
    assert telemetry.config_reloads.values == {("ok",): 3, ("failed",): 2}
    assert telemetry.configuration_broken.values == {(): 1}


def test_the_version_is_told() -> None:
    assert Telemetry("1.2").build_info.values == {("1.2",): 1}
