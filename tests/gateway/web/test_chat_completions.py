"""A chat completion is answered once, whole or streamed, and its audit ends whatever the client or the provider does."""

from __future__ import annotations

import asyncio
import gzip
import json
import threading
from collections.abc import Callable
from typing import Any

import pytest

from gateway.errors import GatewayError, ProviderContextOverflow, ProviderRateLimit, ProviderTimeout
from gateway.settings import ClientSettings, Settings
from gateway.stores.base import AuditOutcome
from gateway.web import chat_completions
from gateway.web.rooms import Rooms
from tests.support.doubles import ANSWER, CHUNK, DONE, BrokenStore, FakeProvider, SlowStore
from tests.support.rooms import (
    Connection,
    application_of,
    ask,
    body_message,
    chat,
    encoded,
    only_audit,
    open_rooms,
    post_scope,
    run,
)
from tests.support.small_chats import model_config, turns

PATH = "/v1/chat/completions"
CHAT = {"chatId": "c"}
Moment = Callable[[asyncio.Task[None], Connection], object]


def post(body: Any, headers: dict[str, str] | None = None, provider: FakeProvider | None = None, **more: Any) -> Any:
    return run(ask(open_rooms(provider, **more), "POST", PATH, body, headers))


def test_a_plain_answer_arrives_byte_for_byte_with_its_headers() -> None:
    answer = post(chat(contextShift=CHAT))
    assert (answer.status_code, answer.content, answer.headers["content-type"]) == (200, ANSWER, "application/json")
    assert answer.headers["x-context-chat-id"] == "c"
    assert answer.headers["x-context-prompt-tokens"] == "33"
    assert answer.headers["x-request-id"]


def test_a_stream_arrives_byte_for_byte_with_its_headers() -> None:
    answer = post(chat(stream=True), provider=FakeProvider(CHUNK, DONE))
    assert (answer.status_code, answer.content) == (200, CHUNK + DONE)
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["x-context-limit"] == "100"


@pytest.mark.parametrize("stream", [False, True])
def test_a_report_that_was_asked_for_stands_in_the_answer(stream: bool) -> None:
    provider = FakeProvider(CHUNK, DONE) if stream else FakeProvider()
    answer = post(chat(stream=stream, messages=turns(15), contextShift={"report": "summary"}), provider=provider)
    first = json.loads(answer.text.removeprefix("data: ").partition("\n\n")[0])
    assert first["contextShift"]["generationId"] == answer.headers["x-context-generation-id"]
    assert [block["index"] for block in first["contextShift"]["excluded"]] == list(range(7))
    assert str(len(first["contextShift"]["excluded"])) == answer.headers["x-context-excluded"]


def test_a_large_reply_limit_is_lowered_in_what_is_sent() -> None:
    provider = FakeProvider()
    answer = post(chat(max_tokens=500), provider=provider, models=[model_config(max_output=20)])
    assert (answer.status_code, answer.headers["x-context-reply-reserve"]) == (200, "20")
    assert json.loads(provider.sent[0].body)["max_tokens"] == 20


@pytest.mark.parametrize("reserve", [10**30, 1e300, 10**3990])
def test_a_reserve_beyond_everything_is_refused_as_an_overflow(reserve: float) -> None:
    for body in (chat(max_tokens=reserve), chat(contextShift={"replyReserve": reserve})):
        answer = post(body)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "TOKEN_BUDGET_EXCEEDED")


ODD_PLACES = [
    '"x":N',
    '"temperature":N',
    '"max_tokens":N',
    '"tools":[{"function":{"parameters":{"enum":[N]}}},N]',
    '"response_format":{"schema":N}',
    '"metadata":{"chat_id":N}',
    '"contextShift":{"replyReserve":N}',
    '"contextShift":{"contextLimit":N}',
    '"contextShift":{"marks":[{"index":N}]}',
    '"contextShift":{"marks":[{"index":0,"relevance":N}]}',
    '"messages":[{"role":"user","content":"a","n":N,"meta":{"relevance":N}}]',
    '"messages":[{"role":"user","content":[N,{"type":"text","text":N}]}]',
    '"messages":[{"role":"assistant","tool_calls":[{"call_id":"c","function":N}]},{"role":"user","content":"a"}]',
]


