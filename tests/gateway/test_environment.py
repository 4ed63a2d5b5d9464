"""References in texts, and overrides of keys, from the environment."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gateway.environment import References, overrides_of
from gateway.settings import Settings
from gateway.toml_tree import ConfigError, Place, Problem

ENVIRON = {"NAME": "value", "EMPTY": "", "NESTED": "${NAME}"}


def expand(value: Any, base: Path = Path()) -> Any:
    return References(ENVIRON, base).expand(value, Place("a.toml", "k"))


@pytest.mark.parametrize(
    ("text", "expanded"),
    [
        ("plain $NAME { } $", "plain $NAME { } $"),
        ("${NAME}", "value"),
        ("a-${NAME}-${NAME}", "a-value-value"),
        ("${EMPTY}", ""),
        ("${MISSING:-default}", "default"),
        ("${EMPTY:-default}", "default"),
        ("${NAME:-default}", "value"),
        ("${MISSING:-}", ""),
        ("${NESTED}", "${NAME}"),
        ("${MISSING:-a:-b}", "a:-b"),
    ],
)
def test_a_reference_is_replaced_once(text: str, expanded: str) -> None:
    assert expand(text) == expanded


def test_every_text_of_a_tree_is_expanded_and_nothing_else() -> None:
    tree = {"${NAME}": ["${NAME}", 1, {"x": "${NAME}"}], "n": True}
    assert expand(tree) == {"${NAME}": ["value", 1, {"x": "value"}], "n": True}


def test_a_file_is_read_without_its_last_line_break(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("hush\n")
    assert expand("${file:key}", tmp_path) == "hush"
    assert expand(f"x${{file:{tmp_path}/key}}", Path("/")) == "xhush"


def test_all_references_that_lead_nowhere_are_named_with_their_keys() -> None:
    with pytest.raises(ConfigError) as caught:
        expand({"a": "${MISSING}", "b": ["", "${OTHER}"]})
    first, second = str(caught.value).splitlines()
    assert first == "a.toml: k.a: the environment variable MISSING is not set; set it, or write ${MISSING:-default}"
    assert second.startswith("a.toml: k.b[1]: the environment variable OTHER is not set")


@pytest.mark.parametrize("text", ["${", "${}", "${1A}", "${NAME", "${NAME:default}", "${file:}", "${NAME:-x"])
def test_what_only_looks_like_a_reference_is_an_error(text: str) -> None:
    with pytest.raises(ConfigError, match=r"allowed are \$\{NAME\}"):
        expand(text)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "bin").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"a\.toml: k: the file 'none' can't be read: No such file"):
        expand("${file:none}", tmp_path)
    with pytest.raises(ConfigError, match="the file 'bin' is not UTF-8 text"):
        expand("${file:bin}", tmp_path)
    with pytest.raises(ConfigError, match="can't be read"):
        expand("${file:.}", tmp_path)
    with pytest.raises(ConfigError, match="is not UTF-8 text"):
        expand("${file:a\x00b}", tmp_path)


def overridden(environ: dict[str, str], tree: dict[str, Any] | None = None) -> dict[str, Any]:
    result = tree or {}
    for override in overrides_of(Settings, result, environ):
        result = override.applied(result)
    return result


@pytest.mark.parametrize(
    ("variable", "text", "tree"),
    [
        ("SLUICEGATE_SERVER__PORT", "9000", {"server": {"port": 9000}}),
        ("sluicegate_server__port", "9000", {"server": {"port": 9000}}),
        ("SLUICEGATE_SERVER__HOST", "::1", {"server": {"host": "::1"}}),
        ("SLUICEGATE_AUTH__ALLOW_ANONYMOUS", "true", {"auth": {"allow_anonymous": True}}),
        ("SLUICEGATE_AUTH__ALLOW_ANONYMOUS", "0", {"auth": {"allow_anonymous": False}}),
        ("SLUICEGATE_TIMEOUTS__IDLE_S", "0.5", {"timeouts": {"idle_s": 0.5}}),
        ("SLUICEGATE_SERVER__CORS_ORIGINS", "https://a, https://b", {"server": {"cors_origins": ["https://a", "https://b"]}}),
        ("SLUICEGATE_SERVER__CORS_ORIGINS", "", {"server": {"cors_origins": []}}),
        ("SLUICEGATE_PROVIDERS__OPENAI__API_KEY", "${X}", {"providers": {"openai": {"api_key": "${X}"}}}),
        ("SLUICEGATE_PROVIDERS__A__HEADERS", "api-key=x=y,b=c", {"providers": {"a": {"headers": {"api-key": "x=y", "b": "c"}}}}),
        ("SLUICEGATE_SERVER__PORT", "many", {"server": {"port": "many"}}),
        ("SLUICEGATE_AUTH__ALLOW_ANONYMOUS", "maybe", {"auth": {"allow_anonymous": "maybe"}}),
    ],
)
def test_a_variable_sets_a_key_with_the_type_it_has(variable: str, text: str, tree: dict[str, Any]) -> None:
    assert overridden({variable: text, "PATH": "x"}) == tree


def test_a_variable_finds_the_spelling_of_the_file() -> None:
    tree = {"providers": {"My-Azure": {"headers": {"api-key": "old"}}}}
    environ = {"SLUICEGATE_PROVIDERS__MY_AZURE__HEADERS__API_KEY": "new"}
    assert overridden(environ, tree) == {"providers": {"My-Azure": {"headers": {"api-key": "new"}}}}
    assert tree["providers"]["My-Azure"]["headers"]["api-key"] == "old"


def test_a_variable_does_not_repair_what_is_no_table() -> None:
    assert overridden({"SLUICEGATE_SERVER__PORT": "1"}, {"server": 3}) == {"server": 3}


@pytest.mark.parametrize(
    ("variable", "what"),
    [
        ("SLUICEGATE_SERVER__PROT", "unknown key 'PROT'; the nearest known one is PORT"),
        ("SLUICEGATE_SEVER__PORT", "unknown key 'SEVER'; the nearest known one is SERVER"),
        ("SLUICEGATE_SERVER__PORT__X", "unknown key 'X'"),
        ("SLUICEGATE_PROVENANCE__FILE", "unknown key 'PROVENANCE'"),
        ("SLUICEGATE_AUTH__KEYS", "names a table"),
        ("SLUICEGATE_PROVIDERS__A", "names a table"),
        ("SLUICEGATE_SERVER_PORT", "two underscores nest: write SLUICEGATE_SERVER__PORT"),
    ],
)
def test_a_variable_that_is_no_key_is_an_error(variable: str, what: str) -> None:
    with pytest.raises(ConfigError) as caught:
        overridden({variable: "1"})
    assert str(caught.value).startswith(f"environment: {variable}: {what}")


def test_what_kubernetes_adds_for_a_service_is_no_override() -> None:
    added = {"SLUICEGATE_SERVICE_HOST": "10.0.0.1", "SLUICEGATE_PORT": "tcp://10.0.0.1:80", "SLUICEGATE_SERVER_PORT": "tcp://x:1"}
    assert overridden(added) == {}


def test_a_problem_of_an_overridden_key_is_told_as_one_of_the_variable() -> None:
    (override,) = overrides_of(Settings, {}, {"SLUICEGATE_SERVER__CORS_ORIGINS": "x"})
    assert str(override.renamed(Problem("f", "server.cors_origins[0]", "w"))) == "environment: SLUICEGATE_SERVER__CORS_ORIGINS: w"
    assert str(override.renamed(Problem("f", "server.cors_origins_2", "w"))) == "f: server.cors_origins_2: w"
