"""One file per model, defaults filled in, and which model answers for which name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from gateway import model_catalog
from gateway.errors import ModelNotFound
from gateway.model_catalog import Limits, ModelCatalog, PromptAssets, effective_limits, require_known
from gateway.published_limits import PublishedLimits
from gateway.settings import Settings, load_settings
from gateway.toml_tree import ConfigError

PROVIDERS = '[providers.p]\nbase_url = "http://127.0.0.1:1/v1"\n'


def load(
    tmp_path: Path, files: Mapping[str, str], gateway: str = "", environ: Mapping[str, str] | None = None
) -> tuple[Settings, ModelCatalog]:
    (tmp_path / "models").mkdir(exist_ok=True)
    (tmp_path / "gateway.toml").write_text(PROVIDERS + gateway)
    for name, text in files.items():
        (tmp_path / "models" / f"{name}.toml").write_text(text)
    settings = load_settings(tmp_path, {})
    return settings, ModelCatalog.load(tmp_path, settings, environ or {})


def catalog(tmp_path: Path, files: Mapping[str, str], gateway: str = "") -> ModelCatalog:
    return load(tmp_path, files, gateway)[1]


def complaint(tmp_path: Path, files: Mapping[str, str]) -> str:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, files)
    return str(caught.value).replace(tmp_path.as_posix(), "config")


def model(name: str, more: str = "") -> str:
    return f'model = "{name}"\nprovider = "p"\n{more}'


def test_a_model_needs_a_name_and_a_provider_only(tmp_path: Path) -> None:
    config = catalog(tmp_path, {"a": model("m")}).resolve("m")
    assert (config.model, config.name, config.provider, config.tokenizer) == ("m", "m", "p", "auto")
    assert (config.upstream_model, config.context_limit, config.max_output, config.prompt) == (None, None, None, None)
    assert (config.context_strategy, config.reply_reserve, config.cut_step) == ("truncate", 1024, 0.125)
    assert (config.safety_margin, config.message_shape, config.aliases, config.fallbacks) == (0.05, "as-is", (), ())
    assert config.upstream_name("asked") == "asked"


def test_a_file_says_everything_about_its_model(tmp_path: Path) -> None:
    text = model(
        "m",
        """
        aliases = ["m-*", "m-*"]
        upstream_model = "real"
        context_limit = 8000
        max_output = -1
        reply_reserve = 5000
        tokenizer = "hf:tokenizers/mini"
        context_strategy = "manual"
        cut_step = 0
        safety_margin = 1
        message_shape = "strict"
        fallbacks = ["n"]
        [prompt]
        character = "characters/guide.json"
        lorebooks = ["lorebooks/realm.json"]
        """,
    )
    config = catalog(tmp_path, {"a": text, "b": model("n")}).resolve("m")
    assert (config.aliases, config.upstream_name("asked"), config.context_limit, config.max_output) == (
        ("m-*",),
        "real",
        8000,
        None,
    )
    assert (config.tokenizer, config.context_strategy, config.cut_step) == ("hf:tokenizers/mini", "manual", 0.0)
    assert (config.safety_margin, config.message_shape, config.fallbacks) == (1.0, "strict", ("n",))
    assert config.prompt == PromptAssets("characters/guide.json", None, ("lorebooks/realm.json",), "default")
    assert set(config.sources.values()) == {f"file {config.file}"}


def test_every_value_says_where_it_came_from(tmp_path: Path) -> None:
    config = catalog(tmp_path, {"a": model("m", "cut_step = 0.5")}, "[defaults]\nreply_reserve = 100").resolve("m")
    assert config.sources["cut_step"] == config.sources["provider"] == f"file {tmp_path.as_posix()}/models/a.toml"
    assert config.sources["reply_reserve"] == f"file {tmp_path.as_posix()}/gateway.toml"
    assert config.sources["safety_margin"] == config.sources["tokenizer"] == "default"


def test_references_are_expanded_in_model_files(tmp_path: Path) -> None:
    _, models = load(tmp_path, {"a": model("m", 'upstream_model = "${DEPLOYMENT}"')}, environ={"DEPLOYMENT": "d-1"})
    assert models.resolve("m").upstream_model == "d-1"


def test_the_process_environment_counts_when_no_other_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings, _ = load(tmp_path, {})
    (tmp_path / "models" / "a.toml").write_text(model("${MODEL_NAME}"))
    monkeypatch.setenv("MODEL_NAME", "m")
    assert ModelCatalog.load(tmp_path, settings).resolve("m").model == "m"


def test_a_default_reserve_is_at_most_a_quarter_of_the_limit(tmp_path: Path) -> None:
    models = catalog(tmp_path, {"a": model("m"), "b": model("n", "reply_reserve = 1024")})
    assert [models.resolve("m").reserve_within(limit) for limit in (8192, 2000, 3)] == [1024, 500, 1]
    assert models.resolve("n").reserve_within(2000) == 1024


def test_the_exact_name_wins_then_the_most_specific_alias_then_the_default(tmp_path: Path) -> None:
    files = {
        "a": model("gpt-4o", 'aliases = ["gpt-4o-*", "*"]'),
        "b": model("gpt-4o-mini", 'aliases = ["gpt-4o-mini-*", "gpt-4?"]'),
        "c": model("gpt-4", 'aliases = ["gpt-*", "gpt-4*", "gpt-4o-fixed", "gpt-[45]"]'),
    }
    models = catalog(tmp_path, files)
    asked = {
        "gpt-4o": "gpt-4o",
        "gpt-4o-mini": "gpt-4o-mini",
        "gpt-4o-2024": "gpt-4o",
        "gpt-4o-mini-2024": "gpt-4o-mini",
        "gpt-4o-fixed": "gpt-4",
        "gpt-4x": "gpt-4o-mini",
        "gpt-4xy": "gpt-4",
        "gpt-5": "gpt-4",
        "llama": "gpt-4o",
        "GPT-4o": "gpt-4o",
    }
    assert {name: models.resolve(name).model for name in asked} == asked
    assert [config.model for config in models.models()] == ["gpt-4", "gpt-4o", "gpt-4o-mini"]


def test_the_default_file_answers_for_every_other_name(tmp_path: Path) -> None:
    models = catalog(tmp_path, {"_default": 'provider = "p"', "a": model("m")})
    config = models.resolve("../../etc/passwd")
    assert (config.model, config.name) == (None, "_default")
    assert config is models.default
    assert [config.name for config in models.models()] == ["m"]
    assert [config.name for config in models.all()] == ["m", "_default"]


def test_without_a_default_an_unknown_name_is_an_error_that_does_not_echo_it(tmp_path: Path) -> None:
    models = catalog(tmp_path, {"a": model("m")})
    with pytest.raises(ModelNotFound) as caught:
        models.resolve("\x1b[31m<script>\n" + "x" * 10_000)
    assert "\x1b" not in caught.value.message
    assert "\n" not in caught.value.message
    assert len(caught.value.message) < 200
    assert caught.value.param == "model"


@pytest.mark.parametrize("name", ["M", "m ", "m\n", "", "models/m", "m.toml"])
def test_only_the_name_itself_is_the_name(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelNotFound):
        catalog(tmp_path, {"a": model("m")}).resolve(name)


@pytest.mark.parametrize(
    ("files", "line"),
    [
        ({"a": model("m"), "b": model("m")}, "config/models/b.toml: model: 'm' is the model of config/models/a.toml already"),
        (
            {"a": model("m", 'aliases = ["x"]'), "b": model("n", 'aliases = ["y", "x"]')},
            "config/models/b.toml: aliases: 'x' is an alias in config/models/a.toml already",
        ),
        ({"a": 'provider = "p"'}, "config/models/a.toml: model: is missing"),
        ({"_default": model("m")}, "config/models/_default.toml: model: _default.toml answers for every other name"),
        ({"a": 'model = "m"'}, "config/models/a.toml: provider: is missing"),
        ({"a": 'model = "m"\nprovider = "q"'}, "config/models/a.toml: provider: there is no provider 'q'; nearest is \"p\""),
        (
            {"a": model("m", 'fallbacks = ["n"]')},
            "config/models/a.toml: fallbacks[0]: there is no other model 'n'; known are none",
        ),
        ({"a": model("m", 'fallbacks = ["m"]')}, "config/models/a.toml: fallbacks[0]: there is no other model 'm'"),
        ({"a": model("m", "max_output = 0")}, "config/models/a.toml: max_output: must be 1 or more (or -1 for none), not 0"),
        ({"a": model("m", "context_limit = 0")}, "config/models/a.toml: context_limit: must be 1 or more, not 0"),
        (
            {"a": model("m", "context_limt = 1")},
            'config/models/a.toml: context_limt: unknown key; the nearest known one is "context_limit"',
        ),
        (
            {"a": model("m", "[prompt]\npersonna = 'x'")},
            'config/models/a.toml: prompt.personna: unknown key; the nearest known one is "persona"',
        ),
        ({"a": model("m", 'tokenizer = "${NOPE}"')}, "config/models/a.toml: tokenizer: the environment variable NOPE is not set"),
        ({"a": model("a\\nb")}, "config/models/a.toml: model: must be one line of 1 to 256 characters"),
        ({"a": "="}, "config/models/a.toml: line 1: is not TOML"),
    ],
)
def test_what_is_wrong_is_said_with_file_and_key(tmp_path: Path, files: Mapping[str, str], line: str) -> None:
    assert complaint(tmp_path, files).startswith(line)


def test_the_problems_of_all_files_come_together(tmp_path: Path) -> None:
    lines = complaint(tmp_path, {"a": model("m", "cut_step = 2"), "b": "model = 3\nprovider = 'p'"}).splitlines()
    assert [line.split(": ")[:2] for line in lines] == [["config/models/a.toml", "cut_step"], ["config/models/b.toml", "model"]]


def test_hidden_files_and_other_files_are_not_models(tmp_path: Path) -> None:
    models = catalog(tmp_path, {".a": "=", "a": model("m")})
    (tmp_path / "models" / "notes.md").write_text("=")
    assert [config.name for config in models.models()] == ["m"]


def test_no_models_folder_is_no_models(tmp_path: Path) -> None:
    assert ModelCatalog.load(tmp_path, load_settings(tmp_path, {}), {}).all() == []


def test_limits_come_from_the_file_then_the_upstream_then_the_catalogue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        model_catalog, "published_limits", {"m": PublishedLimits(100, 10), "real": PublishedLimits(200, None)}.get
    )
    files = {
        "a": model("m"),
        "b": model("n", "context_limit = 50\nmax_output = 5"),
        "c": model("o", 'upstream_model = "real"\nmax_output = 7'),
        "_default": 'provider = "p"',
    }
    models = catalog(tmp_path, files)
    file = f"file {tmp_path.as_posix()}/models/b.toml"
    assert effective_limits(models.resolve("n"), 999) == Limits(50, 5, file)
    assert effective_limits(models.resolve("m"), 70) == Limits(70, None, "upstream")
    assert effective_limits(models.resolve("m"), 0) == Limits(100, 10, "catalogue")
    assert effective_limits(models.resolve("o"), None) == Limits(200, 7, "catalogue")
    assert effective_limits(models.resolve("other"), None, "m") == Limits(100, 10, "catalogue")


def test_a_limit_nobody_names_is_assumed_with_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model_catalog, "published_limits", lambda name: None)
    limits = effective_limits(catalog(tmp_path, {"a": model("m")}).resolve("m"), None)
    assert (limits.context_limit, limits.max_output, limits.source) == (8192, None, "default")
    assert limits.warning is not None
    assert "a.toml: context_limit: neither the file, the upstream nor the catalogue names one for 'm'; 8192" in limits.warning


PROFILES = ("auto", "o200k_base", "remote", "hf:", "gguf:")


def known(tmp_path: Path, files: Mapping[str, str], gateway: str = "", providers: tuple[str, ...] = ("p",)) -> None:
    settings, models = load(tmp_path, files, gateway)
    require_known(settings, models, strategies=("truncate", "manual"), profiles=PROFILES, providers=providers)


@pytest.mark.parametrize("tokenizer", ["auto", "remote", "o200k_base", "hf:tokenizers/mini", "gguf:m.gguf"])
def test_known_names_pass(tmp_path: Path, tokenizer: str) -> None:
    (tmp_path / "tokenizers" / "mini").mkdir(parents=True)
    (tmp_path / "m.gguf").touch()
    known(tmp_path, {"a": model("m", f'tokenizer = "{tokenizer}"\ncontext_strategy = "manual"')})


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            'context_strategy = "trunkate"',
            "models/a.toml: context_strategy: there is no strategy 'trunkate'; nearest is \"truncate\"; known",
        ),
        ('tokenizer = "o200k"', "models/a.toml: tokenizer: there is no tokenizer profile 'o200k'; nearest is \"o200k_base\""),
        ('tokenizer = "hf:"', "models/a.toml: tokenizer: there is no tokenizer profile 'hf:'"),
        ('tokenizer = "o200k_base:x"', "models/a.toml: tokenizer: there is no tokenizer profile 'o200k_base:x'"),
        ('tokenizer = "hf:tok/max"', "models/a.toml: tokenizer: there is no tok/max in the configuration directory"),
    ],
)
def test_unknown_names_are_errors_that_list_the_known_ones(tmp_path: Path, text: str, line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        known(tmp_path, {"a": model("m", text)})
    assert line in str(caught.value)


def test_an_unknown_default_strategy_is_reported_once(tmp_path: Path) -> None:
    with pytest.raises(ConfigError) as caught:
        known(tmp_path, {"a": model("m"), "b": model("n")}, '[defaults]\ncontext_strategy = "x"', ())
    assert [(Path(problem.file).name, problem.key) for problem in caught.value.problems] == [
        ("gateway.toml", "defaults.context_strategy"),
        ("a.toml", "provider"),
        ("b.toml", "provider"),
    ]


LIBRARY = '[providers.any]\nkind = "litellm"\n[providers.one]\nkind = "litellm"\nbase_url = "http://127.0.0.1:1"\n'
OPEN = {"_default": 'provider = "{}"', "a": 'model = "a"\naliases = ["x-*"]\nprovider = "{}"'}


@pytest.mark.parametrize("name", sorted(OPEN))
def test_a_client_can_not_choose_by_a_models_name_who_gets_the_key(tmp_path: Path, name: str) -> None:
    text = OPEN[name]
    with pytest.raises(ConfigError, match=rf"{name}.toml: upstream_model: is needed"):
        load(tmp_path, {name: text.format("any")}, LIBRARY)
    load(tmp_path, {name: text.format("one")}, LIBRARY)
    load(tmp_path, {name: text.format("any") + '\nupstream_model = "anthropic/claude"'}, LIBRARY)
    load(tmp_path, {"a": 'model = "anthropic/claude"\naliases = ["claude"]\nprovider = "any"'}, LIBRARY)
