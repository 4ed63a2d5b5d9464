from __future__ import annotations

import pytest

from tokenizer_profiles import (
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


async def ask(method: str, path: str, body: bytes) -> bytes:
    return b"{}"


def test_auto_picks_by_the_name_of_the_model(registry: ProfileRegistry) -> None:
    assert registry.resolve("auto", "openai/gpt-4o-2024-08-06").name == "o200k_base"
    assert registry.resolve("auto", "gpt-4").name == "cl100k_base"
    assert registry.resolve("auto", "claude-sonnet-4").name == "approximate"
    assert registry.resolve("auto").name == "approximate"


def test_profiles_are_made_once(registry: ProfileRegistry) -> None:
    assert registry.resolve("auto", "gpt-4o") is registry.resolve("o200k_base", "gpt-4o-2024-08-06")


def test_an_unknown_name_lists_the_known_ones(registry: ProfileRegistry) -> None:
    with pytest.raises(UnknownProfile) as caught:
        registry.resolve("o300k")
    assert str(caught.value) == "unknown tokenizer profile 'o300k'; known: auto, o200k_base, cl100k_base, remote, approximate"
    assert isinstance(caught.value, KeyError)
    assert caught.value.known == registry.names()


@pytest.mark.parametrize("name", ["", ":", "o200k_base:x", "o200k_base:", "hf:x"])
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


def test_the_kinds_describe_themselves(registry: ProfileRegistry) -> None:
    lines = {line.name: line for line in registry.describe()}
    assert set(lines) == {"o200k_base", "cl100k_base", "remote", "approximate"}
    assert "gpt-4o*" in lines["o200k_base"].models
    assert lines["approximate"].approximate
    assert lines["approximate"].data_present
    assert not lines["remote"].approximate
    assert lines["remote"].data_present
