"""The parts are put together from a configuration, opened, swapped when it changes, and closed."""

from __future__ import annotations

import asyncio
import functools
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from gateway import app as app_module
from gateway.app import (
    CONFIG_VARIABLE,
    Configuration,
    Gateway,
    app_from_environment,
    create_app,
    load_configuration,
    make_providers,
)
from gateway.config_watch import ConfigWatch
from gateway.errors import StoreUnavailable
from gateway.providers.base import ProviderConfig, Timeouts
from gateway.stores.base import AuditHead, AuditKey
from gateway.stores.memory import MemoryStore
from gateway.stores.sqlite import SqliteStore
from gateway.toml_tree import ConfigError
from tests.support.doubles import ANSWER, FakeProvider
from tests.support.rooms import chat, fetch, run
from tests.support.running_app import GATEWAY, MODEL, started, write_tree

CHAT = "/v1/chat/completions"


class Made(FakeProvider):
    """A provider that knows what it was made of."""

    def __init__(self, config: ProviderConfig) -> None:
        super().__init__()
        self.config = config


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[Made]:
    """Every provider that the application makes, none of which connects."""
    found: list[Made] = []

    def make(config: ProviderConfig) -> Made:
        found.append(Made(config))
        return found[-1]

    monkeypatch.setitem(app_module.PROVIDER_KINDS, "openai", make)
    return found


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changes are seen at once."""
    monkeypatch.setattr(app_module, "ConfigWatch", functools.partial(ConfigWatch, interval_s=0.01))


def load(folder: Path, **environ: str) -> Configuration:
    return load_configuration(folder, environ)


async def until(holds: Callable[[], bool]) -> None:
    """Waits for something that a background task does."""
    while not holds():  # noqa: ASYNC110  # there is no event to wait for from outside
        await asyncio.sleep(0.005)


def test_a_configuration_is_read_whole(tmp_path: Path) -> None:
    configuration = load(write_tree(tmp_path), SLUICEGATE_SERVER__PORT="1234")
    assert configuration.settings.server.port == 1234
    assert [config.name for config in configuration.models.all()] == ["m"]


@pytest.mark.parametrize(
    ("gateway", "model", "complaint"),
    [
        (GATEWAY + '[defaults]\ncontext_strategy = "nonsense"', MODEL, "gateway.toml: defaults.context_strategy"),
        (GATEWAY, MODEL + 'context_strategy = "nonsense"', "models/m.toml: context_strategy"),
        (GATEWAY, MODEL.replace("approximate", "nonsense"), "models/m.toml: tokenizer"),
        (GATEWAY, MODEL.replace('"up"', '"down"'), "models/m.toml: provider"),
        (GATEWAY + '[plugins]\nmodules = ["a.b:c"]', MODEL, "gateway.toml: plugins.modules"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_by_file_and_key(
    tmp_path: Path, gateway: str, model: str, complaint: str
) -> None:
    with pytest.raises(ConfigError, match=complaint.replace(".", r"\.")):
        load(write_tree(tmp_path, gateway, m=model))


@pytest.mark.parametrize("url", ["mysql://user:hush@host/db", "postgresql://user:hush@[host/db", "memory:/path", "sqlite://"])
def test_a_store_that_nobody_has_is_refused_by_file_and_key(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match=r"gateway\.toml: store\.url") as caught:
        Gateway(load(write_tree(tmp_path, GATEWAY.replace("memory:", url))))
    assert "hush" not in str(caught.value)


def test_providers_are_made_of_what_is_configured(tmp_path: Path, made: list[Made]) -> None:
    text = GATEWAY + (
        'api_key = "sk-1"\nheaders = { "x-a" = "b" }\nquery = { c = "d" }\n[providers.other]\nbase_url = "http://127.0.0.1:9/"\n'
        "[timeouts]\nconnect_s = 1\nfirst_token_s = 2\nidle_s = 3\ntotal_s = 4.5\n"
    )
    providers = make_providers(load(write_tree(tmp_path, text)).settings)
    timeouts = Timeouts(1, 2, 3, 4.5)
    assert list(providers.values()) == made
    assert {name: provider.config for name, provider in zip(providers, made, strict=True)} == {
        "up": ProviderConfig("up", "http://127.0.0.1:9/v1", "sk-1", {"x-a": "b"}, {"c": "d"}, timeouts),
        "other": ProviderConfig("other", "http://127.0.0.1:9/", None, {}, {}, timeouts),
    }


def test_a_gateway_answers_from_its_start_to_its_end(tmp_path: Path, made: list[Made]) -> None:
    async def story() -> None:
        app = create_app(load(write_tree(tmp_path)))
        async with started(app):
            assert (await fetch(app, "GET", "/readyz")).json()["configuration"] == "ok"
            assert (await fetch(app, "POST", CHAT, chat())).content == ANSWER
        assert made[0].closed == 1
        assert (await fetch(app, "POST", CHAT, chat())).status_code == 503

    run(story())


def test_draining_takes_no_new_work(tmp_path: Path, made: list[Made]) -> None:
    async def story() -> None:
        app = create_app(load(write_tree(tmp_path)))
        async with started(app) as state:
            state["drain"]()
            assert (await fetch(app, "POST", CHAT, chat())).json()["error"]["code"] == "SHUTTING_DOWN"
            assert (await fetch(app, "GET", "/readyz")).status_code == 503

    run(story())


@pytest.mark.parametrize("ends", [True, False])
def test_the_end_waits_for_open_audits_for_a_while(
    tmp_path: Path, made: list[Made], monkeypatch: pytest.MonkeyPatch, ends: bool
) -> None:
    monkeypatch.setattr(app_module, "DRAIN_S", 5.0 if ends else 0.01)

    async def story() -> int:
        app = create_app(load(write_tree(tmp_path)))
        async with started(app):
            made[0].hold = asyncio.Event()
            asking = asyncio.create_task(fetch(app, "POST", CHAT, chat()))
            await until(lambda: bool(made[0].sent))
            asyncio.get_running_loop().call_later(0.05, made[0].hold.set)
        return (await asking).status_code

    assert run(story()) == 200


def test_the_tokenizers_of_models_are_loaded_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[str, str]] = []

    async def ready(self: Any, config: Any, upstream_model: str) -> None:
        asked.append((config.name, upstream_model))

    monkeypatch.setattr(app_module.PromptCounting, "ready_profile", ready)

    async def story() -> None:
        tree = write_tree(tmp_path, a=MODEL.replace('"m"', '"a"') + 'upstream_model = "a-1"', _default='provider = "up"', m=MODEL)
        async with started(create_app(load(tree))):
            await until(lambda: len(asked) == 2)

    run(story())
    assert asked == [("a", "a-1"), ("m", "m")]


def head(chat_id: str, age_days: float) -> AuditHead:
    return AuditHead(AuditKey("", chat_id, chat_id), "m", time.time() - age_days * 86400, b"{}")


def test_old_audits_are_forgotten(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path / 'audits.db'}"

    async def story() -> None:
        store = SqliteStore.from_url(url)
        await store.open()
        for chat_id, age_days in (("old", 31.0), ("young", 29.0)):
            await store.replace(head(chat_id, age_days), b"{}")
        await store.aclose()
        gateway = Gateway(load(write_tree(tmp_path / "config", GATEWAY.replace("memory:", url))))
        async with started(gateway.app):
            found = gateway.rooms.store
            while await found.latest("", "old") is not None:  # noqa: ASYNC110  # nothing says when
                await asyncio.sleep(0.005)
            assert await found.latest("", "young") is not None

    run(story())


def test_a_store_that_cannot_forget_now_is_asked_again_later(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Forgetful(MemoryStore):
        asked = 0

        async def purge(self, before: float) -> int:
            self.asked += 1
            raise StoreUnavailable("busy")

    store = Forgetful()
    monkeypatch.setattr(app_module, "open_store", lambda url: store)
    monkeypatch.setattr(app_module, "PURGE_EVERY_S", 0.001)

    async def story() -> None:
        async with started(create_app(load(write_tree(tmp_path)))):
            await until(lambda: store.asked > 2)

    run(story())


def test_a_changed_configuration_is_swapped_in_and_what_was_is_closed(tmp_path: Path, made: list[Made]) -> None:
    async def story() -> None:
        gateway = Gateway(load(write_tree(tmp_path, GATEWAY + "[timeouts]\ntotal_s = 0.01\n")), tmp_path)
        async with started(gateway.app):
            before = gateway.rooms.engine
            write_tree(tmp_path, m=MODEL, n=MODEL.replace('"m"', '"n"'))
            await until(lambda: gateway.rooms.engine is not before)
            answer = await fetch(gateway.app, "POST", CHAT, chat(model="n"))
            assert answer.status_code == 200
            await until(lambda: made[0].closed == 1)
            assert (len(made), made[1].closed) == (2, 0)
        assert [provider.closed for provider in made] == [1, 1]

    run(story())


def test_a_request_under_way_ends_with_what_it_started_with(tmp_path: Path, made: list[Made]) -> None:
    async def story() -> int:
        gateway = Gateway(load(write_tree(tmp_path)), tmp_path)
        async with started(gateway.app):
            made[0].hold = asyncio.Event()
            asking = asyncio.create_task(fetch(gateway.app, "POST", CHAT, chat()))
            await until(lambda: bool(made[0].sent))
            before = gateway.rooms.engine
            write_tree(tmp_path, m=MODEL + "max_output = 5")
            await until(lambda: gateway.rooms.engine is not before)
            assert made[0].closed == 0
            made[0].hold.set()
            return (await asking).status_code

    assert run(story()) == 200


def test_a_stop_right_after_a_swap_closes_both(tmp_path: Path, made: list[Made]) -> None:
    async def story() -> None:
        gateway = Gateway(load(write_tree(tmp_path)), tmp_path)
        async with started(gateway.app):
            before = gateway.rooms.engine
            write_tree(tmp_path, m=MODEL + "max_output = 5")
            await until(lambda: gateway.rooms.engine is not before)
        assert [provider.closed for provider in made] == [1, 1]

    run(story())


def test_a_broken_configuration_keeps_the_old_one_and_says_so(tmp_path: Path, made: list[Made]) -> None:
    async def story() -> None:
        gateway = Gateway(load(write_tree(tmp_path)), tmp_path)
        async with started(gateway.app):
            before = gateway.rooms.engine
            write_tree(tmp_path, GATEWAY + "[server]\nport = 'x'\n")
            await until(lambda: gateway.rooms.problem() is not None)
            told = (await fetch(gateway.app, "GET", "/readyz")).json()
            assert "server.port" in told["configuration"]
            assert gateway.rooms.engine is before

    run(story())


def test_what_changes_only_with_a_restart_is_said(tmp_path: Path, made: list[Made], caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        gateway = Gateway(load(write_tree(tmp_path)), tmp_path)
        async with started(gateway.app):
            before = gateway.rooms.engine
            write_tree(tmp_path, GATEWAY + "[server]\nport = 1\n")
            await until(lambda: gateway.rooms.engine is not before)

    run(story())
    assert "change only with a restart" in caplog.text


def test_a_reload_never_opens_a_gateway_that_everybody_can_reach(tmp_path: Path, made: list[Made]) -> None:
    server = '[server]\nhost = "10.0.0.5"\n'
    keys = f'[[auth.keys]]\nname = "team"\nsha256 = "{"ab" * 32}"\n'

    async def story() -> int:
        gateway = Gateway(load(write_tree(tmp_path, GATEWAY + server + keys)), tmp_path)
        async with started(gateway.app):
            before = gateway.rooms.engine
            write_tree(tmp_path, GATEWAY + server)
            await until(lambda: gateway.rooms.engine is not before or gateway.rooms.problem() is not None)
            return (await fetch(gateway.app, "POST", CHAT, chat())).status_code

    assert run(story()) == 401


def test_pages_of_other_origins_may_ask_and_read_the_headers(tmp_path: Path, made: list[Made]) -> None:
    origin = "http://page.example"

    async def story() -> tuple[Any, Any]:
        app = create_app(load(write_tree(tmp_path, GATEWAY + f'[server]\ncors_origins = ["{origin}"]\n')))
        wanted = {"origin": origin, "access-control-request-method": "POST", "access-control-request-headers": "authorization"}
        async with started(app):
            return await fetch(app, "OPTIONS", CHAT, headers=wanted), await fetch(app, "POST", CHAT, chat(), {"origin": origin})

    preflight, answer = run(story())
    assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (200, origin)
    assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (200, origin)
    exposed = {name.strip().lower() for name in answer.headers["access-control-expose-headers"].split(",")}
    told = {name for name in answer.headers if name.startswith(("x-context-", "x-request-id"))}
    assert (told | {"x-should-retry", "retry-after"}) - exposed == set()


def test_without_origins_no_other_page_may(tmp_path: Path, made: list[Made]) -> None:
    async def story() -> Any:
        app = create_app(load(write_tree(tmp_path)))
        async with started(app):
            return await fetch(app, "POST", CHAT, chat(), {"origin": "http://page.example"})

    assert "access-control-allow-origin" not in run(story()).headers


@pytest.mark.parametrize("gateway", [GATEWAY + '[server]\nhost = "10.0.0.5"\n', GATEWAY + "[server]\nprot = 1\n"])
def test_a_worker_never_starts_with_what_the_first_would_have_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, gateway: str
) -> None:
    monkeypatch.setenv(CONFIG_VARIABLE, str(write_tree(tmp_path, gateway)))
    with pytest.raises(SystemExit) as caught:
        app_from_environment()
    assert caught.value.code == 1
    assert "gateway.toml: server." in caplog.text


def test_a_worker_learns_its_configuration_from_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CONFIG_VARIABLE, str(write_tree(tmp_path)))

    async def story() -> None:
        app = app_from_environment()
        async with started(app):
            assert (await fetch(app, "GET", "/healthz")).status_code == 200

    run(story())
    assert os.environ[CONFIG_VARIABLE] == str(tmp_path)


def test_a_start_loads_nothing_that_no_configured_model_needs(tmp_path: Path) -> None:
    tree = write_tree(tmp_path, m=MODEL)
    code = (
        "import sys; from pathlib import Path; from gateway.app import Gateway, load_configuration;"
        f"Gateway(load_configuration(Path({str(tree)!r}), {{}}));"
        "heavy = {'tiktoken', 'tokenizers', 'transformers', 'jinja2', 'numpy', 'litellm', 'mistral_common', 'sentencex', 'gguf'};"
        "print(sorted(heavy & sys.modules.keys()))"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)  # noqa: S603  # ours
    assert told.stdout == "[]\n"
