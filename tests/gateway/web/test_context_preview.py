"""A preview is what a generation would be, and sends and stores nothing."""

from __future__ import annotations

import gzip
from typing import Any

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gateway.settings import ServerSettings, Settings
from gateway.shifting import ContextStrategyRegistry
from tests.gateway.shifting.conversations import conversations
from tests.support.doubles import FakeProvider
from tests.support.rooms import ask, chat, encoded, open_rooms, run
from tests.support.small_chats import turns

PREVIEW, GENERATE = "/api/v2/context-preview", "/v1/chat/completions"
NOT_IN_A_PREVIEW = {
    "generationId", "chatId", "tenant", "createdAt", "finishedAt", "status", "errorCode", "usage", "finishReason",
}  # fmt: skip


def preview(
    body: Any, headers: dict[str, str] | None = None, provider: FakeProvider | None = None, **more: Any
) -> httpx.Response:
    return run(ask(open_rooms(provider, **more), "POST", PREVIEW, body, headers))


def test_a_preview_tells_what_would_be_sent_and_sends_nothing() -> None:
    provider = FakeProvider()
    answer = preview(chat(messages=turns(15)), provider=provider)
    found = answer.json()
    assert (answer.status_code, found["fits"], found["deficit"], provider.sent) == (200, True, 0, [])
    assert len(found["providerMessages"]) == 8
    assert found["budget"] == {
        "contextLimit": 100,
        "replyReserve": 10,
        "safetyMargin": 0,
        "promptTokens": 83,
        "promptTokensBefore": 153,
    }
    assert not NOT_IN_A_PREVIEW & set(found)
    assert not [name for name in answer.headers if name.startswith("x-context-")]


def test_over_budget_is_an_answer() -> None:
    answer = preview(chat(messages=turns(1, 200)))
    assert (answer.status_code, answer.json()["fits"], answer.json()["deficit"]) == (200, False, 115)


STRATEGIES = ContextStrategyRegistry.with_builtins().names()


@settings(max_examples=60, deadline=None)
@given(conversations, st.integers(20, 100), st.booleans(), st.sampled_from(STRATEGIES))
def test_a_preview_agrees_with_the_audit_of_the_generation(
    messages: list[dict[str, Any]], limit: int, stream: bool, strategy: str
) -> None:
    async def story() -> tuple[Any, Any]:
        rooms = open_rooms()
        options = {"chatId": "c", "contextLimit": limit, "contextStrategy": strategy, "memory": [{"content": "tea"}]}
        body = chat(messages=messages, stream=stream, contextShift=options)
        seen = (await ask(rooms, "POST", PREVIEW, body)).json()
        answer = await ask(rooms, "POST", GENERATE, body)
        assert answer.status_code == (200 if seen["fits"] else 400)
        return seen, (await ask(rooms, "GET", "/api/v2/chats/c/context-audit")).json()["audit"]

    seen, audit = run(story())
    assert {key: value for key, value in seen.items() if key not in ("fits", "deficit")} == {
        key: value for key, value in audit.items() if key not in NOT_IN_A_PREVIEW
    }


def test_a_wrapped_request_is_previewed_and_a_request_with_such_a_field_is_itself() -> None:
    assert preview({"request": chat()}).json()["budget"]["promptTokens"] == 33
    assert preview(chat(request={"model": "other"})).json()["model"] == "m"


def test_several_strategies_are_compared_in_their_order() -> None:
    found = preview({"strategies": ["truncate", "truncate"], "request": chat(contextStrategy="nonsense")}).json()
    assert [item["contextStrategy"] for item in found["previews"]] == ["truncate", "truncate"]
    assert all(item["fits"] for item in found["previews"])


@pytest.mark.parametrize("strategies", ["truncate", [1], {}, None, ["truncate", None], [], [""], ["truncate"] * 33])
def test_strategies_that_are_no_list_of_names_are_refused(strategies: Any) -> None:
    answer = preview({"strategies": strategies, "request": chat()})
    assert (answer.status_code, answer.json()["error"]["param"]) == (400, "strategies")


def test_an_unknown_strategy_is_refused_with_the_known_names() -> None:
    answer = preview({"strategies": ["nonsense"], "request": chat()})
    assert answer.status_code == 400
    for name in ContextStrategyRegistry.with_builtins().names():
        assert name in answer.json()["error"]["message"]


def test_headers_count_as_for_a_generation() -> None:
    assert preview(chat(), {"x-context-reply-reserve": "40"}).json()["budget"]["replyReserve"] == 40


@pytest.mark.parametrize(
    ("body", "headers", "status", "code"),
    [
        (b"{", {}, 400, "INVALID_REQUEST"),
        (b'{"request":{"model":"m","model":"m"}}', {}, 400, "INVALID_REQUEST"),
        ({"request": 5}, {}, 400, "INVALID_REQUEST"),
        (chat(model=5), {}, 400, "INVALID_REQUEST"),
        (chat(model="other"), {}, 404, "MODEL_NOT_FOUND"),
        (chat(), {"content-type": "text/html"}, 415, "UNSUPPORTED_MEDIA_TYPE"),
        (chat(), {"content-encoding": "br"}, 415, "UNSUPPORTED_MEDIA_TYPE"),
        (chat(x="y" * 2000), {}, 413, "PAYLOAD_TOO_LARGE"),
        (gzip.compress(encoded(chat(x="y" * 2000))), {"content-encoding": "gzip"}, 413, "PAYLOAD_TOO_LARGE"),
    ],
)
def test_what_is_wrong_is_told_as_for_a_generation(body: Any, headers: dict[str, str], status: int, code: str) -> None:
    given = Settings(server=ServerSettings(max_body_bytes=1000))
    for path in (PREVIEW, GENERATE):
        answer = run(ask(open_rooms(settings=given), "POST", path, body, headers))
        assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
