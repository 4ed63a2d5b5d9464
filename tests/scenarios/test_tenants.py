"""Who may use the gateway, who sees what, and whose key goes where."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import openai
import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.errors import checked_answer
from tests.scenarios.loopback.running_gateway import RunningGateway, write_config
from tests.scenarios.loopback.upstream import Upstream

SHORT = [{"role": "user", "content": "Name three rivers."}]
KEYS = {"team-a": "sg-key-of-team-a", "team-b": "sg-key-of-team-b"}
HASHED = "\n".join(
    f'[[auth.keys]]\nname = "{name}"\nsha256 = "{hashlib.sha256(key.encode()).hexdigest()}"' for name, key in KEYS.items()
)


@pytest.fixture(scope="module")
def guarded(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway with the keys of two teams, whose provider gets what the client sends."""
    folder = tmp_path_factory.mktemp("guarded")
    write_config(folder, upstream.url, provider='api_key = "passthrough"', more=HASHED)
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
        ("GET", "/api/v2/chats/c/context-audit"),
        ("DELETE", "/api/v2/chats/c"),
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
