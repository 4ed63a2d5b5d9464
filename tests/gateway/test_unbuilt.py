"""What this installation can't do is refused by file and key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway import unbuilt
from gateway.model_catalog import ModelCatalog, PromptAssets
from gateway.settings import Provenance, ProviderSettings, Settings
from gateway.toml_tree import ConfigError
from gateway.unbuilt import require_built
from tests.support.small_chats import model_config

SETTINGS = Settings(provenance=Provenance("config/gateway.toml"), providers={"up": ProviderSettings()})


def test_what_can_be_done_is_not_refused() -> None:
    require_built(SETTINGS, ModelCatalog([model_config(), model_config(None, tokenizer="remote", message_shape="strict")]))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"prompt": PromptAssets()}, "models/m.toml: prompt: is not supported by this version"),
    ],
)
def test_a_model_that_asks_for_more_is_refused(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        require_built(SETTINGS, ModelCatalog([model_config(**changes)]))
    assert str(caught.value) == complaint


def test_a_kind_whose_library_is_installed_is_not_refused() -> None:
    require_built(replace(SETTINGS, providers={"other": ProviderSettings("litellm")}), ModelCatalog([model_config()]))


def test_what_cannot_be_done_is_refused_all_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unbuilt, "find_spec", lambda name: None)
    asking = replace(SETTINGS, providers={"up": ProviderSettings(), "other": ProviderSettings("litellm")})
    with pytest.raises(ConfigError) as caught:
        require_built(asking, ModelCatalog([model_config(None, prompt=PromptAssets())]))
    assert str(caught.value).splitlines() == [
        'config/gateway.toml: providers.other.kind: "litellm" needs a library that is not installed: install sluicegate[litellm]',
        "models/_default.toml: prompt: is not supported by this version",
    ]
