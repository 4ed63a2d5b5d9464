"""The effective configuration as lines, without its secrets."""

from __future__ import annotations

from pathlib import Path

from gateway.config_listing import describe, describe_lessons
from gateway.learned import Learned, Lesson
from gateway.model_catalog import ModelCatalog
from gateway.settings import load_settings

HASH = "ab" * 32

GATEWAY = f"""
[[auth.keys]]
name = "team-a"
sha256 = "{HASH}"
[server]
port = 1
[store]
url = "postgresql://user:hush@host/db"
[providers.p]
base_url = "http://user:hush@127.0.0.1:1/v1"
api_key = "hush"
headers = {{ "x-key" = "hush" }}
[providers.q]
kind = "litellm"
"""


def listed(tmp_path: Path) -> dict[str, tuple[str, str]]:
    (tmp_path / "models").mkdir()
    (tmp_path / "gateway.toml").write_text(GATEWAY)
    (tmp_path / "models" / "a.toml").write_text('model = "no-such-model"\nprovider = "p"\n[prompt]\npersona = "me.toml"')
    (tmp_path / "models" / "b.toml").write_text('model = "gpt-4o"\nprovider = "p"')
    (tmp_path / "models" / "_default.toml").write_text('provider = "p"\nmax_output = 5')
    settings = load_settings(tmp_path, {"SLUICEGATE_SERVER__PORT": "2"})
    lines = describe(settings, ModelCatalog.load(tmp_path, settings, {}), {"no-such-model": 2000})
    assert len({key for key, _, _ in lines}) == len(lines)
    root = tmp_path.as_posix() + "/"
    return {key: (value, source.replace(root, "")) for key, value, source in lines}


def test_every_key_has_its_value_and_its_source(tmp_path: Path) -> None:
    lines = listed(tmp_path)
    assert lines["server.port"] == ("2", "environment SLUICEGATE_SERVER__PORT")
    assert lines["server.cors_origins"] == ("[]", "default")
    assert lines["auth.keys[0].name"] == ('"team-a"', "file gateway.toml")
    assert lines["auth.allow_anonymous"] == ("false", "default")
    assert lines["recall.endpoint_model"] == ("not set", "default")
    assert lines["providers.q.base_url"] == ("not set", "default")
    assert lines["providers.q.headers"] == ("{}", "default")


def test_limits_say_who_named_them(tmp_path: Path) -> None:
    lines = listed(tmp_path)
    assert lines["models.no-such-model.context_limit"] == ("2000", "upstream")
    assert lines["models.no-such-model.reply_reserve"] == ("500", "default")
    assert lines["models.no-such-model.prompt.persona"] == ('"me.toml"', "file models/a.toml")
    assert lines["models.gpt-4o.context_limit"] == ("128000", "catalogue")
    assert lines["models.gpt-4o.max_output"] == ("16384", "catalogue")
    assert lines["models._default.context_limit"] == ("8192", "default")
    assert lines["models._default.max_output"] == ("5", "file models/_default.toml")


def test_secrets_stay_hidden(tmp_path: Path) -> None:
    lines = listed(tmp_path)
    assert lines["providers.p.api_key"] == lines["providers.p.headers.x-key"] == ("***", "file gateway.toml")
    assert lines["providers.p.base_url"][0] == "http://***@127.0.0.1:1/v1"
    assert lines["auth.keys[0].sha256"][0] == "***"
    assert "hush" not in str(lines)
    assert HASH not in str(lines)


def test_lessons_are_listed_with_what_they_hold_their_account_and_their_end() -> None:
    lessons = [Lesson("p", "m", "0a1b", Learned(4096, 18), 1_800_000_000.0), Lesson("p", "n", "ffff", Learned(None, 20), 0.5)]
    assert describe_lessons(lessons) == [
        ("learned.p.m.context_limit", "4096", "overflow, account 0a1b, until 2027-01-15T08:00:00Z"),
        ("learned.p.m.counting_factor", "1.125", "overflow, account 0a1b, until 2027-01-15T08:00:00Z"),
        ("learned.p.n.counting_factor", "1.25", "overflow, account ffff, until 1970-01-01T00:00:00Z"),
    ]
