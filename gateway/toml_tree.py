"""From TOML to frozen dataclasses: the classes say which keys exist, of what type and within which bounds.

Knows no key of the product. Every problem names its file and its dotted key; all problems of a tree are reported together.
A text is never repeated in a complaint, because it may be a secret.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin, get_type_hints

from gateway.secret import Secret, SecretUrl

T = TypeVar("T")

NOT_A_KEY: Mapping[str, bool] = MappingProxyType({"key": False})
"""Metadata of a dataclass field that no file can set."""

_WORDS = {bool: "true or false", int: "a whole number", float: "a number", str: "text", list: "a list", dict: "a table"}
_BOM = b"\xef\xbb\xbf"


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong: where, and what would be right."""

    file: str
    key: str
    what: str

    def __str__(self) -> str:
        return ": ".join(part for part in (self.file, self.key, self.what) if part)


class ConfigError(Exception):
    """The configuration is wrong. One line for each problem; `file` and `key` are those of the first."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))

    @property
    def file(self) -> str:
        """The file of the first problem."""
        return self.problems[0].file

    @property
    def key(self) -> str:
        """The dotted key of the first problem."""
        return self.problems[0].key


@dataclass(frozen=True, slots=True)
class Place:
    """Where a value stands: file and dotted key."""

    file: str
    key: str = ""

    def at(self, name: str) -> Place:
        """The key `name` of the table here."""
        bare = name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else shown(name)
        return Place(self.file, f"{self.key}.{bare}" if self.key else bare)

    def item(self, index: int) -> Place:
        """One item of the list here."""
        return Place(self.file, f"{self.key}[{index}]")

    def problem(self, what: str) -> Problem:
        """A problem with what stands here."""
        return Problem(self.file, self.key, what)

    def error(self, what: str) -> ConfigError:
        """The same, ready to be raised."""
        return ConfigError([self.problem(what)])


@contextmanager
def noting(problems: list[Problem]) -> Iterator[None]:
    """Collects the problems of a ConfigError instead of ending at the first."""
    try:
        yield
    except ConfigError as error:
        problems.extend(error.problems)


def require_none(problems: list[Problem]) -> None:
    """Raises what has been collected, if anything."""
    if problems:
        raise ConfigError(problems)


def shown(text: str) -> str:
    """A name from outside, short and without control characters."""
    return repr(text if len(text) <= 64 else text[:64] + "…")


def nearest(name: str, known: Collection[str]) -> str:
    """Of the known names the one most like this one; empty when none is known."""
    return next(iter(difflib.get_close_matches(name, known, 1, 0.0)), "")


def one_of(names: Iterable[str]) -> str:
    """Names as a complaint lists them."""
    return ", ".join(f'"{name}"' for name in names) or "none"


def read_toml(file: Path) -> dict[str, Any]:
    """The tree of a TOML file. Raises ConfigError with the line of what can't be read."""
    place = Place(file.as_posix())
    try:
        raw = file.read_bytes()
    except OSError as error:
        raise place.error(f"can't be read: {error.strerror}") from error
    if raw.startswith(_BOM):
        raise Place(place.file, "line 1").error("starts with a byte order mark; save the file as UTF-8 without it")
    try:
        return tomllib.loads(raw.decode("utf-8"))
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise Place(place.file, f"line {line}").error("is not UTF-8") from error
    except RecursionError as error:
        raise place.error("is nested too deeply") from error
    except ValueError as error:
        raise _syntax_error(place, str(error)) from error


def _syntax_error(place: Place, message: str) -> ConfigError:
    found = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|(end of document))\)", message, re.DOTALL)
    if found is None:
        return place.error(f"is not TOML: {message}")
    what, line, column, end = found.groups()
    if end:
        return Place(place.file, "last line").error(f"is not TOML: {what}")
    return Place(place.file, f"line {line}").error(f"is not TOML: {what} (column {column})")


def kinds_of(table: Any) -> Mapping[str, Any]:
    """The keys of a table with their types, in order."""
    return _kinds(table)


@cache
def _kinds(table: Any) -> Mapping[str, Any]:
    hints = get_type_hints(table, include_extras=True)
    return {field.name: hints[field.name] for field in fields(table) if field.metadata.get("key", True)}


@cache
def bare(kind: Any) -> Any:
    """A type without its checks and without None."""
    if get_origin(kind) is Annotated:
        return bare(get_args(kind)[0])
    if get_origin(kind) in (Union, UnionType):
        return bare(next(part for part in get_args(kind) if part is not type(None)))
    return kind


