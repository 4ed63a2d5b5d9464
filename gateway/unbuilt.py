"""Refuses configuration that is part of the format but that this installation can't act on, instead of ignoring it in silence."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec

from gateway.model_catalog import ModelCatalog
from gateway.settings import Settings
from gateway.toml_tree import Place, Problem, require_none

_NOT_YET = "is not supported by this version"


def require_built(settings: Settings, models: ModelCatalog) -> None:
    """Raises ConfigError that names file and key."""
    require_none([*_settings(settings), *_models(models)])


def _settings(settings: Settings) -> Iterator[Problem]:
    place = Place(settings.provenance.file)
    for name, provider in settings.providers.items():
        if provider.kind == "litellm" and find_spec("litellm") is None:
            problem = '"litellm" needs a library that is not installed: install sluicegate[litellm]'
            yield place.at("providers").at(name).at("kind").problem(problem)


def _models(models: ModelCatalog) -> Iterator[Problem]:
    for config in models.all():
        place = Place(config.file)
        if config.prompt is not None:
            yield place.at("prompt").problem(_NOT_YET)
