"""After an overflow: what the numbers say is believed, more leaves, one more try; and the next request starts from there."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

import pytest

from gateway.audit import decode_body, decode_summary
from gateway.chat import ChatRequest, ContextOptions
from gateway.errors import (
    ClientCancelled,
    GatewayError,
    ProviderContextOverflow,
    ProviderServerError,
    StoreUnavailable,
    TokenBudgetExceeded,
)
from gateway.generation import Generation, GenerationFailed
from gateway.stores.base import AuditHead, AuditStatus
from gateway.stores.memory import MemoryStore
from gateway.telemetry import Telemetry
from gateway.web.rooms import Rooms
from tests.support.doubles import ANSWER, CHUNK, DONE, FakeProvider
from tests.support.rooms import only_audit, open_rooms, run
from tests.support.small_chats import chat_request, model_config, turns

# Each message counts 10 tokens, the primer 3; the limit is 100, the reserve 10.
NUMBERS = ("providerLimit", "providerPromptTokens")


def left() -> GatewayError:
    return ClientCancelled("left")


def overflow(limit: int | None = None, prompt: int | None = None) -> ProviderContextOverflow:
    named = {name: number for name, number in zip(NUMBERS, (limit, prompt), strict=True) if number is not None}
    return ProviderContextOverflow("theirs", metadata=named)


def request(count: int = 15, **changes: Any) -> ChatRequest:
    return chat_request(turns(count), options=ContextOptions(chat_id="c"), **changes)


class RefusingProvider(FakeProvider):
    """Refuses the first requests, each with the next of these errors."""

    def __init__(self, *refusals: Exception, pieces: Sequence[bytes] = (ANSWER,)) -> None:
        super().__init__(*pieces)
        self.refusals = list(refusals)
        self.before_send = self.next_refusal

    def next_refusal(self) -> None:
        self.refusal = self.refusals.pop(0) if self.refusals else None

    @property
    def sizes(self) -> list[int]:
        """How many messages each request had."""
        return [len(json.loads(sent.body)["messages"]) for sent in self.sent]


Story = Callable[[Rooms, MemoryStore], Awaitable[None]]


def told(provider: FakeProvider, story: Story, **model: Any) -> None:
    async def whole() -> None:
        store = MemoryStore()
        await store.open()
        await story(open_rooms(provider, store=store, models=[model_config(**model)]), store)

    run(whole())


async def generate(rooms: Rooms, chat: ChatRequest) -> Generation:
    return await rooms.engine.generations.generate(chat, left)


async def fails(rooms: Rooms, chat: ChatRequest) -> GenerationFailed:
    with pytest.raises(GenerationFailed) as caught:
        await generate(rooms, chat)
    return caught.value


@pytest.mark.parametrize(
    ("refusal", "sizes"),
    [
        (overflow(limit=75), [8, 6]),  # 65 for the prompt
        (overflow(limit=75, prompt=83), [8, 6]),
        (overflow(limit=75, prompt=90), [8, 5]),  # both: 90 ÷ 83 is 18 sixteenths, 65 × 16 ÷ 18 = 57
        (overflow(prompt=104), [8, 6]),  # 104 ÷ 83 is 21 sixteenths: 90 × 16 ÷ 21 = 68
        (overflow(limit=100, prompt=104), [8, 6]),
        (overflow(), [8, 6]),  # three quarters of 90 are 67
        (overflow(limit=100), [8, 6]),  # explains nothing
        (overflow(limit=95), [8, 6]),  # 85 for the prompt, which it had: explains nothing either
        (overflow(limit=40), [8, 2]),
    ],
)
def test_more_leaves_by_their_numbers_and_without_any_by_a_quarter(refusal: ProviderContextOverflow, sizes: list[int]) -> None:
    provider = RefusingProvider(refusal)

    async def story(rooms: Rooms, store: MemoryStore) -> None:
        generation = await generate(rooms, request())
        assert await generation.read() == ANSWER
        await generation.aclose()
        assert provider.sizes == sizes

    told(provider, story)


def test_the_audit_the_headers_and_what_was_sent_agree_after_the_second_try() -> None:
    provider = RefusingProvider(overflow(limit=75, prompt=90))

    async def story(rooms: Rooms, store: MemoryStore) -> None:
        generation = await generate(rooms, request())
        prepared = await only_audit(store)
        assert prepared.outcome is None
        assert await generation.read() == ANSWER
        audit = await only_audit(store)
        assert audit.head.key == generation.audit.key
        assert audit.outcome is not None
        assert audit.outcome.status is AuditStatus.COMPLETED
        summary, body = decode_summary(audit.head.document), decode_body(audit.body or b"")
        assert summary.context_limit == generation.prepared.budget.context_limit == 75
        assert summary.prompt_tokens == generation.prepared.prompt_tokens == 53
        assert len(body.provider_messages()) == 5
        assert sum(block.tokens for block in body.blocks if block.included) == 53
        remark = summary.diagnostics[-1]
        assert (remark.code, remark.level) == ("overflow-retry", "warning")
        assert "83 tokens" in remark.message
        assert "its limit 75, its count 90" in remark.message

    told(provider, story)


def test_the_next_request_starts_from_what_was_learned_and_so_does_a_preview() -> None:
    provider = RefusingProvider(overflow(limit=75))

    async def story(rooms: Rooms, store: MemoryStore) -> None:
        for _ in range(2):
            await (await generate(rooms, request())).aclose()
        assert provider.sizes == [8, 6, 6]
        preview = await rooms.engine.preparer.prepare(request())
        assert (preview.budget.context_limit, preview.prompt_tokens) == (75, 63)
        assert [remark.code for remark in preview.diagnostics] == ["learned-from-overflow"]
        assert "75 tokens" in preview.diagnostics[0].message

    told(provider, story)


def test_what_one_key_taught_does_not_bind_another() -> None:
    provider = RefusingProvider(overflow(limit=75))

    async def story(rooms: Rooms, store: MemoryStore) -> None:
        await (await generate(rooms, request(authorization="Bearer a"))).aclose()
        await (await generate(rooms, request(authorization="Bearer b"))).aclose()
        assert provider.sizes == [8, 6, 8]

    told(provider, story)


def test_an_overflow_without_numbers_is_remembered_as_a_factor() -> None:
    provider = RefusingProvider(overflow())

    async def story(rooms: Rooms, store: MemoryStore) -> None:
        for _ in range(2):
            await (await generate(rooms, request())).aclose()
        assert provider.sizes == [8, 6, 6]  # 90 × 16 ÷ 22 = 65
        preview = await rooms.engine.preparer.prepare(request())
        assert preview.budget.prompt_limit == 65
        assert preview.budget.hard_limit == 90
        assert "1.375" in preview.diagnostics[0].message

    told(provider, story)


def test_a_second_overflow_is_the_answer_with_the_numbers_of_the_second_try_and_teaches_too() -> None:
    provider = RefusingProvider(overflow(), overflow(limit=50))

    async def story(rooms: Rooms, store: MemoryStore) -> None:
        failed = await fails(rooms, request())
        assert isinstance(failed.error, ProviderContextOverflow)
        assert "maximum context length is 50 tokens" in failed.error.message
        assert "(63 in the messages" in failed.error.message
        assert failed.prepared.prompt_tokens == 63
        audit = await only_audit(store)
        assert audit.outcome is not None
        assert (audit.outcome.status, audit.outcome.error_code) == (AuditStatus.FAILED, "PROVIDER_CONTEXT_OVERFLOW")
        await (await generate(rooms, request())).aclose()
        assert provider.sizes == [8, 6, 2]  # 40 × 16 ÷ 22 = 29

    told(provider, story)


@pytest.mark.parametrize("refusal", [overflow(), overflow(limit=5), overflow(limit=20, prompt=90), overflow(limit=99)])
def test_it_is_not_tried_again_when_nothing_more_can_leave(refusal: ProviderContextOverflow) -> None:
    provider = RefusingProvider(refusal)

    async def story(rooms: Rooms, store: MemoryStore) -> None:
        failed = await fails(rooms, request(1))
        assert isinstance(failed.error, ProviderContextOverflow)
        assert provider.sizes == [1]
        audit = await only_audit(store)
        assert audit.outcome is not None
        assert audit.outcome.error_code == "PROVIDER_CONTEXT_OVERFLOW"

    told(provider, story)


def test_a_limit_that_was_learned_refuses_what_can_not_fit_before_it_is_sent() -> None:
    provider = RefusingProvider(overflow(limit=12))

    async def story(rooms: Rooms, store: MemoryStore) -> None:
        await fails(rooms, request(1))
        failed = await fails(rooms, request(1))
        assert isinstance(failed.error, TokenBudgetExceeded)
        assert failed.error.metadata["contextLimit"] == 12
        assert provider.sizes == [1]

    told(provider, story)


@pytest.mark.parametrize("stream", [False, True])
def test_only_an_overflow_is_tried_again(stream: bool) -> None:
    provider = RefusingProvider(ProviderServerError("failed"))

    async def story(rooms: Rooms, store: MemoryStore) -> None:
        failed = await fails(rooms, request(stream=stream))
        assert isinstance(failed.error, ProviderServerError)
        assert provider.sizes == [8]

    told(provider, story)


def test_another_error_of_the_second_try_is_the_answer() -> None:
    provider = RefusingProvider(overflow(), ProviderServerError("failed"))

    async def story(rooms: Rooms, store: MemoryStore) -> None:
        failed = await fails(rooms, request())
        assert isinstance(failed.error, ProviderServerError)
        assert provider.sizes == [8, 6]

    told(provider, story)


def test_an_overflow_inside_a_good_status_is_one_as_long_as_nothing_was_given_out() -> None:
    class SaysSoLate(FakeProvider):
        """Opens a reply that turns out to be an overflow."""

        async def send(self, outgoing: Any) -> Any:
            reply = await super().send(outgoing)
            self.pieces = (ANSWER,)
            return reply

    provider = SaysSoLate(overflow(limit=75))

    async def story(rooms: Rooms, store: MemoryStore) -> None:
        generation = await generate(rooms, request())
        assert await generation.read() == ANSWER
        assert [reply.closed for reply in provider.replies] == [1, 0]

    told(provider, story)


def test_after_the_first_bytes_of_a_stream_it_is_too_late() -> None:
    provider = FakeProvider(CHUNK, overflow(limit=75), DONE)

    async def story(rooms: Rooms, store: MemoryStore) -> None:
        generation = await generate(rooms, request(stream=True))
        await generation.read()
        with pytest.raises(ProviderContextOverflow):
            await generation.read()
        assert len(provider.sent) == 1

    told(provider, story)


def test_a_fallback_that_fits_may_serve_the_second_try() -> None:
    provider = RefusingProvider(overflow(limit=12))

    async def whole() -> None:
        store = MemoryStore()
        await store.open()
        models = [model_config(fallbacks=("large",)), model_config("large", context_limit=200)]
        rooms = open_rooms(provider, store=store, models=models)
        generation = await generate(rooms, request(3))
        assert generation.prepared.upstream_model == "large"
        assert provider.sizes == [3, 3]
        await generation.aclose()

    run(whole())


def test_the_second_try_waits_for_its_audit_and_is_not_made_without() -> None:
    class NoSecondTime(MemoryStore):
        async def amend(self, head: AuditHead, body: bytes) -> None:
            raise StoreUnavailable("the disk is full")

    provider = RefusingProvider(overflow(limit=75))

    async def whole() -> None:
        store = NoSecondTime()
        await store.open()
        failed = await fails(open_rooms(provider, store=store), request())
        assert isinstance(failed.error, StoreUnavailable)
        assert provider.sizes == [8]

    run(whole())


def test_a_newer_request_of_the_chat_keeps_its_audit() -> None:
    provider = RefusingProvider(overflow(limit=75))

    async def whole() -> None:
        store = MemoryStore()
        await store.open()
        rooms = open_rooms(provider, store=store)
        newer: list[Generation] = []

        async def meanwhile(head: AuditHead, body: bytes) -> None:
            newer.append(await generate(rooms, request(3)))
            await MemoryStore.amend(store, head, body)

        store.amend = meanwhile  # type: ignore[method-assign]
        older = await generate(rooms, request())
        await older.read()
        await newer[0].read()
        audit = await only_audit(store)
        assert audit.head.key == newer[0].audit.key
        assert decode_summary(audit.head.document).prompt_tokens == 33

    run(whole())


@pytest.mark.parametrize(
    ("refusals", "count", "outcome"),
    [([overflow()], 15, "recovered"), ([overflow(), overflow()], 15, "failed"), ([overflow()], 1, "failed")],
)
def test_overflows_are_counted_by_how_they_ended(refusals: list[Exception], count: int, outcome: str) -> None:
    async def whole() -> None:
        store, telemetry = MemoryStore(), Telemetry()
        await store.open()
        rooms = open_rooms(RefusingProvider(*refusals), store=store, telemetry=telemetry)
        with contextlib.suppress(GenerationFailed):
            await (await generate(rooms, request(count))).aclose()
        assert telemetry.overflows.values == {("up", "m", outcome): 1}
        assert (telemetry.learned_factor.values != {}) == (count > 1)

    run(whole())
