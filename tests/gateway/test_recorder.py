"""An audit is open before the network call and ends exactly once, whatever happens to the request or to the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import SimpleNamespace

import pytest

from gateway import recorder as recorder_module
from gateway.audit import decode_body, decode_summary
from gateway.chat import ContextOptions
from gateway.errors import ClientCancelled, GatewayError, ProviderTimeout, ShuttingDown, StoreUnavailable
from gateway.prepared import PreparedPrompt
from gateway.recorder import AuditRecorder, OpenAudit
from gateway.stores.base import AuditStatus, AuditStore, StoredAudit
from gateway.stores.memory import MemoryStore
from gateway.stores.sqlite import SqliteStore
from gateway.telemetry import Telemetry
from tests.support.doubles import USAGE, BrokenStore, SlowStore
from tests.support.rooms import only_audit, run
from tests.support.small_chats import chat_request, prepared_prompt


def prompt(**options: object) -> PreparedPrompt:
    return prepared_prompt(chat_request([{"role": "user", "content": "a"}], options=ContextOptions(**{"chat_id": "c"} | options)))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is always the same second."""
    monkeypatch.setattr(recorder_module, "time", SimpleNamespace(time=lambda: 1000.0))


def left() -> GatewayError:
    return ClientCancelled("left")


async def opened(recorder: AuditRecorder, **options: object) -> OpenAudit:
    """An audit whose head is stored."""
    audit = recorder.begin(prompt(**options))
    await audit.open()
    return audit


def recorded(work: Callable[[AuditRecorder, OpenAudit], Awaitable[None]], store: AuditStore | None = None) -> StoredAudit:
    """Opens an audit, does the work, and gives back what the store holds of it."""
    kept = store or MemoryStore()

    async def story() -> StoredAudit:
        await kept.open()
        recorder = AuditRecorder(kept, Telemetry())
        audit = await opened(recorder)
        await work(recorder, audit)
        found = await only_audit(kept)
        assert found.head.key == audit.key
        await kept.aclose()
        return found

    return run(story())


async def nothing(recorder: AuditRecorder, audit: OpenAudit) -> None:
    assert not audit.ended


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
def test_an_open_audit_is_prepared_and_whole(kind: str, tmp_path: Path) -> None:
    store = MemoryStore() if kind == "memory" else SqliteStore.from_url(f"sqlite:///{tmp_path / 'audits.db'}")
    found = recorded(nothing, store)
    assert found.outcome is None
    assert (found.head.model, found.head.created_at, found.head.auxiliary) == ("m", 1000.0, False)
    assert decode_summary(found.head.document).prompt_tokens == 90
    assert found.body is not None
    assert list(map(bytes, decode_body(found.body).messages)) == [b'{"role":"user","content":"a"}']


@pytest.mark.parametrize(
    ("options", "auxiliary", "own_id"),
    [
        ({}, False, False),
        ({"chat_id": None}, False, True),
        ({"auxiliary": True}, True, True),
        ({"chat_id": None, "auxiliary": True}, True, True),
    ],
)
def test_an_audit_without_a_chat_is_kept_under_its_own_id(options: dict[str, object], auxiliary: bool, own_id: bool) -> None:
    async def story() -> None:
        store = MemoryStore()
        await store.open()
        audit = await opened(AuditRecorder(store, Telemetry()), **options)
        assert audit.key.generation_id.startswith("gen_")
        assert audit.key.chat_id == (audit.key.generation_id if own_id else "c")
        assert (await only_audit(store, audit.key.chat_id)).head.auxiliary is auxiliary

    run(story())


def test_a_whole_reply_completes_it() -> None:
    async def work(recorder: AuditRecorder, audit: OpenAudit) -> None:
        await audit.complete(usage=USAGE, finish_reason="stop")
        assert audit.ended

    outcome = recorded(work).outcome
    assert outcome is not None
    assert (outcome.status, outcome.error_code, outcome.usage) == (AuditStatus.COMPLETED, None, USAGE)
    assert (outcome.finish_reason, outcome.finished_at) == ("stop", 1000.0)


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (ProviderTimeout("slow"), AuditStatus.FAILED),
        (ShuttingDown("down"), AuditStatus.FAILED),
        (ClientCancelled("left"), AuditStatus.CANCELLED),
    ],
)
def test_an_error_fails_it_and_a_departure_cancels_it(error: GatewayError, status: AuditStatus) -> None:
    async def work(recorder: AuditRecorder, audit: OpenAudit) -> None:
        await audit.fail(error, usage=USAGE)

    outcome = recorded(work).outcome
    assert outcome is not None
    assert (outcome.status, outcome.error_code, outcome.usage, outcome.finish_reason) == (status, error.code, USAGE, None)


