"""Everything about the models: one file each, defaults filled in, and which file answers for which name.

Knows no provider, store or tokenizer: those are names here. A name from a client never becomes a path.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from gateway.environment import References
from gateway.errors import ModelNotFound
from gateway.learned import NOTHING, Learned
from gateway.published_limits import published_limits
from gateway.settings import MessageShape, Settings
from gateway.toml_tree import Place, Problem, nearest, noting, one_of, read_table, read_toml, require_none, shown
from gateway.value_checks import Name, Positive, Share, Text

ASSUMED_CONTEXT_LIMIT = 8192
DEFAULT_FILE = "_default.toml"

_INHERITED = ("reply_reserve", "cut_step", "safety_margin", "context_strategy", "message_shape")
_WILDCARD = re.compile(r"\[[^\]]+\]|[*?]")


def _is_output_limit(value: int) -> str | None:
    return None if value == -1 or value >= 1 else f"must be 1 or more (or -1 for none), not {value}"


@dataclass(frozen=True, slots=True)
class PromptAssets:
    """[prompt] of a model file: paths relative to the configuration directory, and the template's name."""

    character: Text | None = None
    persona: Text | None = None
    lorebooks: tuple[Text, ...] = ()
    template: Text = "default"


@dataclass(frozen=True, slots=True)
class _ModelFile:
    provider: Text
    model: Name | None = None
    aliases: tuple[Name, ...] = ()
    upstream_model: Name | None = None
    context_limit: Positive | None = None
    max_output: Annotated[int, _is_output_limit] | None = None
    reply_reserve: Positive | None = None
    tokenizer: Text = "auto"
    context_strategy: Text | None = None
    cut_step: Share | None = None
    safety_margin: Share | None = None
    message_shape: MessageShape | None = None
    fallbacks: tuple[Name, ...] = ()
    prompt: PromptAssets | None = None


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """One model as it is configured; `sources` says of each value where it came from."""

    model: str | None  # None: `_default.toml`, which answers for every other name
    file: str
    aliases: tuple[str, ...]
    provider: str
    upstream_model: str | None  # None: the requested name
    context_limit: int | None  # None: asked from the upstream, else the catalogue, else 8192
    max_output: int | None
    reply_reserve: int
    tokenizer: str
    context_strategy: str
    cut_step: float
    safety_margin: float
    message_shape: MessageShape
    fallbacks: tuple[str, ...]
    prompt: PromptAssets | None
    sources: Mapping[str, str]

    @property
    def name(self) -> str:
        """The model's name, or `_default`."""
        return self.model or "_default"

    def upstream_name(self, requested: str) -> str:
        """What the provider calls the model that a client asked for by this name."""
        return self.upstream_model or requested

    def beside(self, path: str) -> Path:
        """A path that the model file names, which is relative to the configuration directory."""
        return Path(self.file).parent.parent / path

    def reserve_within(self, context_limit: int) -> int:
        """The reserve of a request that names none: the file's, else the default but at most a quarter of the limit."""
        if self.sources["reply_reserve"] == f"file {self.file}":
            return self.reply_reserve
        return max(1, min(self.reply_reserve, context_limit // 4))


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits in force, where the context limit came from, and a warning where it had to be assumed.

    What overflows taught (`learned`) is told apart; it isn't in `context_limit`.
    """

    context_limit: int
    max_output: int | None
    source: str
    warning: str | None = None
    learned: Learned = NOTHING


def effective_limits(config: ModelConfig, asked_upstream: int | None, requested: str | None = None) -> Limits:
    """The model file's limit, else the upstream's own, else the catalogue's, else 8192 with a warning.

    The catalogue's output limit holds only where its context limit does: a server that names its own limit, or a file that does,
    is not the model the catalogue describes.
    """
    if config.context_limit is not None:
        return Limits(config.context_limit, config.max_output, config.sources["context_limit"])
    if asked_upstream is not None and asked_upstream > 0:
        return Limits(asked_upstream, config.max_output, "upstream")
    name = config.upstream_name(requested or config.name)
    published = published_limits(name)
    if published is not None:
        return Limits(published.context_limit, config.max_output or published.max_output, "catalogue")
    warning = (
        f"{config.file}: context_limit: neither the file, the upstream nor the catalogue names one for {shown(name)}; "
        f"{ASSUMED_CONTEXT_LIMIT} is assumed, set context_limit if that is wrong"
    )
    return Limits(ASSUMED_CONTEXT_LIMIT, config.max_output, "default", warning)


class ModelCatalog:
    """The configured models."""

    def __init__(self, configs: Iterable[ModelConfig]) -> None:
        everything = tuple(configs)
        self.default = next((config for config in everything if config.model is None), None)
        self._named = {config.model: config for config in everything if config.model is not None}
        aliases = [(alias, config) for config in everything for alias in config.aliases]
        self._aliases = sorted(aliases, key=lambda pair: _specificity(pair[0]), reverse=True)

    @classmethod
    def load(cls, config_dir: Path, settings: Settings, environ: Mapping[str, str] | None = None) -> ModelCatalog:
        """The models of `models/*.toml`; the process's environment unless another is given. Raises ConfigError."""
        references = References(os.environ if environ is None else environ, config_dir)
        problems: list[Problem] = []
        configs: list[ModelConfig] = []
        for file in sorted((config_dir / "models").glob("[!.]*.toml")):
            with noting(problems):
                configs.append(_read_model(file, settings, references))
        require_none(problems)
        require_none([*_clashes(configs), *_unknown_names(configs, settings), *_choosers(configs, settings)])
        return cls(configs)

    def knows(self, name: str) -> bool:
        """Whether a file answers for this name."""
        try:
            self.resolve(name)
        except ModelNotFound:
            return False
        return True

    def resolve(self, name: str) -> ModelConfig:
        """The model of this name, else the one with the most specific alias, else `_default`. Raises ModelNotFound."""
        exact = self._named.get(name)
        if exact is not None:
            return exact
        matching = (config for alias, config in self._aliases if fnmatchcase(name, alias))
        found = next(matching, self.default)
        if found is None:
            raise ModelNotFound(f"The model {shown(name)} is not configured; GET /v1/models lists those that are.", param="model")
        return found

    def models(self) -> list[ModelConfig]:
        """The models that have a name, by name."""
        return [self._named[name] for name in sorted(self._named)]

    def all(self) -> list[ModelConfig]:
        """Every configured model, `_default` last."""
        return self.models() + ([self.default] if self.default else [])


def require_known(
    settings: Settings,
    catalog: ModelCatalog,
    *,
    strategies: Collection[str],
    profiles: Collection[str],
    providers: Collection[str],
) -> None:
    """Raises ConfigError for a strategy, tokenizer profile or provider that is named but doesn't exist."""
    problems = []
    default = settings.defaults.context_strategy
    if default not in strategies:
        place = Place(settings.provenance.file, "defaults.context_strategy")
        problems.append(_unknown(place, "strategy", default, strategies))
    if settings.recall.endpoint_model is not None and not catalog.knows(settings.recall.endpoint_model):
        place = Place(settings.provenance.file, "recall.endpoint_model")
        problems.append(place.problem(f"no model file answers for {shown(settings.recall.endpoint_model)}"))
    for config in catalog.all():
        place = Place(config.file)
        if config.context_strategy not in (*strategies, default):
            problems.append(_unknown(place.at("context_strategy"), "strategy", config.context_strategy, strategies))
        problems += _tokenizer_problems(config, place.at("tokenizer"), profiles)
        if config.provider not in providers:
            problems.append(_unknown(place.at("provider"), "provider", config.provider, providers))
    require_none(problems)


def _tokenizer_problems(config: ModelConfig, place: Place, profiles: Collection[str]) -> Iterator[Problem]:
    """A profile that isn't there, or whose folder or file isn't: a name in `profiles` that ends with a colon wants one."""
    kind, colon, path = config.tokenizer.partition(":")
    if f"{kind}{colon}" not in profiles or bool(colon) != bool(path):
        yield _unknown(place, "tokenizer profile", config.tokenizer, profiles)
    elif path and not config.beside(path).exists():
        yield place.problem(f"there is no {path} in the configuration directory")


def _unknown(place: Place, what: str, name: str, known: Collection[str]) -> Problem:
    near = nearest(name, known)
    hint = f'; nearest is "{near}"' if near else ""
    return place.problem(f"there is no {what} {shown(name)}{hint}; known are {one_of(known)}")


def _read_model(file: Path, settings: Settings, references: References) -> ModelConfig:
    place = Place(file.as_posix())
    tree = references.expand(read_toml(file), place)
    read = read_table(_ModelFile, tree, place)
    is_default = file.name == DEFAULT_FILE
    if is_default and read.model is not None:
        raise place.at("model").error(f"{DEFAULT_FILE} answers for every other name and has no name of its own")
    if not is_default and read.model is None:
        raise place.at("model").error("is missing: the name clients ask for")
    return ModelConfig(
        model=read.model,
        file=place.file,
        aliases=tuple(dict.fromkeys(read.aliases)),
        provider=read.provider,
        upstream_model=read.upstream_model,
        context_limit=read.context_limit,
        max_output=None if read.max_output == -1 else read.max_output,
        tokenizer=read.tokenizer,
        fallbacks=read.fallbacks,
        prompt=read.prompt,
        sources=_sources(tree, settings, place),
        **_inherited(read, settings),
    )


def _inherited(read: _ModelFile, settings: Settings) -> dict[str, Any]:
    own = {name: getattr(read, name) for name in _INHERITED}
    return {name: getattr(settings.defaults, name) if value is None else value for name, value in own.items()}


def _sources(tree: Mapping[str, Any], settings: Settings, place: Place) -> Mapping[str, str]:
    inherited = {name: settings.provenance.source(f"defaults.{name}") for name in _INHERITED}
    others = dict.fromkeys(
        ("aliases", "upstream_model", "context_limit", "max_output", "tokenizer", "fallbacks", "prompt"), "default"
    )
    return MappingProxyType(others | inherited | dict.fromkeys(tree, f"file {place.file}"))


def _clashes(configs: Iterable[ModelConfig]) -> Iterator[Problem]:
    named: dict[str, str] = {}
    aliased: dict[str, str] = {}
    for config in configs:
        place = Place(config.file)
        if config.model is not None and named.setdefault(config.model, config.file) != config.file:
            yield place.at("model").problem(f"{shown(config.model)} is the model of {named[config.model]} already")
        for alias in config.aliases:
            if aliased.setdefault(alias, config.file) != config.file:
                yield place.at("aliases").problem(f"{shown(alias)} is an alias in {aliased[alias]} already")


def _unknown_names(configs: Collection[ModelConfig], settings: Settings) -> Iterator[Problem]:
    names = sorted(config.model for config in configs if config.model is not None)
    for config in configs:
        place = Place(config.file)
        if config.provider not in settings.providers:
            yield _unknown(place.at("provider"), "provider", config.provider, settings.providers)
        for index, name in enumerate(config.fallbacks):
            if name not in names or name == config.model:
                others = [other for other in names if other != config.model]
                yield _unknown(place.at("fallbacks").item(index), "other model", name, others)


def _choosers(configs: Iterable[ModelConfig], settings: Settings) -> Iterator[Problem]:
    """Models whose name a client makes up, at a provider where the name says which server gets the key."""
    for config in configs:
        provider = settings.providers.get(config.provider)
        is_open = config.model is None or any(_WILDCARD.search(alias) for alias in config.aliases)
        if provider is None or provider.kind != "litellm" or provider.base_url is not None:
            continue
        if is_open and config.upstream_model is None:
            text = "is needed: without it, or a base_url of the provider, the name that a client asks for says who gets the key"
            yield Place(config.file).at("upstream_model").problem(text)


def _specificity(alias: str) -> tuple[bool, int, int, str]:
    """Sorts aliases: those without wildcards first, then by how much they spell out, then by how little they leave open."""
    wildcards = _WILDCARD.findall(alias)
    return (not wildcards, len(_WILDCARD.sub("", alias)), -wildcards.count("*"), alias)
