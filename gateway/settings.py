"""What config/gateway.toml and the environment say, as one frozen value. Knows no model, store, provider or web framework.

One class is one table, one field one key: name, type, bounds and default stand there and nowhere else.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any, Literal

from gateway.environment import Override, References, overrides_of
from gateway.secret import Secret, SecretUrl
from gateway.toml_tree import NOT_A_KEY, ConfigError, Place, Problem, read_table, read_toml, require_none, shown
from gateway.value_checks import (
    Count,
    EntryPoint,
    HeaderName,
    HeaderValue,
    Label,
    Name,
    Origin,
    Port,
    Positive,
    Seconds,
    Sha256,
    Share,
    StoreAddress,
    Text,
    WebAddress,
    at_least,
    between,
)

MessageShape = Literal["as-is", "merge", "strict"]

_STORE_URL = SecretUrl("sqlite:///var/sluicegate.db")
_NO_KEY = Secret()
_OPENAI = {"kind": "openai", "base_url": "https://api.openai.com/v1", "api_key": "${OPENAI_API_KEY:-}"}


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """[server]"""

    host: Text = "127.0.0.1"
    port: Port = 8787
    max_body_bytes: Positive = 33_554_432
    allowed_hosts: tuple[Text, ...] = ("localhost", "127.0.0.1", "[::1]")
    cors_origins: tuple[Origin, ...] = ()
    shutdown_grace_s: Annotated[float, at_least(0)] = 30.0


@dataclass(frozen=True, slots=True)
class ClientKey:
    """[[auth.keys]]: a tenant and the SHA-256 of one of its keys."""

    name: Name
    sha256: Sha256


@dataclass(frozen=True, slots=True)
class AuthSettings:
    """[auth]"""

    allow_anonymous: bool = False
    keys: tuple[ClientKey, ...] = ()


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """[store]"""

    url: StoreAddress = _STORE_URL
    retention_days: Count = 30


@dataclass(frozen=True, slots=True)
class DefaultSettings:
    """[defaults]: what a model file doesn't say."""

    context_strategy: Text = "truncate"
    reply_reserve: Positive = 1024
    cut_step: Share = 0.125
    safety_margin: Share = 0.05
    message_shape: MessageShape = "as-is"


@dataclass(frozen=True, slots=True)
class SummarizeSettings:
    """[summarize]"""

    budget_share: Share = 0.10
    max_tokens: Positive = 1024


@dataclass(frozen=True, slots=True)
class RecallSettings:
    """[recall]"""

    scorer: Literal["local", "none", "endpoint"] = "local"
    endpoint_model: Text | None = None


@dataclass(frozen=True, slots=True)
class TimeoutSettings:
    """[timeouts], in seconds."""

    connect_s: Seconds = 10.0
    first_token_s: Seconds = 300.0
    idle_s: Seconds = 60.0
    total_s: Seconds = 900.0


@dataclass(frozen=True, slots=True)
class RetrySettings:
    """[retries]: calls that a provider never took up, made once more."""

    attempts: Annotated[int, between(0, 1)] = 1
    longest_wait_s: Annotated[float, between(0, 60)] = 2.0


@dataclass(frozen=True, slots=True)
class OverflowSettings:
    """[overflow]: what is learned from a provider that says a prompt is too long."""

    remember_hours: Seconds = 24.0


@dataclass(frozen=True, slots=True)
class PluginSettings:
    """[plugins]"""

    modules: tuple[EntryPoint, ...] = ()
    interceptor_timeout_s: Seconds = 2.0
    strategy_timeout_s: Seconds = 15.0


@dataclass(frozen=True, slots=True)
class ClientSettings:
    """[clients]"""

    chat_id_headers: tuple[HeaderName, ...] = ("X-OpenWebUI-Chat-Id", "X-Conversation-Id", "X-Session-Id")
    overflow_code: Literal["TOKEN_BUDGET_EXCEEDED", "context_length_exceeded"] = "TOKEN_BUDGET_EXCEEDED"
    report: Literal["off", "summary", "full"] = "off"


def _nothing() -> Mapping[str, Any]:
    return MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """[providers.NAME]"""

    kind: Literal["openai", "litellm"] = "openai"
    base_url: WebAddress | None = None
    api_key: HeaderValue = _NO_KEY
    headers: Mapping[HeaderName, HeaderValue] = field(default_factory=_nothing)
    query: Mapping[Text, Secret] = field(default_factory=_nothing)

    @property
    def passthrough(self) -> bool:
        """Whether the client's own Authorization header is forwarded."""
        return self.api_key.reveal() == "passthrough"


