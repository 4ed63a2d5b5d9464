"""The endpoint: answers pass chunk by chunk, breaks are seen, departures end the call, and nothing stays open."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.errors import (
    ClientCancelled,
    PayloadTooLarge,
    ProviderRateLimit,
    ProviderTimeout,
    ProviderUnreachable,
    ShuttingDown,
)
from gateway.providers.base import Forwarded, ForwardedRequest
from gateway.settings import ServerSettings, Settings
from gateway.web.client_watch import START_S
from gateway.web.passthrough import Passthrough
from tests.support.doubles import FakeProvider
from tests.support.rooms import Connection, ask, body_message, open_rooms, post_scope, run
from tests.support.small_chats import model_config

EVENTS = [(b"content-type", b"text/event-stream; charset=utf-8")]
SOUND = [(b"content-type", b"audio/mpeg"), (b"openai-version", b"1")]
SPEECH = {"model": "m", "input": "hi"}


def speaking(*pieces: Any, headers: Any = SOUND, **more: Any) -> FakeProvider:
    provider = FakeProvider(*pieces, **more)
    provider.answer_headers = headers
    return provider


def scope_of(path: str = "/v1/audio/speech", **headers: str) -> dict[str, Any]:
    return post_scope(path, **({"content_type": "application/json"} | headers))


async def serve(provider: FakeProvider, connection: Connection, scope: dict[str, Any] | None = None, **more: Any) -> None:
    rooms = open_rooms(provider, models=[model_config(), model_config(None)], **more)
    await Passthrough(rooms)(scope or scope_of(), connection.receive, connection.send)


def asking(body: Any = SPEECH) -> Connection:
    return Connection([body_message(body)])


def test_an_answer_goes_out_chunk_by_chunk_with_its_status_and_headers() -> None:
    provider, connection = speaking(b"\x00\xff", b"more"), asking()
    provider.answer_status = 206
    run(serve(provider, connection))
    assert connection.sent == [
        {"type": "http.response.start", "status": 206, "headers": SOUND},
        {"type": "http.response.body", "body": b"\x00\xff", "more_body": True},
        {"type": "http.response.body", "body": b"more", "more_body": True},
        {"type": "http.response.body", "body": b""},
    ]
    assert provider.answers[0].closed == 1
    assert provider.sent == []


def test_a_chunk_goes_out_before_the_next_one_has_come() -> None:
    async def main() -> None:
        gate = asyncio.Event()
        provider, connection = speaking(b"data: 1\n\n", gate, b"data: 2\n\n", headers=EVENTS), asking()
        serving = asyncio.ensure_future(serve(provider, connection))
        while len(connection.sent) < 2:  # noqa: ASYNC110  # the test's own clock
            await asyncio.sleep(0)
        assert connection.body == b"data: 1\n\n"
        assert (b"x-accel-buffering", b"no") in connection.sent[0]["headers"]
        gate.set()
        await serving
        assert connection.body == b"data: 1\n\ndata: 2\n\n"

    run(main())


@pytest.mark.parametrize("method", ["GET", "HEAD", "PUT", "PATCH", "DELETE"])
def test_every_method_goes_on(method: str) -> None:
    provider = speaking(b"{}")
    answer = run(ask(open_rooms(provider, models=[model_config(None)]), method, "/v1/files/f?limit=1"))
    assert (answer.status_code, answer.headers["openai-version"]) == (200, "1")
    assert [(request.method, request.path, request.query) for request in provider.forwarded] == [(method, "/files/f", b"limit=1")]


@pytest.mark.parametrize("method", ["OPTIONS", "TRACE", "CONNECT", "PROPFIND"])
def test_other_methods_do_not(method: str) -> None:
    provider = speaking(b"{}")
    answer = run(ask(open_rooms(provider, models=[model_config(None)]), method, "/v1/files"))
    assert (answer.status_code, answer.json()["error"]["code"]) == (405, "METHOD_NOT_ALLOWED")
    assert provider.forwarded == []


def test_a_refusal_is_answered_in_our_own_words() -> None:
    answer = run(ask(open_rooms(speaking(refusal=ProviderRateLimit("Too many requests."))), "POST", "/v1/embeddings", SPEECH))
    assert (answer.status_code, answer.json()["error"]["code"], answer.headers["retry-after"]) == (
        429,
        "PROVIDER_RATE_LIMIT",
        "1",
    )


def test_a_gateway_that_shuts_down_takes_nothing_new() -> None:
    provider = speaking(b"{}")
    rooms = open_rooms(provider)
    rooms.draining = True
    answer = run(ask(rooms, "POST", "/v1/embeddings", SPEECH))
    assert (answer.status_code, answer.json()["error"]["code"]) == (503, "SHUTTING_DOWN")
    assert provider.forwarded == []


def test_a_broken_answer_has_no_end() -> None:
    async def main() -> None:
        provider, connection = speaking(b"half", ProviderUnreachable("gone")), asking()
        with pytest.raises(ProviderUnreachable):
            await serve(provider, connection)
        assert connection.sent[-1] == {"type": "http.response.body", "body": b"half", "more_body": True}
        assert provider.answers[0].closed == 1

    run(main())


@pytest.mark.parametrize(
    ("last", "between"),
    [(b"data: 1\n\n", b""), (b"data: 1\r\n\r\n", b""), (b"data: 1\r\r", b""), (b"data: 1", b"\n\n"), (None, b"")],
)
def test_a_broken_stream_of_events_ends_with_an_error(last: bytes | None, between: bytes) -> None:
    async def main() -> None:
        pieces = [last] if last else []
        scope = scope_of()
        connection = asking()
        await serve(speaking(*pieces, ProviderTimeout("silent"), headers=EVENTS), connection, scope)
        event, done = connection.body.removeprefix((last or b"") + between).split(b"\n\n", 1)
        assert json.loads(event.removeprefix(b"data: "))["error"]["code"] == "PROVIDER_TIMEOUT"
        assert done == b"data: [DONE]\n\n"
        assert not connection.sent[-1].get("more_body")
        assert scope["state"]["code"] == "PROVIDER_TIMEOUT"

    run(main())


def test_a_compressed_stream_of_events_that_breaks_has_no_end_either() -> None:
    async def main() -> None:
        compressed = [*EVENTS, (b"content-encoding", b"gzip")]
        connection = asking()
        with pytest.raises(ProviderUnreachable):
            await serve(speaking(b"\x1f\x8b", ProviderUnreachable("gone"), headers=compressed), connection)
        assert connection.body == b"\x1f\x8b"

    run(main())


@pytest.mark.parametrize("headers", [SOUND, EVENTS])
def test_a_client_that_leaves_in_the_middle_closes_the_call(headers: Any) -> None:
    async def main() -> None:
        provider, connection = speaking(b"one", asyncio.Event(), headers=headers), asking()
        connection.after_send = lambda number: connection.leaves.set() if number == 2 else None
        with pytest.raises(ClientCancelled):
            await serve(provider, connection)
        assert provider.answers[0].closed == 1
        assert connection.body == b"one"

    run(main())


def test_a_client_that_leaves_before_the_answer_ends_the_call() -> None:
    async def main() -> None:
        provider, connection = speaking(b"one"), asking()
        provider.hold = asyncio.Event()
        connection.leaves.set()
        with pytest.raises(ClientCancelled):
            await serve(provider, connection)
        assert provider.answers == []
        task = asyncio.current_task()
        assert task is not None
        assert task.cancelling() == 0

    run(main())


@pytest.mark.parametrize(("headers", "begun"), [(SOUND, True), (EVENTS, True), (SOUND, False)])
def test_the_end_of_the_grace_is_told_where_it_can_be(headers: Any, begun: bool) -> None:
    async def main() -> None:
        provider, connection = speaking(b"data: 1\n\n", asyncio.Event(), headers=headers), asking()
        if not begun:
            provider.hold = asyncio.Event()
        serving = asyncio.ensure_future(serve(provider, connection))
        await asyncio.sleep(0.01)
        serving.cancel()
        if headers is EVENTS:
            await serving
            assert b"SHUTTING_DOWN" in connection.body
            assert connection.body.endswith(b"data: [DONE]\n\n")
        else:
            with pytest.raises(ShuttingDown):
                await serving
        assert [answer.closed for answer in provider.answers] == [1] * begun

    run(main())


class Sender(FakeProvider):
    """Learns, like a real one, only that the upload broke."""

    async def forward(self, request: ForwardedRequest) -> Forwarded:
        try:
            return await super().forward(request)
        except (PayloadTooLarge, ClientCancelled) as error:
            raise ProviderUnreachable("broken") from error


def uploading(*pieces: bytes, ends: bool = True) -> Connection:
    last = len(pieces) - 1
    return Connection([body_message(piece, more=not ends or place < last) for place, piece in enumerate(pieces)])


def test_an_upload_that_grows_too_large_under_way_is_told_as_that() -> None:
    async def main() -> None:
        connection = uploading(b"x" * 65_536, b"y" * 10, b"z")
        settings = Settings(server=ServerSettings(max_body_bytes=65_540))
        with pytest.raises(PayloadTooLarge):
            await serve(Sender(), connection, scope_of("/v1/files", content_type="audio/wav"), settings=settings)
        assert connection.sent == []

    run(main())


def test_a_client_that_leaves_during_its_upload_is_no_fault_of_the_provider() -> None:
    async def main() -> None:
        connection = uploading(b"x" * 65_536, ends=False)
        connection.leaves.set()
        with pytest.raises(ClientCancelled):
            await serve(Sender(), connection, scope_of("/v1/files", content_type="audio/wav"))

    run(main())


def test_a_client_that_leaves_after_its_upload_ends_the_call() -> None:
    async def main() -> None:
        provider = speaking(b"one")
        provider.hold = asyncio.Event()
        connection = uploading(b"x" * 65_536, b"y")
        connection.leaves.set()
        with pytest.raises(ClientCancelled):
            await serve(provider, connection, scope_of("/v1/files", content_type="audio/wav"))
        assert len(provider.forwarded[0].body) == 65_537  # type: ignore[arg-type]

    run(main())


def test_a_provider_that_fails_during_an_upload_is_told_as_that() -> None:
    async def main() -> None:
        provider = speaking(refusal=ProviderUnreachable("gone"))
        with pytest.raises(ProviderUnreachable):
            await serve(provider, uploading(b"x" * 65_536, b"y"), scope_of("/v1/files", content_type="audio/wav"))

    run(main())


def test_after_the_last_word_a_departure_means_nothing() -> None:
    async def main() -> None:
        later, connection = asyncio.Event(), asking()
        asyncio.get_running_loop().call_later(2 * START_S, later.set)  # the watch has begun by then
        connection.after_send = lambda number: connection.leaves.set() if number == 3 else None
        await serve(speaking(later, b"one"), connection)
        await asyncio.sleep(0.01)
        assert [message.get("more_body") for message in connection.sent] == [None, True, None]
        assert len(asyncio.all_tasks()) == 1

    run(main())


def test_a_chunk_waits_for_a_client_that_reads_slowly() -> None:
    async def main() -> None:
        provider, connection = speaking(*[b"x"] * 5), asking()
        drained = asyncio.Event()
        plain_send = connection.send

        async def slow_send(message: Any) -> None:
            await plain_send(message)
            if len(connection.sent) == 2:
                await drained.wait()

        connection.send = slow_send  # type: ignore[method-assign]
        serving = asyncio.ensure_future(serve(provider, connection))
        await asyncio.sleep(0.02)
        assert connection.body == b"x"
        drained.set()
        await serving
        assert connection.body == b"xxxxx"

    run(main())


def test_errors_of_the_request_are_json_like_everywhere() -> None:
    rooms = open_rooms(speaking(b"{}"), models=[model_config()])
    answer = run(ask(rooms, "POST", "/v1/embeddings", {"model": "else"}, {"content-type": "application/json"}))
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "MODEL_NOT_FOUND")


def test_nothing_of_it_is_remembered() -> None:
    async def main() -> None:
        rooms = open_rooms(speaking(b"{}"))
        await rooms.store.open()
        answer = await ask(rooms, "POST", "/v1/embeddings", SPEECH, {"x-context-chat-id": "c"})
        assert answer.status_code == 200
        assert await rooms.store.latest("", "c") is None

    run(main())
