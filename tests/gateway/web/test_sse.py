"""A stream is passed on as it is, and ends in order whatever happens to it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest

from gateway.chat import ContextOptions
from gateway.errors import ProviderRateLimit, ProviderStreamTruncated
from gateway.stores.base import AuditOutcome
from gateway.web.client_watch import ClientWatch
from gateway.web.sse import EventStream
from tests.support.doubles import CHUNK, DONE, FakeProvider
from tests.support.rooms import Connection, only_audit, open_rooms, run
from tests.support.small_chats import chat_request, turns

REPORT = b'"contextShift":{"a":1},'


class Streamed:
    """What came of a stream: what the client got, how the audit ended, and whether the stream was cancelled."""

    def __init__(self) -> None:
        self.connection = Connection()
        self.outcome: AuditOutcome | None = None
        self.cancelled = False
        self.generation_id = ""


def stream(
    provider: FakeProvider, *, report: bytes = b"", during: Callable[[asyncio.Task[None], Streamed], object] | None = None
) -> Streamed:
    """Streams an answer; `during` is called once the first chunk has been sent."""

    async def story() -> Streamed:
        found, rooms, task = Streamed(), open_rooms(provider), asyncio.current_task()
        await rooms.store.open()
        chat = chat_request(turns(3), stream=True, options=ContextOptions(chat_id="c"))
        if during is not None:
            found.connection.after_send = lambda number: during(task, found) if number == 2 else None  # type: ignore[arg-type]
        with ClientWatch(found.connection.receive) as watch:
            generation = await rooms.engine.generations.generate(chat, watch.why_cancelled)
            found.generation_id = generation.audit.key.generation_id
            try:
                await EventStream(generation, watch, [(b"x-own", b"1")], report).send(found.connection.send)
            except asyncio.CancelledError:
                found.cancelled = True
        found.outcome = (await only_audit(rooms.store)).outcome
        return found

    return run(story())


def broken_end(found: Streamed) -> dict[str, Any]:
    """The error object at the end of a stream."""
    last = found.connection.sent[-1]
    assert not last.get("more_body")
    assert last["body"].endswith(b"\n\ndata: [DONE]\n\n")
    error: dict[str, Any] = json.loads(last["body"].removeprefix(b"data: ").partition(b"\n\n")[0])["error"]
    return error


def test_a_stream_is_passed_on_byte_for_byte() -> None:
    found = stream(FakeProvider(b": wait\r\n\r\n" + CHUNK, CHUNK, DONE))
    assert found.connection.status == 200
    assert found.connection.body == b": wait\r\n\r\n" + CHUNK + CHUNK + DONE
    assert [message.get("more_body", False) for message in found.connection.sent[1:]] == [True, True, True, False]
    headers = dict(found.connection.sent[0]["headers"])
    assert headers == {
        b"content-type": b"text/event-stream",
        b"cache-control": b"no-cache",
        b"x-accel-buffering": b"no",
        b"x-own": b"1",
    }


def test_the_report_stands_in_the_first_chunk_alone() -> None:
    found = stream(FakeProvider(CHUNK, CHUNK, DONE), report=REPORT)
    assert found.connection.body == CHUNK.replace(b"{", b"{" + REPORT, 1) + CHUNK + DONE


def test_a_stream_of_nothing_but_its_end_stays_one() -> None:
    assert stream(FakeProvider(DONE), report=REPORT).connection.body == DONE


@pytest.mark.parametrize("error", [ProviderStreamTruncated("cut"), ProviderRateLimit("slowly", metadata={"providerStatus": 429})])
@pytest.mark.parametrize("before", [(), (CHUNK,)])
def test_a_broken_stream_ends_with_the_error_and_the_last_word(error: Any, before: tuple[bytes, ...]) -> None:
    found = stream(FakeProvider(*before, error))
    told = broken_end(found)
    assert (told["code"], told["message"], told["type"]) == (error.code, error.message, error.type)
    assert told["metadata"] == {**error.metadata, "generationId": found.generation_id}
    assert b"choices" not in found.connection.sent[-1]["body"]
    assert b"".join(before) == b"".join(message["body"] for message in found.connection.sent[1:-1])
    assert found.outcome is not None
    assert found.outcome.error_code == error.code


def test_a_departure_ends_the_stream_without_another_word() -> None:
    found = stream(FakeProvider(CHUNK, asyncio.Event(), DONE), during=lambda _, found: found.connection.leaves.set())
    assert found.cancelled
    assert len(found.connection.sent) == 2


def test_the_end_of_the_grace_is_told_and_fails_the_audit() -> None:
    found = stream(
        FakeProvider(CHUNK, asyncio.Event(), DONE), during=lambda task, _: asyncio.get_running_loop().call_soon(task.cancel)
    )
    assert not found.cancelled
    assert broken_end(found)["code"] == "SHUTTING_DOWN"
    assert found.outcome is not None
    assert (found.outcome.status.value, found.outcome.error_code) == ("failed", "SHUTTING_DOWN")


def test_a_departure_at_the_last_word_changes_nothing() -> None:
    found = stream(FakeProvider(DONE), during=lambda _, found: found.connection.leaves.set())
    assert found.outcome is not None
    assert found.outcome.status.value == "completed"
