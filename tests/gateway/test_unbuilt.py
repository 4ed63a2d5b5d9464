"""What this version can't do is refused by file and key."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gateway.model_catalog import ModelCatalog, PromptAssets
from gateway.settings import Provenance, ProviderSettings, Settings
from gateway.toml_tree import ConfigError
from gateway.unbuilt import require_built
from tests.support.small_chats import model_config

SETTINGS = Settings(provenance=Provenance("config/gateway.toml"), providers={"up": ProviderSettings()})


def test_what_can_be_done_is_not_refused() -> None:
    require_built(SETTINGS, ModelCatalog([model_config(), model_config(None, tokenizer="remote")]))


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"message_shape": "merge"}, 'models/m.toml: message_shape: "merge" is not supported by this version'),
        ({"prompt": PromptAssets()}, "models/m.toml: prompt: is not supported by this version"),
    ],
)
def test_a_model_that_asks_for_more_is_refused(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        require_built(SETTINGS, ModelCatalog([model_config(**changes)]))
    assert str(caught.value) == complaint


def test_settings_that_ask_for_more_are_refused_all_at_once() -> None:
    asking = replace(SETTINGS, providers={"other": ProviderSettings("litellm")})
    with pytest.raises(ConfigError) as caught:
        require_built(asking, ModelCatalog([model_config(None, message_shape="strict")]))
    assert str(caught.value).splitlines() == [
        'config/gateway.toml: providers.other.kind: "litellm" is not supported by this version',
        'models/_default.toml: message_shape: "strict" is not supported by this version',
    ]
