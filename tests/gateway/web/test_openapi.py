"""The description is true: it has every path, word, header and code that the code has, and real answers are as it says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import httpx
import jsonschema_rs
import pytest

from gateway import errors
from gateway.web import wire_marks, wire_options
from gateway.web.context_headers import EXPOSED_HEADERS
from gateway.web.openapi import description
from gateway.web.openapi_answers import every_error
from gateway.web.routes import routes
from tests.support.doubles import FakeProvider
from tests.support.rooms import ask, chat, open_rooms, run
from tests.support.small_chats import turns

DOCUMENT = description()
SCHEMAS: dict[str, Any] = DOCUMENT["components"]["schemas"]
NEVER_ANSWERED = {"CLIENT_CANCELLED"}
ON_OTHER_METHODS = {"METHOD_NOT_ALLOWED"}


def operations() -> dict[tuple[str, str], Any]:
    """Every operation by method and path."""
    return {
        (method.upper(), path): operation
        for path, item in DOCUMENT["paths"].items()
        for method, operation in item.items()
        if method != "parameters"
    }


def routed() -> set[tuple[str, str]]:
    """What the router serves, but for what Starlette adds: a HEAD for every GET. An endpoint without methods takes POST."""
    served = [(method, route) for route in routes(open_rooms()) for method in route.methods or {"POST"}]
    return {(method, route.path) for method, route in served if method != "HEAD"}


def closed(schema: Any) -> Any:
    """The same schema, whose records may have no field that isn't described."""
    if isinstance(schema, list):
        return [closed(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    found = {key: closed(value) for key, value in schema.items()}
    return found | {"additionalProperties": False} if isinstance(found.get("required"), list) and "properties" in found else found


def require_valid(answer: httpx.Response, method: str, path: str) -> None:
    """Fails where an answer is not what the description says, field by field, or lacks a header."""
    told = operations()[(method, path)]["responses"][str(answer.status_code)]
    assert [name for name, header in told["headers"].items() if header.get("required") and name not in answer.headers] == []
    assert [name for name in answer.headers if name.startswith("x-") and name not in told["headers"]] == []
    schema = told["content"]["application/json"]["schema"]
    open_ones = ("ChatCompletion", "Error")  # the provider's own, and the one that is narrowed where it is used
    parts = {name: part if name in open_ones else closed(part) for name, part in SCHEMAS.items()}
    jsonschema_rs.validator_for({**schema, "components": {"schemas": parts}}).validate(answer.json())


def references(found: Any) -> Iterator[str]:
    """Every reference in the document."""
    if isinstance(found, dict):
        yield from [found["$ref"]] if "$ref" in found else []
    for inner in found.values() if isinstance(found, dict) else found if isinstance(found, list) else ():
        yield from references(inner)


def test_it_is_served_as_json_and_made_once() -> None:
    answer = run(ask(open_rooms(), "GET", "/openapi.json"))
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert answer.json() == DOCUMENT
    assert DOCUMENT["openapi"].startswith("3.1")


def test_every_path_of_the_gateways_own_api_is_described_and_every_described_one_is_served() -> None:
    own = {served for served in routed() if served[1].startswith("/api/v2/")}
    assert set(operations()) == own | {("POST", "/v1/chat/completions")}


def test_a_path_has_the_parameters_that_stand_in_it() -> None:
    for path, item in DOCUMENT["paths"].items():
        named = {parameter["name"] for parameter in item.get("parameters", []) if parameter["in"] == "path"}
        assert named == set(re.findall(r"{(\w+)}", path))


def test_every_reference_leads_somewhere_and_nothing_is_left_over() -> None:
    assert set(references(DOCUMENT)) == {f"#/components/schemas/{name}" for name in SCHEMAS}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS)
def test_every_schema_is_one(schema: Any) -> None:
    assert jsonschema_rs.meta.is_valid({"$schema": "https://json-schema.org/draft/2020-12/schema", **schema})


def test_an_operation_has_a_name_of_its_own() -> None:
    names = [operation["operationId"] for operation in operations().values()]
    assert len(set(names)) == len(names)


def in_camel_case(names: set[str] | frozenset[str]) -> set[str]:
    return {name for name in names if "_" not in name}


def test_every_option_that_is_read_is_described() -> None:
    described = set(SCHEMAS["ContextShift"]["properties"])
    assert described == in_camel_case(wire_options.KNOWN) - set(wire_options.UNBUILT)
    assert set(SCHEMAS["Meta"]["properties"]) | {"id"} == in_camel_case(wire_marks._META_KEYS)
    assert set(SCHEMAS["MarkRule"]["properties"]) == set(SCHEMAS["Meta"]["properties"]) | set(wire_options.SELECTORS)
    marked = set(SCHEMAS["Message"]["properties"]) - {"role", "content"}
    assert marked == in_camel_case(wire_marks.OWN_MESSAGE_KEYS)


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/api/v2/context-preview"])
def test_every_header_that_is_read_is_described(path: str) -> None:
    unbuilt = {f"x-context-{name}" for name in wire_options.UNBUILT}
    described = {parameter["name"].lower() for parameter in operations()[("POST", path)]["parameters"]}
    assert described == set(wire_options.OWN_HEADERS) - unbuilt


def test_every_header_that_pages_may_read_is_described() -> None:
    answers = operations()[("POST", "/v1/chat/completions")]["responses"].values()
    assert {name for answer in answers for name in answer["headers"]} == set(EXPOSED_HEADERS)


def described_codes(operation: Any) -> set[tuple[int, str]]:
    """The codes of an operation with their statuses."""
    found = set()
    for status, answer in operation["responses"].items():
        schema = answer.get("content", {}).get("application/json", {}).get("schema", {})
        for narrowed in schema.get("allOf", []):
            codes = narrowed.get("properties", {}).get("error", {}).get("properties", {}).get("code", {}).get("enum", [])
            found |= {(int(status), code) for code in codes}
    return found


def test_every_error_is_described_with_its_status_somewhere() -> None:
    told = {pair for operation in operations().values() for pair in described_codes(operation)}
    kinds = {(kind.default_status, kind.code) for kind in every_error()}
    untold = {code for status, code in kinds - told}
    assert untold == NEVER_ANSWERED | ON_OTHER_METHODS
    extra = {(401, "PROVIDER_AUTH"), (401, "PROVIDER_PERMISSION"), (400, "context_length_exceeded")}
    assert told - kinds == extra


def test_what_needs_no_body_can_be_refused_for_no_body() -> None:
    for (method, _), operation in operations().items():
        assert ("requestBody" in operation) == (method == "POST") == ("413" in operation["responses"])
        assert ("403" in operation["responses"]) == (method != "GET")


CHATS = "/api/v2/chats"
AUDIT = f"{CHATS}/{{id}}/context-audit"
LONG = {"role": "user", "content": "a" * 70_000}
CALLS = [
    {"role": "assistant", "content": None, "tool_calls": [{"id": "x", "type": "function", "function": {"name": "f"}}]},
    {"role": "tool", "tool_call_id": "x", "content": "four"},
]
ASKED: dict[str, Any] = {
    "messages": [*turns(9), *CALLS, {"role": "user", "content": "a b", "name": "me"}],
    "contextStrategy": "summarize",
    "tools": [{"type": "function", "function": {"name": "f"}}],
    "contextShift": {"chatId": "c", "report": "full", "memory": [{"content": "a b c"}], "note": 1},
}


@pytest.mark.parametrize("request_body", [chat(**ASKED), chat(messages=[LONG])], ids=["many kinds of blocks", "a long text"])
@pytest.mark.parametrize("path", ["/api/v2/context-preview", "/v1/chat/completions"])
def test_what_is_answered_to_a_request_is_as_described(path: str, request_body: Any) -> None:
    answer = run(ask(open_rooms(), "POST", path, request_body))
    assert answer.status_code == 200
    require_valid(answer, "POST", path)


def test_a_comparison_is_as_described() -> None:
    body = {"strategies": ["truncate", "manual"], "request": chat(**ASKED)}
    require_valid(run(ask(open_rooms(), "POST", "/api/v2/context-preview", body)), "POST", "/api/v2/context-preview")


@pytest.mark.parametrize(
    ("path", "query"),
    [
        (CHATS, ""),
        (CHATS, "?limit=1"),
        (f"{CHATS}/{{id}}", ""),
        *((AUDIT, f"?view={view}") for view in ("full", "index", "summary")),
        (f"{AUDIT}/blocks", "?from=1&limit=2"),
    ],
)
@pytest.mark.parametrize("failing", [False, True])
def test_what_is_remembered_is_shown_as_described(path: str, query: str, failing: bool) -> None:
    provider = FakeProvider(refusal=errors.ProviderTimeout("x")) if failing else FakeProvider()

    async def story() -> httpx.Response:
        rooms = open_rooms(provider)
        for chat_id in ("d", "c"):
            shift = {**ASKED["contextShift"], "chatId": chat_id}
            await ask(rooms, "POST", "/v1/chat/completions", chat(**{**ASKED, "contextShift": shift}))
        return await ask(rooms, "GET", path.replace("{id}", "c") + query)

    answer = run(story())
    assert answer.status_code == 200
    require_valid(answer, "GET", path)


@pytest.mark.parametrize("kind", list(every_error(errors.ProviderError)), ids=lambda kind: kind.code)
def test_a_providers_failure_is_answered_as_described(kind: type[errors.GatewayError]) -> None:
    answer = run(ask(open_rooms(FakeProvider(refusal=kind("x"))), "POST", "/v1/chat/completions", chat()))
    assert answer.json()["error"]["code"] == kind.code
    require_valid(answer, "POST", "/v1/chat/completions")


@pytest.mark.parametrize(
    ("method", "path", "body", "headers", "status"),
    [
        ("POST", "/v1/chat/completions", b"{", {}, 400),
        ("POST", "/v1/chat/completions", chat(model="unknown"), {}, 404),
        ("POST", "/v1/chat/completions", chat(messages=[{"role": "user", "content": "a " * 500}]), {}, 400),
        ("POST", "/v1/chat/completions", b"<a/>", {"content-type": "text/xml"}, 415),
        ("POST", "/v1/chat/completions", b" " * 40_000_000, {}, 413),
        ("POST", "/v1/chat/completions", chat(), {"host": "elsewhere.example"}, 421),
        ("POST", "/api/v2/context-preview", chat(), {"sec-fetch-site": "cross-site"}, 403),
        ("GET", AUDIT, b"", {}, 404),
        ("DELETE", f"{CHATS}/{{id}}", b"", {}, 404),
    ],
)
def test_a_refusal_is_as_described(method: str, path: str, body: Any, headers: dict[str, str], status: int) -> None:
    answer = run(ask(open_rooms(), method, path.replace("{id}", "none"), body, headers))
    assert answer.status_code == status
    require_valid(answer, method, path)
