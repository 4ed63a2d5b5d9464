"""Who may use the gateway, who sees what, and whose key goes where."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

import openai
import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.errors import checked_answer
from tests.scenarios.loopback.running_gateway import RunningGateway, run_command, write_config
from tests.scenarios.loopback.upstream import Upstream
from tests.scenarios.loopback.waiting import until

SHORT = [{"role": "user", "content": "Name three rivers."}]
KEYS = {"team-a": "sg-key-of-team-a", "team-b": "sg-key-of-team-b"}


def keys_in_config(*named: tuple[str, str]) -> str:
    """Keys as they stand in the configuration."""
    entries = [f'[[auth.keys]]\nname = "{name}"\nsha256 = "{hashlib.sha256(key.encode()).hexdigest()}"' for name, key in named]
    return "\n".join(entries)


@pytest.fixture(scope="module")
def guarded(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway with the keys of two teams, whose provider gets what the client sends."""
    folder = tmp_path_factory.mktemp("guarded")
    write_config(folder, upstream.url, provider='api_key = "passthrough"', more=keys_in_config(*KEYS.items()))
    with RunningGateway(folder) as running:
        yield running
    running.require_clean_log()
    log = running.log.read_text()
    assert not [key for key in KEYS.values() if key in log]


def bearer(team: str) -> dict[str, str]:
    """The header of a team."""
    return {"authorization": f"Bearer {KEYS[team]}"}


@pytest.mark.parametrize("key", ["wrong", "sg-key-of-team-a2", "SG-KEY-OF-TEAM-A", "ключ"])
def test_a_wrong_key_opens_nothing(guarded: RunningGateway, upstream: Upstream, key: str) -> None:
    script = upstream.script(replies.plain())
    body = {"model": script.model, "messages": SHORT}
    response = guarded.http.post("/v1/chat/completions", json=body, headers={"api-key": key.encode()})
    error = checked_answer(response.status_code, response.headers, response.json())
    assert (response.status_code, error["code"]) == (401, "UNAUTHORIZED")
    assert key not in response.text
    assert script.calls == []


def test_the_official_client_raises_for_a_wrong_key(guarded: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.plain())
    with guarded.openai(api_key="wrong", max_retries=2) as client, pytest.raises(openai.AuthenticationError) as caught:
        client.chat.completions.create(model=script.model, messages=SHORT)
    assert caught.value.code == "UNAUTHORIZED"
    assert script.calls == []


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1/models"),
        ("GET", "/v1/models/small"),
        ("POST", "/chat/completions"),
        ("POST", "/api/v2/context-preview"),
        ("GET", "/api/v2/chats"),
        ("GET", "/api/v2/chats/c"),
        ("GET", "/api/v2/chats/c/context-audit"),
        ("GET", "/api/v2/chats/c/context-audit/blocks"),
        ("DELETE", "/api/v2/chats/c"),
        ("POST", "/v1/embeddings"),
        ("GET", "/v1/files"),
        ("GET", "/openapi.json"),
        ("GET", "/metrics"),
        ("GET", "/no/such/path"),
    ],
)
def test_nothing_is_open_without_a_key(guarded: RunningGateway, method: str, path: str) -> None:
    assert guarded.http.request(method, path).status_code == 401


def test_health_is_open(guarded: RunningGateway) -> None:
    assert guarded.http.get("/healthz").status_code == guarded.http.get("/readyz").status_code == 200


@pytest.mark.parametrize("header", ["authorization", "api-key", "x-sluicegate-key"])
def test_the_right_key_works_in_every_place(guarded: RunningGateway, upstream: Upstream, header: str) -> None:
    script = upstream.script(replies.plain())
    value = f"Bearer {KEYS['team-a']}" if header == "authorization" else KEYS["team-a"]
    response = guarded.http.post("/v1/chat/completions", json={"model": script.model, "messages": SHORT}, headers={header: value})
    assert response.status_code == 200
    assert KEYS["team-a"] not in str(script.arrival().headers)