@dataclass(frozen=True, slots=True)
class LorebookSettings:
    """[lorebook]: what a book doesn't say."""

    scan_depth: Count = 2
    budget_share: Share = 0.25
    recursive: bool = True
    max_recursion: Count = 10
    whole_words: Literal["smart", "sillytavern"] = "smart"


@dataclass(frozen=True, slots=True)
class Provenance:
    """Which file the settings were read from, and which of them say where they came from; the others are defaults."""

    file: str = "gateway.toml"
    sources: Mapping[str, str] = field(default_factory=_nothing)

    def source(self, key: str) -> str:
        """Where the value of a dotted key came from: "file PATH", "environment VARIABLE" or "default"."""
        while key and key not in self.sources:
            key = key[: max(key.rfind("."), key.rfind("["), 0)]
        return self.sources.get(key, "default")


@dataclass(frozen=True, slots=True)
class Settings:
    """The whole of gateway.toml."""

    server: ServerSettings = ServerSettings()
    auth: AuthSettings = AuthSettings()
    store: StoreSettings = StoreSettings()
    defaults: DefaultSettings = DefaultSettings()
    summarize: SummarizeSettings = SummarizeSettings()
    recall: RecallSettings = RecallSettings()
    timeouts: TimeoutSettings = TimeoutSettings()
    retries: RetrySettings = RetrySettings()
    overflow: OverflowSettings = OverflowSettings()
    plugins: PluginSettings = PluginSettings()
    clients: ClientSettings = ClientSettings()
    providers: Mapping[Label, ProviderSettings] = field(default_factory=_nothing)
    lorebook: LorebookSettings = LorebookSettings()
    provenance: Provenance = field(default=Provenance(), metadata=NOT_A_KEY, repr=False, compare=False)


def load_settings(config_dir: Path, environ: Mapping[str, str]) -> Settings:
    """The settings of a configuration directory; without a gateway.toml all defaults. Raises ConfigError."""
    if not config_dir.is_dir():
        raise Place(config_dir.as_posix()).error("no such directory; --config names the one to use")
    file = config_dir / "gateway.toml"
    place = Place(file.as_posix())
    written = read_toml(file) if file.exists() or file.is_symlink() else {}
    tree = References(environ, config_dir).expand({"providers": {"openai": _OPENAI}} | written, place)
    overrides = overrides_of(Settings, tree, environ)
    for override in overrides:
        tree = override.applied(tree)
    sources = dict.fromkeys(_leaves(written, Place("")), f"file {place.file}")
    sources |= {override.key: f"environment {override.variable}" for override in overrides}
    try:
        settings = read_table(Settings, tree, place)
        require_none(list(_contradictions(settings, place)))
    except ConfigError as error:
        raise ConfigError(_blamed(problem, overrides) for problem in error.problems) from None
    return replace(settings, provenance=Provenance(place.file, MappingProxyType(sources)))


def require_safe_bind(settings: Settings) -> None:
    """Raises ConfigError when everybody on the network could use the gateway without a key and nobody said they may."""
    host = settings.server.host
    if settings.auth.keys or settings.auth.allow_anonymous or _is_loopback(host):
        return
    raise Place(settings.provenance.file, "server.host").error(
        f"{shown(host)} is reachable from outside and there are no [[auth.keys]]: add one (sluicegate key new NAME), "
        "bind to 127.0.0.1, or set auth.allow_anonymous = true"
    )


def _is_loopback(host: str) -> bool:
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.removeprefix("[").removesuffix("]")).is_loopback
    except ValueError:
        return False


def _leaves(tree: Mapping[str, Any], place: Place) -> Iterator[str]:
    for name, value in tree.items():
        if isinstance(value, dict):
            yield from _leaves(value, place.at(name))
        else:
            yield place.at(name).key


def _contradictions(settings: Settings, place: Place) -> Iterator[Problem]:
    for name, provider in settings.providers.items():
        if provider.kind == "openai" and provider.base_url is None:
            example = 'is needed for kind "openai", for example "http://127.0.0.1:8000/v1"'
            yield place.at("providers").at(name).at("base_url").problem(example)
    if settings.recall.scorer == "endpoint" and settings.recall.endpoint_model is None:
        yield place.at("recall").at("endpoint_model").problem('is needed for scorer "endpoint"')
    owners: dict[str, str] = {}
    for index, key in enumerate(settings.auth.keys):
        if owners.setdefault(key.sha256.reveal().lower(), key.name) != key.name:
            yield place.at("auth").at("keys").item(index).at("sha256").problem("is the key of another name already")


def _blamed(problem: Problem, overrides: list[Override]) -> Problem:
    for override in overrides:
        problem = override.renamed(problem)
    return problem
