"""The memory of recent things forgets by bytes, oldest first, and keeps what is asked for."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.recent import Recent


def test_what_was_put_is_found() -> None:
    recent: Recent[str, int] = Recent(100)
    recent.put("a", 1, 10)
    assert recent.get("a") == 1
    assert recent.get("b") is None


def test_putting_again_replaces() -> None:
    recent: Recent[str, int] = Recent(100)
    recent.put("a", 1, 10)
    recent.put("a", 2, 10)
    assert recent.get("a") == 2


def test_what_is_heavier_than_half_of_the_memory_is_not_kept() -> None:
    recent: Recent[str, int] = Recent(100)
    recent.put("small", 1, 10)
    recent.put("large", 2, 51)
    assert recent.get("large") is None
    assert recent.get("small") == 1


def test_what_has_not_been_asked_for_lately_goes_first() -> None:
    recent: Recent[str, int] = Recent(100)
    recent.put("kept", 1, 20)
    recent.put("lost", 2, 20)
    recent.put("c", 3, 20)  # the young half is full: it becomes the old one
    assert recent.get("kept") == 1  # and is young again
    recent.put("d", 4, 20)
    assert recent.get("kept") == 1
    assert recent.get("lost") is None


def test_a_memory_of_nothing_still_answers() -> None:
    recent: Recent[str, int] = Recent(0)
    recent.put("a", 1, 2)
    assert recent.get("a") is None


@settings(deadline=None, max_examples=200)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 60), st.booleans()), max_size=60))
def test_it_never_holds_more_than_its_bytes_and_never_lies(steps: list[tuple[int, int, bool]]) -> None:
    recent: Recent[int, tuple[int, int]] = Recent(100)
    last: dict[int, tuple[int, int]] = {}
    for number, (key, weight, put) in enumerate(steps):
        if put and weight <= 50:
            recent.put(key, (number, weight), weight)
            last[key] = (number, weight)
        found = recent.get(key)
        assert found is None or found == last[key]
    held = [recent.get(key) for key in range(10)]
    assert sum(weight for entry in held if entry for _, weight in [entry]) <= 100
