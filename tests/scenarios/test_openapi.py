"""The gateway keeps what its description promises, whatever is sent: schemathesis makes the requests and judges the answers."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import Case
from schemathesis.checks import CheckFunction
from schemathesis.config import SchemathesisConfig
from schemathesis.schemas import BaseSchema
from schemathesis.specs.openapi.checks import negative_data_rejection, positive_data_acceptance

from gateway.errors import TokenBudgetExceeded
from gateway.shifting import ContextStrategyRegistry
from gateway.web.openapi import description
from gateway.web.openapi_request import CHAT_ID
from gateway.web.wire_chats import token_of
from tests.scenarios.loopback import replies
from tests.scenarios.loopback.chats import conversation
from tests.scenarios.loopback.running_gateway import RunningGateway, write_config
from tests.scenarios.loopback.upstream import Upstream

EXAMPLES = 60
MODEL, CHATS = "small-fuzz", ["fuzzed", "a/b c"]


@pytest.fixture(scope="module")
def fuzzed(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway that has some chats."""
    folder = tmp_path_factory.mktemp("fuzzed")
    write_config(folder, upstream.url)
    upstream.script(replies.plain(), model=MODEL)
    with RunningGateway(folder) as running:
        for chat_id in CHATS:
            asked = {"model": MODEL, "messages": conversation(12), "contextShift": {"chatId": chat_id}}
            assert running.post(asked).status_code == 200
        yield running
    running.require_clean_log()


def narrowed() -> Any:
    """The description with names that lead somewhere: a model, strategies, chats and pages that there are."""
    document = description()
    schemas, paths = document["components"]["schemas"], document["paths"]
    strategies = list(ContextStrategyRegistry.with_builtins().names())
    schemas["ChatRequest"]["properties"]["model"]["enum"] = [MODEL]
    schemas["PreviewComparison"]["properties"]["strategies"]["items"]["enum"] = strategies
    schemas["ContextShift"]["properties"]["chatId"] = {"anyOf": [{"enum": [*CHATS, None]}, CHAT_ID]}
    compared = copy.deepcopy(schemas["ChatRequest"])  # whose own strategy gives way to those that are compared
    del compared["properties"]["contextStrategy"], compared["properties"]["contextShift"]
    schemas["PreviewComparison"]["properties"]["request"] = compared
    for name in ("ChatRequest", "ContextShift"):
        schemas[name]["properties"]["contextStrategy"] = {"enum": [*strategies, "", None]}
    chats = {"anyOf": [{"enum": CHATS}, CHAT_ID]}
    tokens = {"enum": [token_of((2e9, "c"))]}
    named = {"id": chats, "before": tokens, "X-Context-Strategy": {"enum": [*strategies, ""]}, "X-Context-Chat-Id": {}}
    for operation in [operation for path in paths.values() for operation in path.values()]:
        for parameter in operation if isinstance(operation, list) else operation.get("parameters", []):
            if parameter["name"] in named:
                parameter["schema"] = {**parameter["schema"], **named[parameter["name"]]}
    return document


def said_by_headers(document: Any) -> Any:
    """The operations that take headers of ours, without what is stronger than these: a header is then not looked at."""
    for name in ("contextStrategy", "contextShift"):
        del document["components"]["schemas"]["ChatRequest"]["properties"][name]
    takers = {path: item for path, item in document["paths"].items() if item.get("post", {}).get("parameters")}
    return {**document, "paths": takers}


def said_by_bodies(document: Any) -> Any:
    """All operations without those headers."""
    for item in document["paths"].values():
        item.get("post", {}).pop("parameters", None)
    return document


def source(document: Any) -> BaseSchema:
    """A description as a source of requests, the same ones each time."""
    schema = schemathesis.openapi.from_dict(document, config=SchemathesisConfig(seed=1))
    schema.config.generation.update(allow_extra_parameters=False)
    return schema


steady = settings(max_examples=EXAMPLES, derandomize=True, database=None, deadline=None, suppress_health_check=list(HealthCheck))


def judge(case: Case, fuzzed: RunningGateway) -> None:
    """Sends a request and has the answer judged. A prompt that is too long is a valid request; an empty header is no header."""
    response = case.call(base_url=fuzzed.url)
    left_out: list[CheckFunction] = []
    if response.status_code == 400 and response.json()["error"]["code"] == TokenBudgetExceeded.code:
        left_out.append(positive_data_acceptance)
    if "" in {value.strip() for name, value in response.request.headers.items() if name.lower().startswith("x-context-")}:
        left_out.append(negative_data_rejection)
    case.validate_response(response, excluded_checks=left_out)


@source(said_by_bodies(narrowed())).parametrize()
@steady
def test_an_answer_is_as_described(fuzzed: RunningGateway, case: Case) -> None:
    judge(case, fuzzed)


@source(said_by_headers(narrowed())).parametrize()
@steady
def test_an_answer_to_what_headers_say_is_as_described(fuzzed: RunningGateway, case: Case) -> None:
    judge(case, fuzzed)


def test_the_process_serves_the_description_it_is_judged_by(fuzzed: RunningGateway) -> None:
    assert fuzzed.http.get("/openapi.json").json() == description()
