from __future__ import annotations

import pytest

from tokenizer_profiles.model_names import base_model


@pytest.mark.parametrize(
    ("name", "bare"),
    [
        ("gpt-4o", "gpt-4o"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("openai/gpt-4o", "gpt-4o"),
        ("openrouter/openai/gpt-4o:free", "gpt-4o"),
        ("azure/gpt-4o", "gpt-4o"),
        ("ft:gpt-4o-mini-2024-07-18:acme::Ab12", "gpt-4o-mini"),
        ("ft:", ""),
        ("gpt-4-1106-preview", "gpt-4-preview"),
        (" GPT-4O ", "gpt-4o"),
        ("", ""),
        ("acme/gpt-4o", "acme/gpt-4o"),
        ("gpt-4o:clone", "gpt-4o:clone"),
    ],
)
def test_only_known_shapes_are_put_aside(name: str, bare: str) -> None:
    assert base_model(name) == bare
