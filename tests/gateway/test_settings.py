"""gateway.toml and the environment become one frozen value, or a complaint that names file and key."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import pytest

from gateway.secret import Secret
from gateway.settings import AuthSettings, ClientKey, ProviderSettings, ServerSettings, Settings, load_settings, require_safe_bind
from gateway.toml_tree import ConfigError

HASH = "ab" * 32


def load(tmp_path: Path, text: str, environ: Mapping[str, str] | None = None) -> Settings:
    (tmp_path / "gateway.toml").write_text(text, encoding="utf-8")
    return load_settings(tmp_path, environ or {})


def complaint(tmp_path: Path, text: str, environ: Mapping[str, str] | None = None) -> str:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, text, environ)
    return str(caught.value).replace(tmp_path.as_posix(), "config")


def test_without_a_file_everything_has_its_default(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, {"OPENAI_API_KEY": "sk-1"})
    assert (settings.server, settings.auth) == (ServerSettings(), AuthSettings())
    assert list(settings.providers) == ["openai"]
    openai = settings.providers["openai"]
    assert openai.base_url is not None
    assert (openai.kind, openai.base_url.reveal(), openai.api_key.reveal()) == ("openai", "https://api.openai.com/v1", "sk-1")
    assert settings.provenance.source("server.port") == "default"


def test_a_missing_directory_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="nowhere: no such directory"):
        load_settings(tmp_path / "nowhere", {})


def test_a_file_that_leads_nowhere_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "gateway.toml").symlink_to(tmp_path / "gone")
    with pytest.raises(ConfigError, match="can't be read"):
        load_settings(tmp_path, {})


def test_every_table_is_read(tmp_path: Path) -> None:
    settings = load(
        tmp_path,
        f"""
        [server]
        port = 0
        shutdown_grace_s = 0
        [auth]
        keys = [{{ name = "team-a", sha256 = "{HASH}" }}]
        [store]
        url = "postgresql://user:pw@host/db"
        retention_days = 0
        [timeouts]
        idle_s = 0.25
        [plugins]
        modules = ["my.plugin:register"]
        [providers.azure]
        base_url = "https://u:pw@azure.example/openai?key=pw"
        headers = {{ "api-key" = "pw" }}
        query = {{ "api-version" = "pw" }}
        [providers.other]
        kind = "litellm"
        api_key = "passthrough"
        [lorebook]
        whole_words = "sillytavern"
        """,
    )
    assert (settings.server.port, settings.server.shutdown_grace_s) == (0, 0.0)
    assert settings.auth.keys == (ClientKey("team-a", Secret(HASH)),)
    assert settings.timeouts.idle_s == 0.25
    assert settings.plugins.modules == ("my.plugin:register",)
    assert settings.providers["azure"].headers["api-key"].reveal() == "pw"
    assert not settings.providers["azure"].passthrough
    assert settings.providers["other"].passthrough
    assert settings.providers["other"].base_url is None
    assert settings.lorebook.whole_words == "sillytavern"
    assert "openai" not in settings.providers


def test_no_secret_shows(tmp_path: Path) -> None:
    secret = "hush-hush"
    text = f"""
        auth = {{ keys = [{{ name = "a", sha256 = "{HASH}" }}] }}
        store = {{ url = "postgresql://user:{secret}@host/db" }}
        [providers.a]
        base_url = "http://user:{secret}@host/v1?key={secret}"
        api_key = "{secret}"
        headers = {{ a = "{secret}" }}
        query = {{ a = "{secret}" }}
        """
    settings = load(tmp_path, text)
    assert secret not in repr(settings)
    assert HASH not in repr(settings)


def test_settings_are_frozen(tmp_path: Path) -> None:
    settings = load_settings(tmp_path, {})
    with pytest.raises(FrozenInstanceError):
        settings.server.port = 1  # type: ignore[misc]
    with pytest.raises(TypeError):
        settings.providers["x"] = ProviderSettings()  # type: ignore[index]


def test_two_loads_of_the_same_are_equal(tmp_path: Path) -> None:
    assert load(tmp_path, "[server]\nport = 1") == load_settings(tmp_path, {"SLUICEGATE_SERVER__PORT": "1"})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("[server]\nprot = 1", 'config/gateway.toml: server.prot: unknown key; the nearest known one is "port"'),
        ("[sever]\nport = 1", 'config/gateway.toml: sever: unknown key; the nearest known one is "server"'),
        ("provenance = 1", "config/gateway.toml: provenance: unknown key"),
        ("[server]\nport = 65536", "config/gateway.toml: server.port: must be between 0 and 65535, not 65536"),
        ("[server]\nport = true", "config/gateway.toml: server.port: must be a whole number, not true or false"),
        ("[server]\nmax_body_bytes = 0", "config/gateway.toml: server.max_body_bytes: must be 1 or more, not 0"),
        ("[store]\nretention_days = -1", "config/gateway.toml: store.retention_days: must be 0 or more, not -1"),
        ("[store]\nurl = 'var/a.db'", "config/gateway.toml: store.url: must be a URL such as"),
        ("[defaults]\ncut_step = 1.1", "config/gateway.toml: defaults.cut_step: must be between 0 and 1, not 1.1"),
        ("[defaults]\ncontext_strategy = ''", "config/gateway.toml: defaults.context_strategy: must be one line of text"),
        (
            "[defaults]\nmessage_shape = 'x'",
            'config/gateway.toml: defaults.message_shape: must be one of "as-is", "merge", "strict"',
        ),
        ("[timeouts]\ntotal_s = 0", "config/gateway.toml: timeouts.total_s: must be more than 0, not 0.0"),
        ("[plugins]\nmodules = ['x']", 'config/gateway.toml: plugins.modules[0]: must be "package.module:function"'),
        ("[recall]\nscorer = 'endpoint'", 'config/gateway.toml: recall.endpoint_model: is needed for scorer "endpoint"'),
        ("[providers.a]", 'config/gateway.toml: providers.a.base_url: is needed for kind "openai"'),
        ("[providers.a]\nkind = 'x'", 'config/gateway.toml: providers.a.kind: must be one of "openai", "litellm"'),
        ("[providers.a]\nbase_url = 'ftp://x'", "config/gateway.toml: providers.a.base_url: must be an http:// or https://"),
        (
            "[providers.a]\napi_key = '${NOPE}'",
            "config/gateway.toml: providers.a.api_key: the environment variable NOPE is not set",
        ),
        (
            "[auth]\nkeys = [{name = 'a', sha256 = 'x'}]",
            "config/gateway.toml: auth.keys[0].sha256: must be 64 hexadecimal digits",
        ),
        ("[auth]\nkeys = [{name = 'a'}]", "config/gateway.toml: auth.keys[0].sha256: is missing"),
        ("[server\n", "config/gateway.toml: line 1: is not TOML"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key(tmp_path: Path, text: str, line: str) -> None:
    assert complaint(tmp_path, text).startswith(line)


def test_one_key_cannot_belong_to_two_names(tmp_path: Path) -> None:
    text = "".join(
        f'[[auth.keys]]\nname = "{name}"\nsha256 = "{digest}"\n' for name, digest in (("a", HASH), ("b", HASH.upper()))
    )
    assert "auth.keys[1].sha256: is the key of another name already" in complaint(tmp_path, text)


def test_one_name_can_have_two_keys(tmp_path: Path) -> None:
    text = "".join(f'[[auth.keys]]\nname = "a"\nsha256 = "{digest}"\n' for digest in (HASH, "cd" * 32))
    assert len(load(tmp_path, text).auth.keys) == 2


def test_references_are_expanded(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from-file\n")
    text = '[providers.a]\nbase_url = "http://${HOST:-127.0.0.1}/v1"\napi_key = "${file:key}"\nquery = { v = "${V}" }'
    provider = load(tmp_path, text, {"V": "2"}).providers["a"]
    assert provider.base_url is not None
    assert (provider.base_url.reveal(), provider.api_key.reveal(), provider.query["v"].reveal()) == (
        "http://127.0.0.1/v1",
        "from-file",
        "2",
    )


def test_the_environment_overrides_the_file_and_says_so(tmp_path: Path) -> None:
    environ = {"SLUICEGATE_SERVER__PORT": "9", "SLUICEGATE_PROVIDERS__OPENAI__API_KEY": "sk-2"}
    settings = load(tmp_path, "[server]\nport = 1\nhost = '::1'", environ)
    assert (settings.server.port, settings.server.host) == (9, "::1")
    assert settings.providers["openai"].api_key.reveal() == "sk-2"
    source = settings.provenance.source
    assert source("server.port") == "environment SLUICEGATE_SERVER__PORT"
    assert source("server.host") == f"file {tmp_path.as_posix()}/gateway.toml"
    assert source("server.allowed_hosts") == source("providers.openai.base_url") == "default"
    assert source("providers.openai.api_key") == "environment SLUICEGATE_PROVIDERS__OPENAI__API_KEY"


def test_a_bad_override_names_the_variable(tmp_path: Path) -> None:
    environ = {"SLUICEGATE_SERVER__PORT": "many", "SLUICEGATE_TIMEOUTS__IDLE_S": "-1"}
    assert complaint(tmp_path, "", environ).splitlines() == [
        "environment: SLUICEGATE_SERVER__PORT: must be a whole number, not text",
        "environment: SLUICEGATE_TIMEOUTS__IDLE_S: must be more than 0, not -1.0",
    ]


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "[::1]", "localhost", "LOCALHOST"])
def test_without_keys_a_loopback_address_is_safe(host: str) -> None:
    require_safe_bind(Settings(server=ServerSettings(host=host)))


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.5", "example.org"])  # noqa: S104 - nothing is bound here
def test_without_keys_any_other_address_is_an_error(host: str) -> None:
    settings = Settings(server=ServerSettings(host=host))
    with pytest.raises(ConfigError, match=r"^gateway\.toml: server\.host: .* no \[\[auth\.keys\]\]"):
        require_safe_bind(settings)
    require_safe_bind(replace(settings, auth=AuthSettings(allow_anonymous=True)))
    require_safe_bind(replace(settings, auth=AuthSettings(keys=(ClientKey("a", Secret(HASH)),))))
