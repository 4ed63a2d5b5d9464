"""The house stays small: sizes, names, families, mirrored tests, and broad excepts only at the borders, each with its reason."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house import tree

FILE_LINES = 400
FUNCTION_LINES = 40
README_LINES = 150
BANNED_NAMES = {"utils", "helpers", "common", "misc", "manager", "handlers", "types", "constants"}
UNFINISHED = re.compile("|".join(rf"\b{start}{end}\b" for start, end in (("TO", "DO"), ("FIX", "ME"), ("XX", "X"))))
FAMILIES = [
    "gateway/shifting/strategies",
    "gateway/stages",
    "gateway/providers",
    "gateway/stores",
    "gateway/relevance",
    "tokenizer_profiles",
]
BROAD = {"Exception", "BaseException"}
BROAD_EXCEPTS = {  # where everything may be caught, and why
    "gateway/generation.py": "a defect must leave neither an open audit nor a stream without an end",
    "gateway/recorder.py": "every way out of a generation finishes its audit, whatever was raised",
    "gateway/stores/sqlite.py": "the writer thread must outlive any job, or every later call would wait for ever",
    "tokenizer_profiles/remote_base.py": "asking the server is the caller's code: whatever it raises, nothing was answered",
    "tokenizer_profiles/chat_template.py": "a template is foreign code: whatever it raises, it has not rendered the chat",
    "tokenizer_profiles/huggingface.py": "tokenizers raises nothing more precise when it does not understand a file",
    "gateway/plugins/threads.py": "foreign code: whatever it raises, SystemExit too, the request goes on without it",
    "gateway/providers/litellm_errors.py": "the library is foreign code: whatever it raises is told as one of our errors",
    "gateway/stores/postgresql_link.py": "a driver may raise anything, and who writes must outlive it",
    "gateway/web/guards.py": "the outermost border: a defect is told without its details",
}
MIRRORED = ["gateway", "tokenizer_profiles"]


def functions(path: Path) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    """Every function of a file."""
    for node in ast.walk(tree.tree_of(path)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def names_in(node: ast.expr | None) -> set[str]:
    """The plain names of an except clause or an argument list."""
    return set() if node is None else {part.id for part in ast.walk(node) if isinstance(part, ast.Name)}


def catches_everything(node: ast.AST) -> bool:
    """Whether it is a bare or broad except that doesn't raise again, or suppresses as much."""
    if isinstance(node, ast.ExceptHandler):
        broad = node.type is None or bool(names_in(node.type) & BROAD)
        return broad and not (isinstance(node.body[-1], ast.Raise) and node.body[-1].exc is None)
    if isinstance(node, ast.Call) and "suppress" in ast.unparse(node.func):
        return any(names_in(argument) & BROAD for argument in node.args)
    return False


def has_its_source(test: Path) -> bool:
    """Whether `test_NAME.py` or `test_NAME_aspect.py` stands where NAME.py stands."""
    folder = tree.ROOT / test.relative_to(tree.ROOT / "tests").parent
    name = test.stem.removeprefix("test_")
    return any(f"{name}_".startswith(f"{source.stem.strip('_')}_") for source in folder.glob("*.py"))


def test_files_are_short() -> None:
    long = {tree.name_of(path): len(path.read_text(encoding="utf-8").splitlines()) for path in tree.python_files()}
    assert {name: lines for name, lines in long.items() if lines > FILE_LINES} == {}


def test_functions_are_short() -> None:
    lengths = {
        f"{tree.name_of(path)}:{node.lineno} {node.name}": (node.end_lineno or node.lineno) - node.lineno + 1
        for path in tree.python_files()
        for node in functions(path)
    }
    assert {name: lines for name, lines in lengths.items() if lines > FUNCTION_LINES} == {}


def test_names_say_what_is_inside() -> None:
    named = [path for path in tree.python_files() if {path.stem, *path.relative_to(tree.ROOT).parts[:-1]} & BANNED_NAMES]
    assert [tree.name_of(path) for path in named] == []


def test_the_readme_is_one_page_or_two() -> None:
    assert len((tree.ROOT / "README.md").read_text(encoding="utf-8").splitlines()) <= README_LINES


def test_nothing_is_left_to_do_in_the_code() -> None:
    unfinished = [path for path in tree.python_files() if UNFINISHED.search(path.read_text(encoding="utf-8"))]
    assert [tree.name_of(path) for path in unfinished] == []


def test_everything_is_caught_only_at_the_borders() -> None:
    broad = {
        tree.name_of(path)
        for path in tree.python_files("gateway", "tokenizer_profiles", "examples", "requirements")
        if any(catches_everything(node) for node in ast.walk(tree.tree_of(path)))
    }
    assert broad - BROAD_EXCEPTS.keys() == set()


@pytest.mark.parametrize(
    "source", ["try: f()\nexcept: pass", "try: f()\nexcept (OSError, Exception): pass", "suppress(Exception)"]
)
def test_a_broad_except_is_seen(source: str) -> None:
    assert any(catches_everything(node) for node in ast.walk(ast.parse(source)))


def test_cleaning_up_and_raising_again_is_no_broad_except() -> None:
    source = "try: f()\nexcept BaseException:\n    g()\n    raise"
    assert not any(catches_everything(node) for node in ast.walk(ast.parse(source)))


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_has_its_contract_and_its_list(family: str) -> None:
    members = {path.name for path in (tree.ROOT / family).glob("*.py")} - {"__init__.py"}
    assert not members or {"base.py", "builtin.py"} <= members


def test_every_test_of_a_source_file_stands_where_its_source_stands() -> None:
    tests = [path for folder in MIRRORED for path in (tree.ROOT / "tests" / folder).rglob("test_*.py")]
    assert [tree.name_of(test) for test in tests if not has_its_source(test)] == []
