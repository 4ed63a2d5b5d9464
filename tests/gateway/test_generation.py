"""The story: fitted, remembered, sent, handed over; and its audit has ended before the last bytes are given out."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from gateway.chat import ChatRequest, ContextOptions
from gateway.errors import (
    ClientCancelled,
    GatewayError,
    Internal,
    ModelNotFound,
    ProviderContextOverflow,
    ProviderStreamError,
    StoreUnavailable,
    TokenBudgetExceeded,
)
from gateway.generation import Generation, GenerationFailed
from gateway.stores.base import AuditOutcome, AuditStatus, AuditStore
from gateway.stores.memory import MemoryStore
from gateway.telemetry import Telemetry
from tests.support.doubles import ANSWER, CHUNK, DONE, USAGE, BrokenStore, FakeProvider, SlowStore
from tests.support.rooms import only_audit, open_rooms, run
from tests.support.small_chats import chat_request, model_config, turns


def left() -> GatewayError:
    return ClientCancelled("left")


def request(*, stream: bool = False, messages: list[dict[str, Any]] | None = None, **changes: Any) -> ChatRequest:
    return chat_request(messages or turns(3), stream=stream, options=ContextOptions(chat_id="c"), **changes)


async def outcome_of(store: AuditStore) -> AuditOutcome | None:
    return (await only_audit(store)).outcome


def told(
    provider: FakeProvider, work: Callable[[Generation, AuditStore], Awaitable[None]], **changes: Any
) -> AuditOutcome | None:
    """Runs a generation and the work on it; how its audit ended."""

    async def story() -> AuditOutcome | None:
        store = MemoryStore()
        await store.open()
        rooms = open_rooms(provider, store=store)
        generation = await rooms.engine.generations.generate(request(**changes), left)
        await work(generation, store)
        await generation.aclose()
        return await outcome_of(store)

    return run(story())


async def read_all(generation: Generation, store: AuditStore) -> None:
    while await generation.read():
        pass


def test_the_audit_is_open_before_the_provider_is_called() -> None:
    async def story() -> None:
        store, provider = MemoryStore(), FakeProvider()
        await store.open()
        seen: list[int] = []
        provider.before_send = lambda: seen.append(len(store._audits or {}))
        await open_rooms(provider, store=store).engine.generations.generate(request(), left)
        assert seen == [1]

    run(story())


def test_the_provider_gets_the_fitted_request_and_the_clients_authorization() -> None:
    provider = FakeProvider()
    told(provider, read_all, stream=True, authorization="Bearer theirs", messages=turns(15))
    sent = provider.sent[0]
    assert (sent.stream, sent.authorization) == (True, "Bearer theirs")
    assert len(json.loads(sent.body)["messages"]) == 8


def test_a_plain_answer_completes_the_audit_before_it_is_given_out() -> None:
    async def work(generation: Generation, store: AuditStore) -> None:
        assert not generation.streamed
        assert await generation.read() == ANSWER
        assert await outcome_of(store) is not None
        assert await generation.read() == b""

    outcome = told(FakeProvider(), work)
    assert outcome is not None
    assert (outcome.status, outcome.usage, outcome.finish_reason) == (AuditStatus.COMPLETED, USAGE, "stop")


@pytest.mark.parametrize("last", [DONE, b"data: [DONE]\r\n\r\n", CHUNK + DONE])
def test_a_stream_completes_the_audit_before_its_last_bytes_are_given_out(last: bytes) -> None:
    async def work(generation: Generation, store: AuditStore) -> None:
        assert generation.streamed
        assert await generation.read() == CHUNK
        assert await outcome_of(store) is None
        assert await generation.read() == last
        assert await outcome_of(store) is not None

    outcome = told(FakeProvider(CHUNK, last), work, stream=True)
    assert outcome is not None
    assert outcome.status is AuditStatus.COMPLETED


@pytest.mark.parametrize("pieces", [(CHUNK,), (CHUNK, b"")])
def test_a_stream_without_its_last_word_completes_at_its_end(pieces: tuple[bytes, ...]) -> None:
    outcome = told(FakeProvider(*pieces), read_all, stream=True)
    assert outcome is not None
    assert outcome.status is AuditStatus.COMPLETED


@pytest.mark.parametrize("talks", [b'data: {"choices":[{"index":0,"delta":{"content":"[DONE]"}}]}\n\n', CHUNK + DONE])
def test_only_the_reply_says_when_it_has_ended(talks: bytes) -> None:
    async def work(generation: Generation, store: AuditStore) -> None:
        assert await generation.read() == talks
        assert await outcome_of(store) is None

    told(FakeProvider(talks, DONE), work, stream=True)


def test_an_error_while_reading_fails_the_audit() -> None:
    error = ProviderStreamError("broken")

    async def work(generation: Generation, store: AuditStore) -> None:
        await generation.read()
        with pytest.raises(ProviderStreamError):
            await generation.read()

    outcome = told(FakeProvider(CHUNK, error), work, stream=True)
    assert outcome is not None
    assert (outcome.status, outcome.error_code, outcome.usage) == (AuditStatus.FAILED, "PROVIDER_STREAM_ERROR", USAGE)


def test_an_overflow_in_the_middle_of_a_stream_is_told_in_the_words_of_clients() -> None:
    async def work(generation: Generation, store: AuditStore) -> None:
        await generation.read()
        with pytest.raises(ProviderContextOverflow, match="maximum context length is 100 tokens"):
            await generation.read()

    told(FakeProvider(CHUNK, ProviderContextOverflow("theirs")), work, stream=True)


def test_a_defect_while_reading_fails_the_audit_and_is_told_to_the_log_alone(caplog: pytest.LogCaptureFixture) -> None:
    async def work(generation: Generation, store: AuditStore) -> None:
        with pytest.raises(Internal) as caught:
            await generation.read()
        assert "the secret" not in caught.value.message
        assert isinstance(caught.value.__cause__, ZeroDivisionError)

    outcome = told(FakeProvider(ZeroDivisionError("the secret")), work, stream=True)
    assert outcome is not None
    assert (outcome.status, outcome.error_code, outcome.usage) == (AuditStatus.FAILED, "INTERNAL", USAGE)
    assert "the secret" in caplog.text


def test_closing_ends_the_reply_and_with_an_error_the_audit() -> None:
    provider = FakeProvider(CHUNK, DONE)

    async def work(generation: Generation, store: AuditStore) -> None:
        await generation.aclose(left())
        await generation.aclose(ProviderStreamError("too late"))

    outcome = told(provider, work, stream=True)
    assert outcome is not None
    assert (outcome.status, outcome.error_code) == (AuditStatus.CANCELLED, "CLIENT_CANCELLED")
    assert provider.replies[0].closed == 3


def test_a_generation_that_is_closed_before_its_end_without_a_reason_has_failed() -> None:
    async def work(generation: Generation, store: AuditStore) -> None:
        assert await generation.read() == CHUNK

    outcome = told(FakeProvider(CHUNK, DONE), work, stream=True)
    assert outcome is not None
    assert (outcome.status, outcome.error_code) == (AuditStatus.FAILED, "INTERNAL")


def failed(provider: FakeProvider, chat: ChatRequest) -> tuple[GenerationFailed, AuditOutcome]:
    async def story() -> tuple[GenerationFailed, AuditOutcome]:
        store = MemoryStore()
        await store.open()
        with pytest.raises(GenerationFailed) as caught:
            await open_rooms(provider, store=store).engine.generations.generate(chat, left)
        outcome = await outcome_of(store)
        assert outcome is not None
        return caught.value, outcome

    return run(story())


def test_what_cannot_fit_is_remembered_and_never_sent() -> None:
    provider = FakeProvider()
    error, outcome = failed(provider, request(messages=[{"role": "user", "content": "word " * 200}]))
    assert isinstance(error.error, TokenBudgetExceeded)
    assert error.prepared.deficit > 0
    assert error.audit.ended
    assert (outcome.status, outcome.error_code) == (AuditStatus.FAILED, "TOKEN_BUDGET_EXCEEDED")
    assert provider.sent == []


def test_a_refusal_of_the_provider_is_remembered_in_the_words_of_clients() -> None:
    error, outcome = failed(FakeProvider(refusal=ProviderContextOverflow("theirs", metadata={"providerLimit": 50})), request())
    assert "maximum context length is 50 tokens" in error.error.message
    assert str(error) == error.error.message
    assert outcome.error_code == "PROVIDER_CONTEXT_OVERFLOW"


def test_an_error_before_anything_was_counted_leaves_no_audit() -> None:
    async def story() -> None:
        store = MemoryStore()
        await store.open()
        rooms = open_rooms(store=store, models=[model_config("other")])
        with pytest.raises(ModelNotFound):
            await rooms.engine.generations.generate(request(), left)
        assert await store.latest("", "c") is None

    run(story())


def test_without_a_store_nothing_is_sent() -> None:
    async def story() -> None:
        store, provider = BrokenStore("replace"), FakeProvider()
        await store.open()
        with pytest.raises(GenerationFailed) as caught:
            await open_rooms(provider, store=store).engine.generations.generate(request(), left)
        assert isinstance(caught.value.error, StoreUnavailable)
        assert caught.value.audit.ended
        assert caught.value.prepared.prompt_tokens == 33
        assert provider.sent == []
        assert await store.latest("", "c") is None

    run(story())


@pytest.mark.parametrize("where", ["sending", "reading"])
def test_a_defect_of_the_provider_fails_the_audit_and_is_told_to_the_log_alone(
    caplog: pytest.LogCaptureFixture, where: str
) -> None:
    defect = ZeroDivisionError("the secret")
    provider = FakeProvider(refusal=defect) if where == "sending" else FakeProvider(defect)
    error, outcome = failed(provider, request())
    assert [reply.closed for reply in provider.replies] == ([] if where == "sending" else [1])
    assert isinstance(error.error, Internal)
    assert isinstance(error.__cause__, ZeroDivisionError)
    assert (outcome.status, outcome.error_code) == (AuditStatus.FAILED, "INTERNAL")
    assert "the secret" not in error.error.message
    assert "the secret" in caplog.text


async def require_cancelled(task: asyncio.Task[Generation]) -> None:
    """The generation ended because of who cancelled it, and says so to whoever answers."""
    with pytest.raises(GenerationFailed) as caught:
        await task
    assert isinstance(caught.value.error, ClientCancelled)
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    assert caught.value.audit.ended


def test_a_departure_during_the_call_cancels_the_audit() -> None:
    async def story() -> None:
        store, provider = MemoryStore(), FakeProvider()
        await store.open()
        provider.hold, called = asyncio.Event(), asyncio.Event()
        provider.before_send = called.set
        task = asyncio.create_task(open_rooms(provider, store=store).engine.generations.generate(request(), left))
        await called.wait()
        task.cancel()
        await require_cancelled(task)
        outcome = await outcome_of(store)
        assert outcome is not None
        assert outcome.status is AuditStatus.CANCELLED

    run(story())


def test_a_departure_while_the_audit_is_being_opened_cancels_it_too() -> None:
    async def story() -> None:
        store, provider = SlowStore(), FakeProvider()
        await store.open()
        task = asyncio.create_task(open_rooms(provider, store=store).engine.generations.generate(request(), left))
        await store.committed.wait()
        task.cancel()
        store.say_so.set()
        await require_cancelled(task)
        outcome = await outcome_of(store)
        assert outcome is not None
        assert outcome.status is AuditStatus.CANCELLED
        assert provider.sent == []

    run(story())


def test_what_was_fitted_and_how_it_ended_is_counted_once() -> None:
    async def story() -> None:
        store, telemetry = MemoryStore(), Telemetry()
        await store.open()
        rooms = open_rooms(FakeProvider(CHUNK, DONE), store=store, telemetry=telemetry)
        for stream in (True, False):
            generation = await rooms.engine.generations.generate(request(stream=stream, messages=turns(15)), left)
            await read_all(generation, store)
            await generation.aclose()
        assert telemetry.generations.values == {("up", "m", "truncate", "completed", ""): 2}
        assert telemetry.excluded_blocks.values == {("context-shift",): 14}
        assert telemetry.count_error.sums == {("m",): pytest.approx(2 * 83 / 7)}
        assert telemetry.time_to_first_chunk.counts[("up", "m")].count(1) == 1

    run(story())


def test_a_refusal_is_counted_by_its_code() -> None:
    async def story() -> None:
        store, telemetry = MemoryStore(), Telemetry()
        await store.open()
        rooms = open_rooms(store=store, telemetry=telemetry)
        with pytest.raises(GenerationFailed):
            await rooms.engine.generations.generate(request(messages=turns(1, 200)), left)
        assert telemetry.generations.values == {("up", "m", "truncate", "failed", "TOKEN_BUDGET_EXCEEDED"): 1}
        assert telemetry.budget_exceeded.values == {("m",): 1}

    run(story())
