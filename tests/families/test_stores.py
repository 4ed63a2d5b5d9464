"""The contract of every store, told once and held against each one on the list."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.errors import StoreUnavailable
from gateway.stores.base import AuditHead, AuditKey, AuditOutcome, AuditStatus, AuditStore, StoredAudit
from gateway.stores.builtin import BUILTIN, open_store
from tests.gateway.stores.batches import in_one_batch

URLS = {"memory": "memory:", "sqlite": "sqlite:///{folder}/audits.db"}  # every scheme on the list needs its line

COMPLETED = AuditOutcome(AuditStatus.COMPLETED, 20.5, None, b'{"total_tokens": 3}', "stop")
FAILED = AuditOutcome(AuditStatus.FAILED, 21.0, "PROVIDER_TIMEOUT")


def head(generation: str, *, chat: str = "chat", tenant: str = "", created: float = 10.0, auxiliary: bool = False) -> AuditHead:
    return AuditHead(AuditKey(tenant, chat, generation), "gpt-4o", created, b'{"of": "%s"}' % generation.encode(), auxiliary)


def body(generation: str) -> bytes:
    return b"body of " + generation.encode() + b"\x00\xff"


async def replace(store: AuditStore, new: AuditHead) -> None:
    await store.replace(new, body(new.key.generation_id))


async def using(scheme: str, folder: Path, story: Callable[[AuditStore], Awaitable[None]]) -> None:
    store = open_store(URLS[scheme].format(folder=folder))
    await store.open()
    try:
        await story(store)
    finally:
        await store.aclose()


Tell = Callable[[Callable[[AuditStore], Awaitable[None]]], None]
Way = Callable[[AuditStore, Sequence[Coroutine[None, None, object]]], Awaitable[list[object]]]


@pytest.fixture(params=sorted(BUILTIN))
def scheme(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def tell(scheme: str, tmp_path: Path) -> Tell:
    """Runs a story with a store that is open, and closes it."""
    return lambda story: asyncio.run(using(scheme, tmp_path, story))


def test_an_audit_comes_back_as_it_was_handed_over(tell: Tell) -> None:
    async def story(store: AuditStore) -> None:
        new = head("g1", tenant="team-a", created=10.25)
        await replace(store, new)
        assert await store.latest("team-a", "chat") == StoredAudit(new, None, body("g1"))

    tell(story)


def test_an_end_is_kept_with_all_it_says(tell: Tell) -> None:
    async def story(store: AuditStore) -> None:
        new = head("g1")
        await replace(store, new)
        await store.finish(new.key, COMPLETED)
        assert await store.latest("", "chat") == StoredAudit(new, COMPLETED, body("g1"))

    tell(story)


def test_nothing_is_found_where_nothing_was_put(tell: Tell) -> None:
    async def story(store: AuditStore) -> None:
        assert await store.latest("", "chat") is None
        assert await store.delete_chat("", "chat") is False
        await store.finish(head("g1").key, COMPLETED)
        assert await store.latest("", "chat") is None

    tell(story)


def test_a_newer_audit_replaces_the_older_one_whole(tell: Tell) -> None:
    async def story(store: AuditStore) -> None:
        await replace(store, head("g1"))
        await store.finish(head("g1").key, FAILED)
        newer = head("g2", created=5.0)
        await replace(store, newer)
        assert await store.latest("", "chat") == StoredAudit(newer, None, body("g2"))

    tell(story)


def test_a_generation_may_be_replaced_by_itself(tell: Tell) -> None:
    async def story(store: AuditStore) -> None:
        await asyncio.gather(store.replace(head("g1"), b"first"), store.replace(head("g1"), b"second"))
        assert await store.latest("", "chat") == StoredAudit(head("g1"), None, b"second")

    tell(story)


def test_an_end_that_comes_late_changes_nothing(tell: Tell) -> None:
    async def story(store: AuditStore) -> None:
        await replace(store, head("g1"))
        await replace(store, head("g2"))
        await store.finish(head("g1").key, COMPLETED)
        assert await store.latest("", "chat") == StoredAudit(head("g2"), None, body("g2"))

    tell(story)


def test_only_the_first_end_counts(tell: Tell) -> None:
    async def story(store: AuditStore) -> None:
        await replace(store, head("g1"))
        await store.finish(head("g1").key, COMPLETED)
        await store.finish(head("g1").key, FAILED)
        found = await store.latest("", "chat")
        assert found is not None
        assert found.outcome == COMPLETED

    tell(story)


def test_a_deleted_chat_is_not_brought_back_by_its_body_or_its_end(tell: Tell) -> None:
    async def story(store: AuditStore) -> None:
        for _ in range(20):
            writing = asyncio.create_task(replace(store, head("g1")))
            await asyncio.sleep(0)
            assert await store.delete_chat("", "chat") is True
            await writing
            await store.finish(head("g1").key, COMPLETED)
            assert await store.latest("", "chat") is None

    tell(story)


def test_after_a_deletion_the_chat_starts_anew(tell: Tell) -> None:
    async def story(store: AuditStore) -> None:
        await replace(store, head("g1"))
        await store.delete_chat("", "chat")
        await replace(store, head("g2"))
        await store.finish(head("g1").key, FAILED)
        assert await store.latest("", "chat") == StoredAudit(head("g2"), None, body("g2"))

    tell(story)


def test_tenants_do_not_see_each_other(tell: Tell) -> None:
    async def story(store: AuditStore) -> None:
        await replace(store, head("g1", tenant="a"))
        await replace(store, head("g1", tenant="b"))
        await store.finish(head("g1", tenant="a").key, COMPLETED)
        assert await store.delete_chat("a", "chat") is True
        assert await store.latest("a", "chat") is None
        assert await store.latest("", "chat") is None
        assert await store.latest("b", "chat") == StoredAudit(head("g1", tenant="b"), None, body("g1"))

    tell(story)


def test_a_purge_takes_what_is_older_and_says_how_many(tell: Tell) -> None:
    async def story(store: AuditStore) -> None:
        await asyncio.gather(*(replace(store, head("g", chat=f"c{n}", created=float(n))) for n in range(600)))
        assert await store.purge(598.0) == 598
        assert await store.purge(598.0) == 0
        assert await store.latest("", "c597") is None
        assert await store.latest("", "c598") is not None

    tell(story)


def test_an_audit_on_the_side_says_so(tell: Tell) -> None:
    async def story(store: AuditStore) -> None:
        await replace(store, head("g1", chat="g1", auxiliary=True))
        found = await store.latest("", "g1")
        assert found is not None
        assert found.head.auxiliary is True

    tell(story)


def test_an_empty_body_is_a_body(tell: Tell) -> None:
    async def story(store: AuditStore) -> None:
        await store.replace(head("g1"), b"")
        assert await store.latest("", "chat") == StoredAudit(head("g1"), None, b"")

    tell(story)


def test_a_healthy_store_passes_its_check(tell: Tell) -> None:
    async def story(store: AuditStore) -> None:
        await store.check()

    tell(story)


def test_thirty_two_at_once_leave_exactly_one_whole_audit(tell: Tell) -> None:
    async def story(store: AuditStore) -> None:
        async def generate(worker: int) -> None:
            for turn in range(15):
                new = head(f"g{worker}-{turn}")
                await replace(store, new)
                await store.finish(new.key, COMPLETED)

        await asyncio.gather(*(generate(worker) for worker in range(32)))
        found = await store.latest("", "chat")
        assert found is not None
        assert found == StoredAudit(head(found.head.key.generation_id), COMPLETED, body(found.head.key.generation_id))
        assert await store.purge(11.0) == 1

    tell(story)


def test_a_caller_who_leaves_does_not_take_his_write_back(tell: Tell) -> None:
    async def story(store: AuditStore) -> None:
        writing = asyncio.create_task(replace(store, head("g1")))
        await asyncio.sleep(0)
        writing.cancel()
        await asyncio.gather(writing, return_exceptions=True)
        assert await store.latest("", "chat") == StoredAudit(head("g1"), None, body("g1"))

    tell(story)


def test_a_store_that_is_not_open_is_unavailable(scheme: str, tmp_path: Path) -> None:
    async def refused(call: Awaitable[object]) -> None:
        with pytest.raises(StoreUnavailable):
            await call

    async def story() -> None:
        store = open_store(URLS[scheme].format(folder=tmp_path))
        await store.aclose()
        for _ in ("never opened", "closed"):
            await refused(store.replace(head("g1"), b""))
            await refused(store.finish(head("g1").key, COMPLETED))
            await refused(store.latest("", "chat"))
            await refused(store.delete_chat("", "chat"))
            await refused(store.purge(0.0))
            await refused(store.check())
            await store.open()
            await store.open()
            await store.check()
            await store.aclose()
            await store.aclose()

    asyncio.run(story())


Step = tuple[str, str, str]  # what, chat, generation
STEPS = st.tuples(
    st.sampled_from([*["replace"] * 4, *["finish"] * 3, *["fail"] * 2, "delete", "latest", "purge"]),
    st.sampled_from(["a", "b", "c"]),
    st.sampled_from(["1", "2", "3"]),
)
BURSTS = st.lists(st.lists(STEPS, min_size=1, max_size=25), max_size=4)


class Model:
    """What a store has to do, without any of its troubles."""

    def __init__(self) -> None:
        self.audits: dict[str, StoredAudit] = {}

    def answer(self, what: str, chat: str, generation: str) -> object:
        new, found = head(generation, chat=chat, created=float(generation)), self.audits.get(chat)
        if what == "replace":
            self.audits[chat] = StoredAudit(new, None, body(generation))
        elif what in ("finish", "fail"):
            if found is not None and found.head == new and found.outcome is None:
                self.audits[chat] = found.ended(COMPLETED if what == "finish" else FAILED)
        elif what == "delete":
            return self.audits.pop(chat, None) is not None
        elif what == "latest":
            return found
        else:
            old = [name for name, audit in self.audits.items() if audit.head.created_at < float(generation)]
            self.audits = {name: audit for name, audit in self.audits.items() if name not in old}
            return len(old)
        return None


async def ask(store: AuditStore, step: Step) -> object:
    what, chat, generation = step
    new = head(generation, chat=chat, created=float(generation))
    match what:
        case "replace":
            await replace(store, new)
        case "finish" | "fail":
            await store.finish(new.key, COMPLETED if what == "finish" else FAILED)
        case "delete":
            return await store.delete_chat("", chat)
        case "latest":
            return await store.latest("", chat)
        case "purge":
            return await store.purge(float(generation))
    return None


async def one_by_one(_: AuditStore, calls: Sequence[Coroutine[None, None, object]]) -> list[object]:
    return [await call for call in calls]


async def at_once(_: AuditStore, calls: Sequence[Coroutine[None, None, object]]) -> list[object]:
    return list(await asyncio.gather(*calls))


@pytest.mark.parametrize("way", [one_by_one, at_once, in_one_batch])
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(bursts=BURSTS)
def test_any_order_of_calls_has_the_effect_of_the_model(scheme: str, way: Way, bursts: list[list[Step]]) -> None:
    async def story(store: AuditStore) -> None:
        model = Model()
        for burst in bursts:
            answers = await way(store, [ask(store, step) for step in burst])
            assert answers == [model.answer(*step) for step in burst]
        for chat in ("a", "b", "c"):
            assert await store.latest("", chat) == model.audits.get(chat)

    with tempfile.TemporaryDirectory() as folder:
        asyncio.run(using(scheme, Path(folder), story))