def test_the_first_end_is_the_one_that_counts() -> None:
    store = SlowStore()
    store.say_so.set()

    async def work(recorder: AuditRecorder, audit: OpenAudit) -> None:
        await asyncio.gather(audit.fail(left()), audit.complete(usage=None, finish_reason=None), audit.fail(left()))

    outcome = recorded(work, store).outcome
    assert outcome is not None
    assert outcome.status is AuditStatus.CANCELLED
    assert store.ends == 1


@pytest.mark.parametrize(
    ("raised", "why", "code"),
    [
        (ProviderTimeout("slow"), left, "PROVIDER_TIMEOUT"),
        (asyncio.CancelledError(), left, "CLIENT_CANCELLED"),
        (asyncio.CancelledError(), lambda: ShuttingDown("down"), "SHUTTING_DOWN"),
        (GeneratorExit(), left, "CLIENT_CANCELLED"),
        (ZeroDivisionError(), left, "INTERNAL"),
    ],
)
def test_whatever_leaves_the_block_ends_it(raised: BaseException, why: Callable[[], GatewayError], code: str) -> None:
    async def work(recorder: AuditRecorder, audit: OpenAudit) -> None:
        try:
            async with audit.finished_on_error(why):
                raise raised
        except type(raised):
            assert audit.ended

    outcome = recorded(work).outcome
    assert outcome is not None
    assert outcome.error_code == code


def test_a_block_that_ends_well_leaves_it_open() -> None:
    async def work(recorder: AuditRecorder, audit: OpenAudit) -> None:
        async with audit.finished_on_error(left):
            pass

    assert recorded(work).outcome is None


def test_a_store_that_fails_at_the_start_lets_nothing_be_sent() -> None:
    async def story() -> None:
        store = BrokenStore("replace")
        await store.open()
        recorder = AuditRecorder(store, Telemetry())
        audit = recorder.begin(prompt())
        with pytest.raises(StoreUnavailable):
            async with audit.finished_on_error(left):
                await audit.open()
        assert audit.ended
        assert await recorder.wait_idle(0.0)
        assert await store.latest("", "c") is None

    run(story())


def test_an_audit_counts_as_open_before_the_store_has_it() -> None:
    async def story() -> None:
        store = MemoryStore()
        await store.open()
        recorder = AuditRecorder(store, Telemetry())
        audit = recorder.begin(prompt())
        assert not await recorder.wait_idle(0.0)
        assert await store.latest("", "c") is None
        await audit.open()
        assert (await only_audit(store)).outcome is None

    run(story())


def test_a_departure_while_the_store_commits_cancels_it() -> None:
    async def story() -> None:
        store = SlowStore()
        await store.open()
        recorder = AuditRecorder(store, Telemetry())
        audit = recorder.begin(prompt())

        async def open_it() -> None:
            async with audit.finished_on_error(left):
                await audit.open()

        opening = asyncio.create_task(open_it())
        await store.committed.wait()
        opening.cancel()
        with pytest.raises(asyncio.CancelledError):
            await opening
        outcome = (await only_audit(store)).outcome
        assert outcome is not None
        assert (outcome.status, outcome.error_code) == (AuditStatus.CANCELLED, "CLIENT_CANCELLED")
        assert await recorder.wait_idle(0.0)

    run(story())


def test_a_store_that_fails_at_the_end_costs_nobody_anything(caplog: pytest.LogCaptureFixture) -> None:
    async def work(recorder: AuditRecorder, audit: OpenAudit) -> None:
        await audit.complete(usage=None, finish_reason="stop")
        assert await recorder.wait_idle(0.0)

    assert recorded(work, BrokenStore("finish")).outcome is None
    assert "could not be stored" in caplog.text


def test_a_cancelled_end_still_reaches_the_store() -> None:
    class Unhurried(MemoryStore):
        async def finish(self, key: object, outcome: object) -> None:
            await super().finish(key, outcome)  # type: ignore[arg-type]
            await asyncio.Event().wait()

    async def work(recorder: AuditRecorder, audit: OpenAudit) -> None:
        ending = asyncio.create_task(audit.complete(usage=None, finish_reason="stop"))
        await asyncio.sleep(0)
        ending.cancel()
        with pytest.raises(asyncio.CancelledError):
            await ending

    outcome = recorded(work, Unhurried()).outcome
    assert outcome is not None
    assert outcome.status is AuditStatus.COMPLETED


def test_the_recorder_is_idle_once_every_audit_has_ended() -> None:
    async def work(recorder: AuditRecorder, audit: OpenAudit) -> None:
        other = await opened(recorder)
        assert not await recorder.wait_idle(0.0)
        await other.fail(left())
        assert not await recorder.wait_idle(0.0)
        waiting = asyncio.create_task(recorder.wait_idle(5))
        await asyncio.sleep(0)
        await audit.fail(left())
        assert await waiting

    async def story() -> None:
        store = MemoryStore()
        await store.open()
        recorder = AuditRecorder(store, Telemetry())
        await work(recorder, await opened(recorder))

    run(story())