@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" * 5000, "-" + "1" * 5000, "1" * 3999, "1e-400", "-0.0"])
@pytest.mark.parametrize("place", ODD_PLACES)
def test_no_legal_number_is_a_defect_wherever_it_stands(place: str, number: str) -> None:
    plain = '"model":"m","messages":[{"role":"user","content":"a"}]'
    fields = '"model":"m"' if place.startswith('"messages"') else plain
    body = f"{{{fields},{place.replace('N', number)}}}".encode()

    async def story() -> None:
        rooms = open_rooms()
        for path in (PATH, "/api/v2/context-preview"):
            answer = await ask(rooms, "POST", path, body)
            assert answer.status_code in (200, 400)
        if answer.status_code == 200:
            answer = await ask(rooms, "POST", PATH, body, {"x-context-chat-id": "c"})
            found = await ask(rooms, "GET", f"/api/v2/chats/{answer.headers['x-context-chat-id']}/context-audit")
            assert found.status_code == 200

    run(story())


@pytest.mark.parametrize("code", ["TOKEN_BUDGET_EXCEEDED", "context_length_exceeded"])
@pytest.mark.parametrize("stream", [False, True])
def test_what_cannot_fit_is_a_plain_error_with_headers_and_numbers(code: Any, stream: bool) -> None:
    provider = FakeProvider()
    given = Settings(clients=ClientSettings(overflow_code=code))
    answer = post(chat(messages=turns(1, 200), stream=stream, contextShift=CHAT), provider=provider, settings=given)
    error = answer.json()["error"]
    assert (answer.status_code, error["code"], error["param"], provider.sent) == (400, code, "messages", [])
    assert error["metadata"]["deficit"] == 115
    assert error["metadata"]["generationId"] == answer.headers["x-context-generation-id"]
    assert (answer.headers["x-should-retry"], answer.headers["x-context-chat-id"]) == ("false", "c")


@pytest.mark.parametrize("stream", [False, True])
def test_a_refusal_of_the_provider_is_a_plain_error_with_headers(stream: bool) -> None:
    answer = post(chat(stream=stream), provider=FakeProvider(refusal=ProviderRateLimit("slowly", retry_after=7)))
    assert (answer.status_code, answer.json()["error"]["code"]) == (429, "PROVIDER_RATE_LIMIT")
    assert answer.headers["retry-after"] == "7"
    assert "x-should-retry" not in answer.headers
    assert answer.headers["x-context-generation-id"]


@pytest.mark.parametrize(("error", "status"), [(ProviderTimeout("slow"), 504), (ProviderContextOverflow("theirs"), 400)])
def test_an_error_while_a_plain_answer_is_read_is_one_with_headers(error: GatewayError, status: int) -> None:
    provider = FakeProvider(error)
    answer = post(chat(), provider=provider)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, error.code)
    assert answer.json()["error"]["metadata"]["generationId"] == answer.headers["x-context-generation-id"]
    assert provider.replies[0].closed == 1


def test_without_a_store_nothing_is_sent() -> None:
    provider = FakeProvider()
    answer = post(chat(), provider=provider, store=BrokenStore("replace"))
    assert (answer.status_code, answer.json()["error"]["code"], provider.sent) == (503, "STORE_UNAVAILABLE", [])
    assert (answer.headers["retry-after"], "x-should-retry" in answer.headers) == ("1", False)
    assert answer.headers["x-context-prompt-tokens"] == "33"
    assert answer.json()["error"]["metadata"]["generationId"] == answer.headers["x-context-generation-id"]


def test_a_store_that_fails_afterwards_costs_no_answer() -> None:
    assert post(chat(), store=BrokenStore("finish")).content == ANSWER


def test_a_gateway_that_drains_takes_no_new_work() -> None:
    rooms = open_rooms()
    rooms.draining = True
    answer = run(ask(rooms, "POST", PATH, chat()))
    assert (answer.status_code, answer.json()["error"]["code"], answer.headers["retry-after"]) == (503, "SHUTTING_DOWN", "1")


def test_a_packed_body_is_read_and_another_type_refused() -> None:
    assert post(gzip.compress(encoded(chat())), {"content-encoding": "gzip"}).status_code == 200
    assert post(chat(), {"content-type": "multipart/form-data"}).status_code == 415