@cache
def checks_of(kind: Any) -> tuple[Any, ...]:
    """The checks that a type carries, inside an optional one too."""
    if get_origin(kind) is Annotated:
        return (*checks_of(get_args(kind)[0]), *get_args(kind)[1:])
    if get_origin(kind) in (Union, UnionType):
        return tuple(check for part in get_args(kind) for check in checks_of(part))
    return ()


def is_table(kind: Any) -> bool:
    """Whether the type is a table of its own."""
    return isinstance(kind, type) and is_dataclass(kind)


def inner(kind: Any) -> Any:
    """What a list or a table of equals holds; None for anything else."""
    kind = bare(kind)
    if get_origin(kind) is tuple:
        return get_args(kind)[0]
    return get_args(kind)[1] if get_origin(kind) is Mapping else None


def keys_of(table: Any, prefix: str = "") -> Iterator[str]:
    """Every dotted key a table can hold; `*` stands for a name or a list item."""
    for name, kind in kinds_of(table).items():
        key, inside = prefix + name, bare(inner(kind))
        if is_table(bare(kind)):
            yield from keys_of(bare(kind), key + ".")
        elif is_table(inside):
            yield from keys_of(bare(inside), key + ".*.")
        else:
            yield key


def read_table(table: type[T], tree: object, place: Place) -> T:
    """The tree as a value of this class. Raises ConfigError with everything that is wrong in it."""
    if not isinstance(tree, dict):
        raise place.error(f"must be a table, not {_word(tree)}")
    kinds = kinds_of(table)
    problems: list[Problem] = []
    values: dict[str, Any] = {}
    for name, value in tree.items():
        with noting(problems):
            if name not in kinds:
                raise place.at(name).error(f'unknown key; the nearest known one is "{nearest(name, kinds)}"')
            values[name] = read_value(kinds[name], value, place.at(name))
    problems += [place.at(name).problem("is missing") for name in _required(table) if name not in tree]
    require_none(problems)
    return table(**values)


def _required(table: Any) -> list[str]:
    return [field.name for field in fields(table) if field.default is MISSING and field.default_factory is MISSING]


def read_value(kind: Any, value: object, place: Place) -> Any:
    """One value as its type wants it. Raises ConfigError."""
    plain = bare(kind)
    result = _converted(plain, value, place)
    for check in checks_of(kind):
        complaint = check(result)
        if complaint:
            raise place.error(complaint)
    return plain(result) if plain in (Secret, SecretUrl) else result


def _converted(kind: Any, value: object, place: Place) -> Any:
    if is_table(kind):
        return read_table(kind, value, place)
    match get_origin(kind):
        case None:
            return _plain(kind, value, place)
        case origin if origin is tuple:
            return _list(kind, value, place)
        case origin if origin is Mapping:
            return _named(kind, value, place)
    return _choice(kind, value, place)


def _plain(kind: Any, value: object, place: Place) -> Any:
    wanted = str if kind in (Secret, SecretUrl) else kind
    if wanted is float and type(value) is int:
        value = float(value) if abs(value) < 2**63 else math.inf
    if type(value) is not wanted:
        raise place.error(f"must be {_WORDS[wanted]}, not {_word(value)}")
    if isinstance(value, float) and not math.isfinite(value):
        raise place.error("must be a finite number")
    return value


def _choice(kind: Any, value: object, place: Place) -> Any:
    allowed = get_args(kind)
    if value not in allowed:
        raise place.error(f"must be one of {one_of(allowed)}")
    return value


def _list(kind: Any, value: object, place: Place) -> tuple[Any, ...]:
    if not isinstance(value, list):
        raise place.error(f"must be a list, not {_word(value)}")
    problems: list[Problem] = []
    items = []
    for index, item in enumerate(value):
        with noting(problems):
            items.append(read_value(inner(kind), item, place.item(index)))
    require_none(problems)
    return tuple(items)


def _named(kind: Any, value: object, place: Place) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise place.error(f"must be a table, not {_word(value)}")
    key_kind, value_kind = get_args(kind)
    problems: list[Problem] = []
    items = {}
    for name, item in value.items():
        with noting(problems):
            read_value(key_kind, name, place.at(name))
            items[name] = read_value(value_kind, item, place.at(name))
    require_none(problems)
    return MappingProxyType(items)


def _word(value: object) -> str:
    return _WORDS.get(type(value), "a date or time")
