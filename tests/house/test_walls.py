"""The walls of ARCHITECTURE.md: the import contracts hold, the core is pure, and start-up stays light."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.house import tree

SHIFTING = "gateway.shifting"
LINT = [sys.executable, "-c", "from importlinter.cli import lint_imports_command; lint_imports_command()"]
HEAVY = ["litellm", "transformers", "tokenizers", "tiktoken", "xllamacpp", "openai", "numpy"]


def imported(path: Path) -> Iterator[str]:
    """The modules a file imports, at its top or deeper."""
    for node in ast.walk(tree.tree_of(path)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield "." * node.level + (node.module or "")


def test_the_import_contracts_hold() -> None:
    run = subprocess.run([*LINT, "--no-cache"], cwd=tree.ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr


def test_the_core_imports_the_standard_library_and_itself() -> None:
    core = [path for path in tree.python_files("gateway") if "shifting" in path.parts]
    foreign = {
        f"{tree.name_of(path)}: {module}"
        for path in core
        for module in imported(path)
        if module.split(".")[0] not in sys.stdlib_module_names and not f"{module}.".startswith(f"{SHIFTING}.")
    }
    assert core
    assert foreign == set()


def test_no_cycle_is_hidden_from_the_contracts() -> None:
    hiding = [
        path for path in tree.python_files("gateway", "tokenizer_profiles") if "TYPE_CHECKING" in path.read_text(encoding="utf-8")
    ]
    assert [tree.name_of(path) for path in hiding] == []


@pytest.mark.parametrize("module", ["gateway.app", "gateway.cli", "tokenizer_profiles"])
def test_start_up_leaves_the_heavy_libraries_alone(module: str) -> None:
    script = f"import sys, {module}; print(*sorted(set(sys.modules) & set({HEAVY!r})))"
    run = subprocess.run([sys.executable, "-c", script], cwd=tree.ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    assert run.stdout.split() == []