class Told:
    """What a client got of its request, and how the audit ended."""

    def __init__(self, connection: Connection, outcome: AuditOutcome | None) -> None:
        self.status = connection.status
        self.sent = connection.sent
        self.body = connection.body
        self.outcome = outcome

    @property
    def code(self) -> str | None:
        return self.outcome and self.outcome.error_code


def tell(
    provider: FakeProvider,
    *,
    stream: bool = False,
    on_call: Moment | None = None,
    after_send: int | None = None,
    then: Moment | None = None,
    rooms: Rooms | None = None,
    body: list[dict[str, Any]] | None = None,
) -> Told:
    """One request whose client leaves, or whose task is cancelled, at a moment: at the call, or once so much was sent."""

    async def story() -> Told:
        place = rooms or open_rooms(provider)
        await place.store.open()
        connection = Connection(body if body is not None else [body_message(chat(stream=stream, contextShift=CHAT))])
        app = application_of(place)
        task = asyncio.create_task(app(post_scope(PATH, host="localhost"), connection.receive, connection.send))  # type: ignore[arg-type]
        if after_send is not None:
            moment = then or leave
            connection.after_send = lambda number: moment(task, connection) if number == after_send else None
        if on_call is not None:
            provider.before_send = lambda: on_call(task, connection)
        await task
        assert all(reply.closed for reply in provider.replies)
        found = await place.store.latest("", "c")
        return Told(connection, found.outcome if found else None)

    return run(story())


def leave(task: asyncio.Task[None], connection: Connection) -> None:
    connection.leaves.set()


def cut_off(task: asyncio.Task[None], connection: Connection) -> None:
    asyncio.get_running_loop().call_soon(task.cancel)


def holding(*pieces: Any) -> FakeProvider:
    provider = FakeProvider(*pieces)
    provider.hold = asyncio.Event()
    return provider


def test_a_client_that_leaves_while_it_sends_its_body_leaves_nothing() -> None:
    provider = FakeProvider()
    told = tell(provider, body=[body_message(b'{"mo', more=True), {"type": "http.disconnect"}])
    assert (told.sent, told.outcome, provider.sent) == ([], None, [])


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_during_the_call_is_not_answered(stream: bool) -> None:
    told = tell(holding(), stream=stream, on_call=leave)
    assert (told.sent, told.code) == ([], "CLIENT_CANCELLED")


def test_a_client_that_leaves_while_a_plain_answer_is_read_is_not_answered() -> None:
    told = tell(FakeProvider(asyncio.Event(), ANSWER), on_call=leave)
    assert (told.sent, told.code) == ([], "CLIENT_CANCELLED")


def test_a_client_that_leaves_a_stream_cancels_it() -> None:
    told = tell(FakeProvider(CHUNK, asyncio.Event()), stream=True, after_send=2)
    assert ([message.get("body") for message in told.sent], told.code) == ([None, CHUNK], "CLIENT_CANCELLED")


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_leaves_after_the_last_word_changes_nothing(stream: bool) -> None:
    told = tell(FakeProvider(DONE if stream else ANSWER), stream=stream, after_send=2)
    assert told.outcome is not None
    assert (told.outcome.status.value, told.code) == ("completed", None)


@pytest.mark.parametrize("stream", [False, True])
def test_the_end_of_the_grace_during_the_call_is_an_error(stream: bool) -> None:
    told = tell(holding(), stream=stream, on_call=cut_off)
    assert (told.status, json.loads(told.body)["error"]["code"], told.code) == (503, "SHUTTING_DOWN", "SHUTTING_DOWN")


def test_the_end_of_the_grace_while_a_plain_answer_is_read_is_an_error() -> None:
    told = tell(FakeProvider(asyncio.Event()), on_call=cut_off)
    assert (told.status, json.loads(told.body)["error"]["code"], told.code) == (503, "SHUTTING_DOWN", "SHUTTING_DOWN")


def test_the_end_of_the_grace_during_a_stream_ends_it_in_order() -> None:
    told = tell(FakeProvider(CHUNK, asyncio.Event()), stream=True, after_send=2, then=cut_off)
    assert (told.status, told.code) == (200, "SHUTTING_DOWN")
    assert told.body.startswith(CHUNK)
    assert told.body.endswith(b"data: [DONE]\n\n")