def test_the_clients_own_provider_key_is_passed_on(guarded: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.plain(), then=(replies.refusal(401),))
    own = {"x-sluicegate-key": KEYS["team-a"], "authorization": "Bearer sk-own"}
    body = {"model": script.model, "messages": SHORT}
    assert guarded.http.post("/v1/chat/completions", json=body, headers=own).status_code == 200
    assert script.arrival().headers["authorization"] == "Bearer sk-own"
    refused = guarded.http.post("/v1/chat/completions", json=body, headers=own)
    assert (refused.status_code, refused.json()["error"]["code"]) == (401, "PROVIDER_AUTH")


def test_tenants_do_not_see_each_others_chats(guarded: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    scripts = {team: upstream.script(replies.plain()) for team in KEYS}
    first, second = KEYS

    def ask(team: str) -> str:
        body = {"model": scripts[team].model, "messages": SHORT, "contextShift": {"chatId": chat_id}}
        response = guarded.http.post("/v1/chat/completions", json=body, headers=bearer(team))
        return response.headers["x-context-generation-id"]

    generation = ask(first)
    assert guarded.audit(chat_id, **bearer(second)) is None
    assert guarded.audit(generation, **bearer(second)) is None
    assert guarded.http.delete(f"/api/v2/chats/{chat_id}", headers=bearer(second)).status_code == 404
    other = ask(second)
    seen = {team: guarded.audit(chat_id, **bearer(team)) for team in KEYS}
    assert {team: audit and (audit["generationId"], audit["tenant"]) for team, audit in seen.items()} == {
        first: (generation, first),
        second: (other, second),
    }
    assert guarded.http.delete(f"/api/v2/chats/{chat_id}", headers=bearer(first)).status_code == 204
    assert guarded.audit(chat_id, **bearer(first)) is None
    assert guarded.audit(chat_id, **bearer(second)) is not None


@pytest.mark.parametrize("path", ["", "/context-audit", "/context-audit?view=summary", "/context-audit/blocks"])
def test_what_belongs_to_another_is_not_there(guarded: RunningGateway, upstream: Upstream, chat_id: str, path: str) -> None:
    script = upstream.script(replies.plain())
    body = {"model": script.model, "messages": SHORT, "contextShift": {"chatId": chat_id}}
    guarded.http.post("/v1/chat/completions", json=body, headers=bearer("team-a"))
    url = f"/api/v2/chats/{chat_id}{path}"
    assert guarded.http.get(url, headers=bearer("team-a")).status_code == 200
    answer = guarded.http.get(url, headers=bearer("team-b"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "CHAT_NOT_FOUND")
    never_there = guarded.http.get(url.replace(chat_id, "never-there"), headers=bearer("team-b"))
    assert answer.content == never_there.content


def test_a_list_holds_the_tenants_own_chats_whatever_page_is_asked_for(
    guarded: RunningGateway, upstream: Upstream, chat_id: str
) -> None:
    script = upstream.script(replies.plain())
    for team in (*KEYS, *KEYS):
        for number in range(2):
            named = {"chatId": f"{chat_id}-{team}-{number}"}
            body = {"model": script.model, "messages": SHORT, "contextShift": named}
            assert guarded.http.post("/v1/chat/completions", json=body, headers=bearer(team)).status_code == 200
    first = guarded.http.get("/api/v2/chats?limit=1", headers=bearer("team-a")).json()
    for query in ("", f"?before={first['nextBefore']}"):
        found = guarded.http.get(f"/api/v2/chats{query}", headers=bearer("team-b")).json()["chats"]
        assert {chat["id"] for chat in found} & {f"{chat_id}-team-{team}-{n}" for team in "ab" for n in (0, 1)} <= {
            f"{chat_id}-team-b-0",
            f"{chat_id}-team-b-1",
        }
    assert first["chats"][0]["id"] == f"{chat_id}-team-a-1"


def test_a_preview_is_a_tenants_own_and_leaves_nothing(guarded: RunningGateway, chat_id: str) -> None:
    body = {"model": "small", "messages": SHORT, "contextShift": {"chatId": chat_id}}
    assert guarded.http.post("/api/v2/context-preview", json=body, headers=bearer("team-a")).status_code == 200
    assert guarded.audit(chat_id, **bearer("team-a")) is None


DIGEST = hashlib.sha256(KEYS["team-a"].encode()).hexdigest()


@pytest.mark.parametrize("wrong", ["", DIGEST, f"sha256:{DIGEST}", "team-a", "a" * 60_000])
@pytest.mark.parametrize("header", ["api-key", "x-sluicegate-key", "authorization"])
def test_neither_a_name_nor_a_hash_nor_nothing_is_a_key(guarded: RunningGateway, header: str, wrong: str) -> None:
    value = f"Bearer {wrong}".strip() if header == "authorization" else wrong
    answer = guarded.http.get("/v1/models", headers={header: value})
    assert (answer.status_code, answer.json()["error"]["code"]) == (401, "UNAUTHORIZED")


def test_a_wrong_key_beside_a_right_one_opens_nothing(guarded: RunningGateway) -> None:
    for header in ("api-key", "x-sluicegate-key"):
        assert guarded.http.get("/v1/models", headers={header: "wrong", **bearer("team-a")}).status_code == 401


def test_a_key_is_exchanged_without_a_restart(upstream: Upstream, tmp_path: Path) -> None:
    write_config(tmp_path, upstream.url, more=keys_in_config(("team", "sg-old")))
    script = upstream.script(replies.plain())
    body = {"model": script.model, "messages": SHORT, "contextShift": {"chatId": "c"}}

    def status(key: str, path: str = "/v1/models") -> int:
        return gateway.http.get(path, headers={"api-key": key}).status_code

    with RunningGateway(tmp_path) as gateway:
        assert gateway.http.post("/v1/chat/completions", json=body, headers={"api-key": "sg-old"}).status_code == 200
        assert status("sg-new") == 401
        write_config(tmp_path, upstream.url, more=keys_in_config(("team", "sg-old"), ("team", "sg-new")))
        until(lambda: status("sg-new") == 200, "the new key", 15.0)
        assert status("sg-old") == 200
        assert status("sg-new", "/api/v2/chats/c") == 200
        write_config(tmp_path, upstream.url, more=keys_in_config(("team", "sg-new"), ("other", "sg-other")))
        until(lambda: status("sg-old") == 401, "the end of the old key", 15.0)
        assert (status("sg-new", "/api/v2/chats/c"), status("sg-other", "/api/v2/chats/c")) == (200, 404)
    log = gateway.log.read_text()
    assert [key for key in ("sg-old", "sg-new", "sg-other") if key in log] == []


def test_no_key_is_needed_on_loopback_alone(upstream: Upstream, tmp_path: Path) -> None:
    write_config(tmp_path, upstream.url, server='host = "0.0.0.0"')
    done = run_command(tmp_path, "serve", "--config", "config", "--port", "0")
    assert (done.returncode, done.stdout) == (1, "")
    assert "server.host" in done.stderr
    assert "auth.keys" in done.stderr


OTHER_HOSTS = ["evil.example", "evil.example:8787", "127.0.0.1.evil.example", "localhost@evil.example", ""]


@pytest.mark.parametrize("host", OTHER_HOSTS)
@pytest.mark.parametrize("path", ["/v1/models", "/v1/chat/completions", "/api/v2/chats/c/context-audit", "/", "/healthz/x"])
def test_another_host_is_not_served(gateway: RunningGateway, host: str, path: str) -> None:
    response = gateway.http.get(path, headers={"host": host})
    error = checked_answer(response.status_code, response.headers, response.json())
    assert (response.status_code, error["code"]) == (421, "HOST_NOT_ALLOWED")


@pytest.mark.parametrize("host", OTHER_HOSTS)
@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_a_probe_is_answered_by_whatever_name_it_knows_the_machine(gateway: RunningGateway, host: str, path: str) -> None:
    response = gateway.http.get(path, headers={"host": host})
    assert response.status_code == 200
    assert response.headers["x-request-id"]


@pytest.mark.parametrize("host", ["localhost", "LOCALHOST:80", "127.0.0.1", "127.0.0.1:1", "[::1]", "[::1]:8787"])
def test_the_names_of_this_machine_are_served(gateway: RunningGateway, host: str) -> None:
    assert gateway.http.get("/v1/models", headers={"host": host}).status_code == 200
