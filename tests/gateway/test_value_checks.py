"""What a value may be beyond its type."""

from __future__ import annotations

from typing import Any

import pytest

from gateway import value_checks
from gateway.toml_tree import checks_of


def complaint(kind: Any, value: Any) -> str | None:
    return next(filter(None, (check(value) for check in checks_of(kind))), None)


@pytest.mark.parametrize(
    ("kind", "good", "bad"),
    [
        ("Text", ["a", "日本 語", "x" * 5000], ["", "a\nb", "\x00", "\x7f", "\udc80"]),
        ("Name", ["gpt-4o", "org/model:7b", "x" * 256], ["", "x" * 257, "a\tb"]),
        ("Label", ["openai", "p-101-a.b_c"], ["", "-a", "a b", "a/b", "x" * 129]),
        ("Port", [0, 65535], [-1, 65536]),
        ("Count", [0], [-1]),
        ("Positive", [1], [0]),
        ("Share", [0.0, 1.0], [-0.1, 1.1]),
        ("Seconds", [0.001], [0.0, -1.0]),
        ("Origin", ["*", "null", "https://a.example", "app://obsidian.md"], ["", "a.example", "https://a/b"]),
        ("EntryPoint", ["pkg.mod:register", "m:f"], ["pkg.mod", "pkg..mod:f", "pkg.mod:", "1a:f", "a b:f"]),
        ("HeaderName", ["X-Session-Id"], ["", "a b", "a:", "ä"]),
        ("HeaderValue", ["", "Bearer x"], ["a\n", "a\rb", "ä"]),
        ("Sha256", ["0aF9" * 16], ["", "0" * 63, "g" * 64]),
        (
            "WebAddress",
            ["http://127.0.0.1:9/v1", "https://u:p@h/v1?key=x", "http://[::1]:8000"],
            ["", "h/v1", "ftp://h", "http://", "http://h:99999", "http://h:0", "http://[::1", "http://h/#f", "http://h /"],
        ),
        ("StoreAddress", ["sqlite:///var/a b.db", "postgresql://u@h/db", "memory:"], ["", "var/a.db", "sqlite:", "memory:x"]),
    ],
)
def test_a_kind_takes_the_good_and_refuses_the_bad(kind: str, good: list[Any], bad: list[Any]) -> None:
    checked = getattr(value_checks, kind)
    assert [value for value in good if complaint(checked, value)] == []
    assert [value for value in bad if not complaint(checked, value)] == []


def test_a_complaint_repeats_the_number_and_never_a_text() -> None:
    assert complaint(value_checks.Port, 70000) == "must be between 0 and 65535, not 70000"
    assert "hush" not in (complaint(value_checks.WebAddress, "hush") or "hush")