def test_the_end_of_the_grace_at_the_head_of_a_stream_ends_it_in_order() -> None:
    told = tell(FakeProvider(CHUNK, DONE), stream=True, after_send=1, then=cut_off)
    assert (told.status, told.code) == (200, "SHUTTING_DOWN")
    assert json.loads(told.body.removeprefix(b"data: ").partition(b"\n\n")[0])["error"]["code"] == "SHUTTING_DOWN"
    assert told.body.endswith(b"data: [DONE]\n\n")


def test_a_client_that_leaves_while_its_request_is_prepared_starts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    leaves, counted = asyncio.Event(), threading.Event()

    async def on_a_thread(*arguments: object) -> None:
        leaves.set()
        await asyncio.to_thread(counted.wait, 10)

    async def story() -> None:
        provider = FakeProvider()
        rooms, connection = open_rooms(provider), Connection([body_message(chat(contextShift=CHAT))], leaves=leaves)
        await rooms.store.open()
        monkeypatch.setattr(rooms.engine.preparer, "prepare", on_a_thread)
        await application_of(rooms)(post_scope(PATH, host="localhost"), connection.receive, connection.send)
        assert not counted.is_set()
        counted.set()
        assert (connection.sent, provider.sent, await rooms.store.latest("", "c")) == ([], [], None)

    run(story())


def test_a_client_that_leaves_while_the_audit_is_opened_ends_it() -> None:
    async def story() -> AuditOutcome | None:
        store, connection = SlowStore(), Connection([body_message(chat(contextShift=CHAT))])
        await store.open()
        app = application_of(open_rooms(store=store))
        task = asyncio.create_task(app(post_scope(PATH, host="localhost"), connection.receive, connection.send))  # type: ignore[arg-type]
        await store.committed.wait()
        connection.leaves.set()
        await asyncio.sleep(0.05)
        store.say_so.set()
        await task
        assert connection.sent == []
        return (await only_audit(store)).outcome

    outcome = run(story())
    assert outcome is not None
    assert outcome.error_code == "CLIENT_CANCELLED"


@pytest.mark.parametrize("stream", [False, True])
def test_a_defect_while_an_answer_is_read_ends_its_audit(stream: bool) -> None:
    told = tell(FakeProvider(*[CHUNK] * stream, ZeroDivisionError()), stream=stream)
    assert told.status == (200 if stream else 500)
    assert told.code == "INTERNAL"
    assert told.outcome is not None
    assert told.outcome.status.value == "failed"
    assert told.body.endswith(b"\n\ndata: [DONE]\n\n") is stream
    error = json.loads(told.body.removeprefix(CHUNK + b"data: ").partition(b"\n\n")[0])["error"]
    assert error["code"] == "INTERNAL"
    assert error["metadata"]["generationId"].startswith("gen_")


@pytest.mark.parametrize("stream", [False, True])
def test_a_defect_while_a_request_is_sent_is_an_error_with_headers(stream: bool) -> None:
    answer = post(chat(stream=stream, contextShift=CHAT), provider=FakeProvider(refusal=ZeroDivisionError("the secret")))
    assert (answer.status_code, answer.json()["error"]["code"]) == (500, "INTERNAL")
    assert answer.json()["error"]["metadata"]["generationId"] == answer.headers["x-context-generation-id"]
    assert (answer.headers["x-context-chat-id"], answer.headers["x-should-retry"]) == ("c", "false")
    assert "the secret" not in answer.text


@pytest.mark.parametrize("stream", [False, True])
def test_a_defect_before_an_answer_begins_leaves_neither_an_audit_nor_a_reply_open(
    monkeypatch: pytest.MonkeyPatch, stream: bool
) -> None:
    def broken(*arguments: object) -> bytes:
        raise ZeroDivisionError

    monkeypatch.setattr(chat_completions, "report_field", broken)
    told = tell(FakeProvider(), stream=stream)
    assert (told.status, told.code) == (500, "INTERNAL")


def test_outside_of_a_task_there_is_no_cancellation_to_take_back() -> None:
    async def story() -> None:
        done = asyncio.Event()

        def call() -> None:
            chat_completions._uncancel()
            done.set()

        asyncio.get_running_loop().call_soon(call)
        await done.wait()

    run(story())


def test_a_completion_is_posted_and_nothing_else() -> None:
    answer = run(ask(open_rooms(), "GET", PATH))
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "METHOD_NOT_ALLOWED")
