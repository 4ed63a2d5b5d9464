"""The outermost layer lets in who may come in, forgives a slash, and answers everything else with an error."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from typing import Any

import httpx
import pytest
from starlette.exceptions import HTTPException

from gateway.errors import ClientCancelled, GatewayError, InvalidRequest
from gateway.secret import Secret
from gateway.settings import AuthSettings, ClientKey, ServerSettings, Settings
from gateway.web.asgi import respond
from gateway.web.guards import Client, Guards
from tests.support.rooms import Connection, fetch, open_rooms, post_scope, run


class Inside:
    """The application behind the guards: remembers what it was given, raises or answers."""

    def __init__(self, raised: BaseException | None = None, *, begin: bool = False) -> None:
        self.raised = raised
        self.begin = begin
        self.scopes: list[Any] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.scopes.append(scope)
        if self.begin or self.raised is None:
            await respond(send, 200, b"{}")
        if self.raised is not None:
            raise self.raised

    @property
    def client(self) -> Client:
        found: Client = self.scopes[-1]["state"]["client"]
        return found


def settings(*keys: tuple[str, str], anonymous: bool = False, hosts: tuple[str, ...] | None = None) -> Settings:
    listed = tuple(ClientKey(name, Secret(hashlib.sha256(key.encode()).hexdigest())) for name, key in keys)
    server = ServerSettings() if hosts is None else ServerSettings(allowed_hosts=hosts)
    return Settings(server=server, auth=AuthSettings(allow_anonymous=anonymous, keys=listed))


def knock(
    inside: Inside,
    path: str = "/v1/models",
    headers: Mapping[str, str] | None = None,
    *,
    given: Settings | None = None,
    bound: str = "127.0.0.1",
    method: str = "GET",
) -> httpx.Response:
    guards = Guards(inside, open_rooms(settings=given or Settings()), bound)
    return run(fetch(guards, method, path, headers=headers))


def test_every_answer_has_a_request_id_of_its_own() -> None:
    ids = {knock(Inside(raised)).headers["x-request-id"] for raised in (None, None, InvalidRequest("x"), ZeroDivisionError())}
    assert len(ids) == 4
    assert all(name.startswith("req_") for name in ids)


@pytest.mark.parametrize(
    "host",
    ["localhost", "LOCALHOST", "localhost:8787", "127.0.0.1:1", "[::1]", "[::1]:8787", " localhost ", "localhost:"],
)
def test_a_host_that_is_served_is_let_in(host: str) -> None:
    assert knock(Inside(), headers={"host": host}).status_code == 200


@pytest.mark.parametrize(
    "host", ["", "evil.example", "evil.example:8787", "localhost.evil.example", "localhost@evil", "[::2]:1", "::1"]
)
def test_any_other_host_is_refused(host: str) -> None:
    inside = Inside()
    answer = knock(inside, headers={"host": host})
    assert (answer.status_code, answer.json()["error"]["code"], inside.scopes) == (421, "HOST_NOT_ALLOWED", [])


def test_a_request_without_a_host_is_refused() -> None:
    connection = Connection()
    run(Guards(Inside(), open_rooms(), "127.0.0.1")(post_scope(), connection.receive, connection.send))
    assert connection.status == 421


@pytest.mark.parametrize("hosts", [("evil.example", "localhost"), ("localhost", "evil.example"), ("localhost", "localhost")])
def test_a_request_with_two_hosts_is_refused(hosts: tuple[str, ...]) -> None:
    connection, scope = Connection(), post_scope()
    scope["headers"] += [(b"host", host.encode()) for host in hosts]
    run(Guards(Inside(), open_rooms(), "127.0.0.1")(scope, connection.receive, connection.send))
    assert connection.status == 421


@pytest.mark.parametrize(
    ("bound", "host"),
    [
        ("10.0.0.5", "10.0.0.5:8787"),
        ("gateway.lan", "gateway.lan"),
        ("Gateway.Lan", "gateway.lan"),
        ("[fd00::1]", "[fd00::1]:1"),
        ("fd00::1", "[fd00::1]:1"),
    ],
)
def test_the_bound_host_is_served(bound: str, host: str) -> None:
    assert knock(Inside(), headers={"host": host}, bound=bound).status_code == 200


@pytest.mark.parametrize("listed", ["my.host", "My.Host"])
def test_a_listed_host_is_served_however_it_is_written(listed: str) -> None:
    given = settings(hosts=(listed,))
    assert knock(Inside(), headers={"host": "my.HOST:8787"}, given=given).status_code == 200
    assert knock(Inside(), headers={"host": "localhost"}, given=given).status_code == 421


KEYS = settings(("team", "sg-1"))


@pytest.mark.parametrize(
    ("headers", "tenant", "passed_on"),
    [
        ({"authorization": "Bearer sg-1"}, "team", None),
        ({"authorization": "bearer  sg-1 "}, "team", None),
        ({"api-key": "sg-1"}, "team", None),
        ({"x-sluicegate-key": "sg-1"}, "team", None),
        ({"x-sluicegate-key": "sg-1", "authorization": "Bearer theirs"}, "team", "Bearer theirs"),
        ({"api-key": "sg-1", "authorization": "Bearer theirs"}, "team", "Bearer theirs"),
        ({"x-sluicegate-key": "sg-1", "api-key": "theirs"}, "team", None),
        ({"api-key": "", "authorization": "Bearer sg-1"}, "team", None),
        ({"x-sluicegate-key": "sg-1", "authorization": "Bearer sg-1"}, "team", None),
        ({"api-key": "sg-1", "authorization": "Bearer sg-1"}, "team", None),
        ({"api-key": "sg-1", "authorization": "sg-1"}, "team", None),
        ({"x-sluicegate-key": "sg-1", "authorization": "Basic  sg-1 "}, "team", None),
        ({"x-sluicegate-key": "sg-1", "authorization": "Bearer\tsg-1"}, "team", None),
        ({"x-sluicegate-key": "sg-1", "authorization": "Bearer sg-1 theirs"}, "team", None),
        ({"x-sluicegate-key": "sg-1", "authorization": "theirs"}, "team", "theirs"),
    ],
)
def test_a_key_names_its_tenant_and_is_never_passed_on(headers: dict[str, str], tenant: str, passed_on: str | None) -> None:
    inside = Inside()
    assert knock(inside, headers=headers, given=KEYS).status_code == 200
    assert inside.client == Client(tenant, passed_on)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": "Basic sg-1"},
        {"authorization": "Bearer"},
        {"authorization": "sg-1"},
        {"api-key": "wrong", "authorization": "Bearer sg-1"},
        {"x-sluicegate-key": "wrong"},
    ],
)
def test_nobody_comes_in_without_a_known_key(headers: dict[str, str]) -> None:
    inside = Inside()
    answer = knock(inside, headers=headers, given=KEYS)
    assert (answer.status_code, answer.json()["error"]["code"], inside.scopes) == (401, "UNAUTHORIZED", [])
    assert "sg-1" not in answer.text


@pytest.mark.parametrize("given", [Settings(), settings(("team", "sg-1"), anonymous=True)])
def test_who_may_be_anonymous_is_and_keeps_the_authorization(given: Settings) -> None:
    inside = Inside()
    assert knock(inside, given=given).status_code == 200
    assert inside.client == Client(None, None)
    headers = {"authorization": "Basic theirs"}
    assert knock(inside, headers=headers, given=given).status_code == 200
    assert inside.client == Client(None, "Basic theirs")


@pytest.mark.parametrize("path", ["/healthz", "/readyz", "//healthz/"])
def test_whoever_asks_whether_it_lives_needs_no_key_and_no_name(path: str) -> None:
    inside = Inside()
    assert knock(inside, path, given=KEYS).status_code == 200
    assert inside.client == Client(None, None)
    assert knock(inside, path, {"host": "10.1.2.3:8787", "api-key": "wrong"}, given=KEYS).status_code == 200
    assert inside.client == Client(None, None)


@pytest.mark.parametrize(
    ("path", "routed"),
    [
        ("/v1/chat/completions", "/v1/chat/completions"),
        ("//v1//chat/completions/", "/v1/chat/completions"),
        ("/v1/models/", "/v1/models"),
        ("/", "/"),
        ("//", "/"),
        ("/v1/models/org%2Fmodel", "/v1/models/org%2Fmodel"),
        ("/api/v2/chats/a%2Fb/context-audit", "/api/v2/chats/a%2Fb/context-audit"),
        ("/api/v2/chats/a//b/", "/api/v2/chats/a//b/"),
        ("/v1/models?x=//", "/v1/models"),
    ],
)
def test_a_slash_too_many_is_forgiven_where_no_segment_is_an_id(path: str, routed: str) -> None:
    inside = Inside()
    knock(inside, path)
    assert inside.scopes[0]["path"] == routed


def test_a_scope_without_a_raw_path_is_routed_by_its_path() -> None:
    inside, connection = Inside(), Connection()
    scope = {**post_scope("/v1//models", host="localhost"), "raw_path": None}
    run(Guards(inside, open_rooms(), "127.0.0.1")(scope, connection.receive, connection.send))
    assert inside.scopes[0]["path"] == "/v1/models"


PAGE = "https://page.example"


@pytest.mark.parametrize("site", ["cross-site", "same-site", "made-up"])
@pytest.mark.parametrize("method", ["POST", "DELETE", "PUT"])
def test_a_page_of_another_site_changes_and_spends_nothing(method: str, site: str) -> None:
    inside = Inside()
    answer = knock(inside, method=method, headers={"sec-fetch-site": site, "origin": PAGE})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "ORIGIN_NOT_ALLOWED")
    assert inside.scopes == []
    given = Settings(server=ServerSettings(cors_origins=(PAGE,)))
    assert knock(inside, method=method, given=given, headers={"sec-fetch-site": site, "origin": PAGE}).status_code == 200
    assert knock(inside, method=method, given=given, headers={"sec-fetch-site": site}).status_code == 403
    anywhere = Settings(server=ServerSettings(cors_origins=("*",)))
    assert knock(inside, method=method, given=anywhere, headers={"sec-fetch-site": site}).status_code == 200


@pytest.mark.parametrize(
    ("method", "headers"),
    [
        ("POST", {}),
        ("POST", {"origin": PAGE}),  # no browser of our time
        ("POST", {"sec-fetch-site": "same-origin", "origin": "http://127.0.0.1:8787"}),
        ("POST", {"sec-fetch-site": "none"}),
        ("GET", {"sec-fetch-site": "cross-site", "origin": PAGE}),
        ("OPTIONS", {"sec-fetch-site": "cross-site", "origin": PAGE}),
    ],
)
def test_programs_own_pages_and_reads_are_let_in(method: str, headers: dict[str, str]) -> None:
    assert knock(Inside(), method=method, headers=headers).status_code == 200


@pytest.mark.parametrize(
    ("raised", "status", "code"),
    [
        (InvalidRequest("x", param="p"), 400, "INVALID_REQUEST"),
        (HTTPException(404), 404, "NOT_FOUND"),
        (HTTPException(405), 405, "METHOD_NOT_ALLOWED"),
        (ZeroDivisionError("the secret"), 500, "INTERNAL"),
    ],
)
def test_whatever_is_raised_is_answered_as_json(raised: Exception, status: int, code: str) -> None:
    answer = knock(Inside(raised))
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    assert "the secret" not in answer.text
    assert answer.headers["x-should-retry"] == "false"


def sent_by(raised: GatewayError | Exception, *, begin: bool = False) -> list[dict[str, Any]]:
    connection = Connection()
    guards = Guards(Inside(raised, begin=begin), open_rooms(), "127.0.0.1")
    run(guards(post_scope(host="localhost"), connection.receive, connection.send))
    return connection.sent


def test_who_has_left_is_not_answered() -> None:
    assert sent_by(ClientCancelled("left")) == []


@pytest.mark.parametrize("raised", [InvalidRequest("x"), ZeroDivisionError()])
def test_an_answer_that_has_begun_is_not_begun_again(raised: Exception) -> None:
    assert [message["type"] for message in sent_by(raised, begin=True)] == ["http.response.start", "http.response.body"]


def test_what_is_no_request_is_passed_through() -> None:
    inside, connection = Inside(), Connection()
    scope = {"type": "lifespan"}
    run(Guards(inside, open_rooms(), "127.0.0.1")(scope, connection.receive, connection.send))
    assert inside.scopes == [{"type": "lifespan"}]
    assert connection.sent[0]["headers"] == [(b"content-type", b"application/json"), (b"content-length", b"2")]
