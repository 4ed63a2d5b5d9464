from __future__ import annotations

import logging

import pytest

from tests.tokenizer_profiles.model_name_table import NAMES
from tokenizer_profiles import (
    Choice,
    ProfileKind,
    ProfileNeedsServer,
    ProfileRegistry,
    ProfileRequest,
    TokenizerProfile,
    UnknownProfile,
)


class FolderKind(ProfileKind):
    takes_argument = True

    def __init__(self) -> None:
        self.arguments: list[str] = []
        self.profile = ProfileRegistry.with_builtins().resolve("approximate")

    def make(self, request: ProfileRequest) -> TokenizerProfile:
        self.arguments.append(request.argument)
        return self.profile


class AbsentKind(ProfileKind):
    data_present = False
    install = "install the words"

    def make(self, request: ProfileRequest) -> TokenizerProfile:
        raise AssertionError("not to be made")


async def ask(method: str, path: str, body: bytes) -> bytes:
    return b"{}"


def test_auto_picks_by_the_name_of_the_model(registry: ProfileRegistry) -> None:
    assert registry.resolve("auto", "openai/gpt-4o-2024-08-06").name == "o200k_base"
    assert registry.resolve("auto", "gpt-4").name == "cl100k_base"
    assert registry.resolve("auto", "claude-sonnet-4").name == "approximate"
    assert registry.resolve("auto").name == "approximate"


def test_every_known_name_gets_its_profile_where_all_data_is_installed(registry: ProfileRegistry) -> None:
    chosen = {name: registry.resolve("auto", name).name for name, _ in NAMES}
    assert chosen == dict(NAMES)


def test_profiles_are_made_once(registry: ProfileRegistry) -> None:
    assert registry.resolve("auto", "gpt-4o") is registry.resolve("o200k_base", "gpt-4o-2024-08-06")


def test_an_unknown_name_lists_the_known_ones(registry: ProfileRegistry) -> None:
    with pytest.raises(UnknownProfile) as caught:
        registry.resolve("o300k")
    known = ", ".join(registry.names())
    assert str(caught.value) == f"unknown tokenizer profile 'o300k'; known: {known}"
    assert known.startswith("auto, o200k_base, ")
    assert isinstance(caught.value, KeyError)
    assert caught.value.known == registry.names()


@pytest.mark.parametrize("name", ["", ":", "o200k_base:x", "o200k_base:", "never:x", "hf:"])
def test_odd_names_are_unknown(registry: ProfileRegistry, name: str) -> None:
    with pytest.raises(UnknownProfile):
        registry.resolve(name)


def test_remote_wants_a_server(registry: ProfileRegistry) -> None:
    with pytest.raises(ProfileNeedsServer):
        registry.resolve("remote", "m")
    assert registry.resolve("remote", "m", ask).name == "remote"
    assert registry.resolve("remote", "m", ask) is not registry.resolve("remote", "m", ask)


def test_a_kind_may_take_an_argument() -> None:
    registry, kind = ProfileRegistry.with_builtins(), FolderKind()
    registry.register("hf", kind)
    assert registry.resolve("hf:/models/a:b") is kind.profile
    assert kind.arguments == ["/models/a:b"]
    assert "hf:" in registry.names()
    with pytest.raises(UnknownProfile):
        registry.resolve("hf")


def test_a_registration_gives_back_its_undo() -> None:
    registry = ProfileRegistry()
    first, second = FolderKind(), FolderKind()
    undo_first = registry.register("hf", first)
    undo_second = registry.register("hf", second)
    undo_first()
    assert "hf:" in registry.names()
    undo_second()
    undo_second()
    assert registry.names() == ("auto",)


def test_auto_says_why_a_model_is_only_estimated(registry: ProfileRegistry) -> None:
    assert registry.choose("gpt-4o") == Choice("o200k_base")
    assert registry.choose("claude-sonnet-4") == Choice("approximate", "no tokenizer is known for a model of this name")


def test_auto_does_without_what_is_not_installed(caplog: pytest.LogCaptureFixture) -> None:
    registry = ProfileRegistry({"approximate": ProfileRegistry.with_builtins()._kinds["approximate"], "qwen3": AbsentKind()})
    assert registry.choose("qwen3:8b") == Choice("approximate", "the data of qwen3 is not on this machine: install the words")
    assert registry.choose("gpt-4o") == Choice("approximate", "there is no profile o200k_base")
    with caplog.at_level(logging.WARNING):
        assert registry.resolve("auto", "Qwen/Qwen3-8B").name == "approximate"
        assert registry.resolve("auto", "never-heard-of").name == "approximate"
    assert [record.getMessage() for record in caplog.records] == [
        "Qwen/Qwen3-8B is counted approximately: the data of qwen3 is not on this machine: install the words"
    ]
    absent = registry.describe()[1]
    assert (absent.name, absent.data_present, absent.install) == ("qwen3", False, "install the words")


def test_the_kinds_describe_themselves(registry: ProfileRegistry) -> None:
    lines = {line.name: line for line in registry.describe()}
    assert {"o200k_base", "o200k_harmony", "cl100k_base", "p50k_base", "r50k_base", "remote", "approximate"} <= set(lines)
    assert all(line.install == "" for line in lines.values() if line.data_present)
    assert "gpt-4o*" in lines["o200k_base"].models
    assert lines["approximate"].approximate
    assert lines["approximate"].data_present
    assert not lines["remote"].approximate
    assert lines["remote"].data_present
