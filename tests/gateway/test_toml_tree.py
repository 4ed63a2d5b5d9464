"""Reading TOML into frozen classes: types, checks, and complaints that name their place."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import pytest

from gateway.secret import Secret, SecretUrl
from gateway.toml_tree import ConfigError, Place, keys_of, nearest, read_table, read_toml, shown
from gateway.value_checks import Label, Positive, Seconds, Share, Text


@dataclass(frozen=True, slots=True)
class Pipe:
    """A table inside a list and inside a table of equals."""

    width: Positive
    name: Text = "pipe"


@dataclass(frozen=True, slots=True)
class Sluice:
    """One key of every kind."""

    open: bool = False
    count: int = 1
    share: Share = 0.5
    wait_s: Seconds | None = None
    mode: Literal["up", "down"] = "up"
    key: Secret = Secret()  # noqa: RUF009 - a value of a frozen kind
    url: SecretUrl | None = None
    names: tuple[Text, ...] = ()
    pipe: Pipe = Pipe(1)
    pipes: tuple[Pipe, ...] = ()
    gates: Mapping[Label, Pipe] | None = None


def read(**tree: Any) -> Sluice:
    return read_table(Sluice, tree, Place("a.toml"))


def complaint(**tree: Any) -> str:
    with pytest.raises(ConfigError) as caught:
        read(**tree)
    return str(caught.value)


def test_an_empty_tree_gives_the_defaults() -> None:
    assert read() == Sluice()


def test_every_kind_of_value_is_read() -> None:
    sluice = read(
        open=True,
        count=3,
        share=1,
        wait_s=0.5,
        mode="down",
        key="k",
        url="http://a/b",
        names=["x", "y"],
        pipe={"width": 2},
        pipes=[{"width": 3, "name": "p"}],
        gates={"left": {"width": 4}},
    )
    assert (sluice.open, sluice.count, sluice.share, sluice.wait_s, sluice.mode) == (True, 3, 1.0, 0.5, "down")
    assert isinstance(sluice.share, float)
    assert (sluice.key.reveal(), sluice.names, sluice.pipe, sluice.pipes) == ("k", ("x", "y"), Pipe(2), (Pipe(3, "p"),))
    assert isinstance(sluice.url, SecretUrl)
    assert sluice.gates == {"left": Pipe(4)}


@pytest.mark.parametrize(
    ("tree", "line"),
    [
        ({"count": True}, "a.toml: count: must be a whole number, not true or false"),
        ({"count": 1.0}, "a.toml: count: must be a whole number, not a number"),
        ({"count": "1"}, "a.toml: count: must be a whole number, not text"),
        ({"open": 1}, "a.toml: open: must be true or false, not a whole number"),
        ({"share": True}, "a.toml: share: must be a number, not true or false"),
        ({"share": 1.5}, "a.toml: share: must be between 0 and 1, not 1.5"),
        ({"share": float("nan")}, "a.toml: share: must be a finite number"),
        ({"wait_s": float("inf")}, "a.toml: wait_s: must be a finite number"),
        ({"wait_s": 10**400}, "a.toml: wait_s: must be a finite number"),
        ({"wait_s": 0}, "a.toml: wait_s: must be more than 0, not 0.0"),
        ({"mode": "sideways"}, 'a.toml: mode: must be one of "up", "down"'),
        ({"mode": ["up"]}, 'a.toml: mode: must be one of "up", "down"'),
        ({"key": 5}, "a.toml: key: must be text, not a whole number"),
        ({"names": "x"}, "a.toml: names: must be a list, not text"),
        ({"names": ["x", 2]}, "a.toml: names[1]: must be text, not a whole number"),
        ({"names": ["a\nb"]}, "a.toml: names[0]: must be one line of text, not empty"),
        ({"pipe": 3}, "a.toml: pipe: must be a table, not a whole number"),
        ({"pipe": {}}, "a.toml: pipe.width: is missing"),
        ({"pipes": [{"width": 0}]}, "a.toml: pipes[0].width: must be 1 or more, not 0"),
        ({"gates": []}, "a.toml: gates: must be a table, not a list"),
        ({"gates": {"a b": {"width": 1}}}, "a.toml: gates.'a b': must be letters, digits, _, . and -, at most 128 of them"),
        ({"conut": 1}, 'a.toml: conut: unknown key; the nearest known one is "count"'),
        ({"xyz": 1}, "a.toml: xyz: unknown key; the nearest known one is "),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key(tree: dict[str, Any], line: str) -> None:
    assert complaint(**tree).startswith(line)


def test_a_date_is_not_text(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("key = 2026-01-01\n")
    assert "must be text, not a date or time" in complaint(**read_toml(tmp_path / "a.toml"))


def test_all_problems_of_a_tree_come_together() -> None:
    lines = complaint(count="x", share=7, pipes=[{"width": 0}, {"widht": 1}]).splitlines()
    assert [line.split(": ")[1] for line in lines] == ["count", "share", "pipes[0].width", "pipes[1].widht", "pipes[1].width"]


def test_an_error_holds_file_and_key_of_the_first_problem() -> None:
    with pytest.raises(ConfigError) as caught:
        read(count="x", share=7)
    assert (caught.value.file, caught.value.key, len(caught.value.problems)) == ("a.toml", "count", 2)


def test_a_text_is_never_repeated_in_a_complaint() -> None:
    assert "hush" not in complaint(count="hush", mode="hush", open="hush", names="hush")


def test_the_keys_of_a_class_are_listed_with_stars_for_names() -> None:
    keys = list(keys_of(Sluice))
    assert keys[:2] == ["open", "count"]
    assert keys[-6:] == ["pipe.width", "pipe.name", "pipes.*.width", "pipes.*.name", "gates.*.width", "gates.*.name"]


def test_names_from_outside_are_shown_short_and_without_control_characters() -> None:
    assert shown("a\x1b[31m\u202e\n") == "'a\\x1b[31m\\u202e\\n'"
    assert len(shown("x" * 10_000)) < 70
    assert Place("f").at("a.b\n").key == "'a.b\\n'"


def test_without_known_names_none_is_nearest() -> None:
    assert nearest("x", ()) == ""


def _file(tmp_path: Path, content: bytes) -> Path:
    file = tmp_path / "a.toml"
    file.write_bytes(content)
    return file


@pytest.mark.parametrize(
    ("content", "key", "what"),
    [
        (b"\xef\xbb\xbfa = 1\n", "line 1", "byte order mark"),
        (b"a = 1\nb = '\xff'\n", "line 2", "is not UTF-8"),
        (b"a = 1\nb = \n", "line 2", "is not TOML: Invalid value (column 5)"),
        (b"a = [", "last line", "is not TOML"),
        (b"a = 1\na = 2\n", "line 2", "is not TOML"),
        (b"a = " + b"[" * 100_000, "", "nested too deeply"),
        (b"a = " + b"9" * 10_000, "", "is not TOML"),
    ],
)
def test_a_file_that_is_not_toml_is_reported_with_its_line(tmp_path: Path, content: bytes, key: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        read_toml(_file(tmp_path, content))
    assert caught.value.key == key
    assert what in str(caught.value)
    assert caught.value.file.endswith("a.toml")


def test_a_file_that_cannot_be_read_is_reported(tmp_path: Path) -> None:
    os.symlink(tmp_path / "nowhere", tmp_path / "a.toml")
    with pytest.raises(ConfigError, match=r"a\.toml: can't be read: No such file"):
        read_toml(tmp_path / "a.toml")
