"""What the environment says in a configuration: references inside its texts, and overrides of its keys.

Knows no key of the product. References are replaced once, after parsing, so that a value can't become syntax or a reference.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_origin

from gateway.toml_tree import Place, Problem, bare, inner, is_table, keys_of, kinds_of, nearest, noting, require_none, shown

PREFIX = "SLUICEGATE_"

_REFERENCE = re.compile(r"\$\{(?:file:(?P<file>[^}]+)|(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^}]*))?)?\}?")


@dataclass(frozen=True, slots=True)
class References:
    """Replaces `${NAME}`, `${NAME:-default}` and `${file:/path}`; a relative path starts at `base`."""

    environ: Mapping[str, str]
    base: Path

    def expand(self, value: Any, place: Place) -> Any:
        """The same tree with every text expanded. Raises ConfigError with every reference that leads nowhere."""
        if isinstance(value, str):
            return _REFERENCE.sub(lambda found: self._looked_up(found, place), value)
        if isinstance(value, dict):
            return dict(zip(value, self._each((item, place.at(name)) for name, item in value.items()), strict=True))
        if isinstance(value, list):
            return self._each((item, place.item(index)) for index, item in enumerate(value))
        return value

    def _each(self, entries: Iterable[tuple[Any, Place]]) -> list[Any]:
        problems: list[Problem] = []
        results = []
        for item, place in entries:
            with noting(problems):
                results.append(self.expand(item, place))
        require_none(problems)
        return results

    def _looked_up(self, found: re.Match[str], place: Place) -> str:
        file, name, default = found["file"], found["name"], found["default"]
        if not found[0].endswith("}") or not (file or name):
            raise place.error("holds ${ without a reference; allowed are ${NAME}, ${NAME:-default} and ${file:/path}")
        if file:
            return self._contents(file, place)
        value = self.environ.get(name)
        if default is not None:
            return value or default
        if value is None:
            raise place.error(f"the environment variable {name} is not set; set it, or write ${{{name}:-default}}")
        return value

    def _contents(self, file: str, place: Place) -> str:
        try:
            return (self.base / file).read_text(encoding="utf-8").rstrip("\r\n")
        except OSError as error:
            raise place.error(f"the file {shown(file)} can't be read: {error.strerror}") from error
        except ValueError as error:
            raise place.error(f"the file {shown(file)} is not UTF-8 text") from error


@dataclass(frozen=True, slots=True)
class Override:
    """One key that the environment sets: the variable, the key's path and the value as TOML would have given it."""

    variable: str
    path: tuple[str, ...]
    value: Any

    @property
    def key(self) -> str:
        """The dotted key."""
        place = Place("")
        for name in self.path:
            place = place.at(name)
        return place.key

    def applied(self, tree: dict[str, Any]) -> dict[str, Any]:
        """The tree with this key set; a tree that has no table in its way stays as it is."""
        return _with(tree, self.path, self.value)

    def renamed(self, problem: Problem) -> Problem:
        """A problem with this key, told as one with the variable."""
        if problem.key == self.key or problem.key.startswith((self.key + ".", self.key + "[")):
            return Problem("environment", self.variable, problem.what)
        return problem


def overrides_of(table: Any, tree: Mapping[str, Any], environ: Mapping[str, str]) -> list[Override]:
    """The overrides in the environment. Raises ConfigError for a name that is no key.

    Two underscores nest. A name without them is no override (Kubernetes adds such names for a service called sluicegate),
    unless it would be a key with one more underscore.
    """
    problems: list[Problem] = []
    found: list[Override] = []
    for variable in sorted(environ):
        if not variable.upper().startswith(PREFIX):
            continue
        with noting(problems):
            names = variable[len(PREFIX) :].lower().split("__")
            if len(names) > 1:
                found.append(_override(table, tree, variable, names, environ[variable]))
            else:
                _require_no_near_miss(table, variable, environ[variable])
    require_none(problems)
    return found


def _override(table: Any, tree: Mapping[str, Any], variable: str, names: list[str], text: str) -> Override:
    kind: Any = table
    path: list[str] = []
    at: object = tree
    for name in names:
        spelled = _spelled(name, at)
        kind = _kind_below(kind, spelled, variable)
        path.append(spelled)
        at = at.get(spelled) if isinstance(at, Mapping) else None
    if is_table(bare(kind)) or is_table(bare(inner(kind))):
        raise Place("environment", variable).error("names a table; an override sets one key, tables stand in the file")
    return Override(variable, tuple(path), _parsed(kind, text))


def _spelled(name: str, at: object) -> str:
    known = at if isinstance(at, Mapping) else {}
    return next((key for key in known if key.lower().replace("-", "_") == name), name)


def _kind_below(kind: Any, name: str, variable: str) -> Any:
    kind = bare(kind)
    if get_origin(kind) is Mapping:
        return inner(kind)
    known = kinds_of(kind) if is_table(kind) else {}
    if name in known:
        return known[name]
    hint = f"; the nearest known one is {nearest(name, known).upper()}" if known else ""
    raise Place("environment", variable).error(f"unknown key {shown(name.upper())}{hint}")


def _require_no_near_miss(table: Any, variable: str, value: str) -> None:
    asked = variable[len(PREFIX) :].lower()
    meant = next((key for key in keys_of(table) if key.replace(".", "_") == asked), None)
    if meant and not value.startswith(("tcp://", "udp://", "sctp://")):
        right = PREFIX + meant.upper().replace(".", "__")
        raise Place("environment", variable).error(f"two underscores nest: write {right}")


def _parsed(kind: Any, text: str) -> Any:
    """The text as a TOML value; one that can't be parsed stays text, and the reader complains."""
    kind = bare(kind)
    items = [item.strip() for item in text.split(",") if item.strip()]
    if get_origin(kind) is tuple:
        return [_parsed(inner(kind), item) for item in items]
    if get_origin(kind) is Mapping:
        pairs = (item.partition("=") for item in items)
        return {name.strip(): _parsed(inner(kind), value.strip()) for name, _, value in pairs}
    if kind is bool:
        return {"true": True, "1": True, "false": False, "0": False}.get(text.strip().lower(), text)
    return _number(kind, text) if kind in (int, float) else text


def _number(kind: Any, text: str) -> Any:
    try:
        return kind(text)
    except ValueError:
        return text


def _with(tree: dict[str, Any], path: tuple[str, ...], value: Any) -> dict[str, Any]:
    name, *rest = path
    if not rest:
        return {**tree, name: value}
    below = tree.get(name, {})
    return {**tree, name: _with(below, tuple(rest), value)} if isinstance(below, dict) else tree
