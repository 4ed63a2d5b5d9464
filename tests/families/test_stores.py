"""The contract of every store, told once and held against each one on the list."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Awaitable
from pathlib import Path

import pytest

from gateway.errors import StoreUnavailable
from gateway.learned import Learned, Lesson
from gateway.stores.base import AuditStatus, AuditStore, StoredAudit, StoredChat
from gateway.stores.builtin import open_store
from tests.families.stores import COMPLETED, FAILED, URLS, Tell, body, head, replace


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


def test_a_prepared_audit_can_be_amended_and_ends_as_any_other(tell: Tell) -> None:
    async def story(store: AuditStore) -> None:
        await replace(store, head("g1"))
        shorter = dataclasses.replace(head("g1"), document=b'{"shorter": true}')
        await store.amend(shorter, b"shorter body")
        assert await store.latest("", "chat") == StoredAudit(shorter, None, b"shorter body")
        await store.finish(shorter.key, COMPLETED)
        assert await store.latest("", "chat") == StoredAudit(shorter, COMPLETED, b"shorter body")

    tell(story)


def test_an_audit_that_was_ended_replaced_or_deleted_is_not_amended(tell: Tell) -> None:
    async def story(store: AuditStore) -> None:
        shorter = dataclasses.replace(head("g1"), document=b"{}")
        await replace(store, head("g1"))
        await store.finish(shorter.key, FAILED)
        await store.amend(shorter, b"shorter")
        assert await store.latest("", "chat") == StoredAudit(head("g1"), FAILED, body("g1"))
        await replace(store, head("g2"))
        await store.amend(shorter, b"shorter")
        assert await store.latest("", "chat") == StoredAudit(head("g2"), None, body("g2"))
        await store.delete_chat("", "chat")
        await store.amend(dataclasses.replace(head("g2"), document=b"{}"), b"shorter")
        assert await store.latest("", "chat") is None

    tell(story)


def test_chats_are_listed_newest_first_in_pages_and_begin_once(tell: Tell) -> None:
    async def story(store: AuditStore) -> None:
        for number in range(5):
            await replace(store, head(f"g{number}", chat=f"c{number}", created=float(number)))
        await replace(store, head("again", chat="c1", created=9.0))
        await replace(store, head("twin", chat="c9", created=4.0))
        await replace(store, head("aside", chat="aside", created=5.0, auxiliary=True))
        await replace(store, head("theirs", chat="theirs", tenant="b", created=6.0))
        await store.finish(head("again", chat="c1").key, FAILED)
        first = StoredChat("c1", 1.0, 9.0, "gpt-4o", AuditStatus.FAILED, "again")
        second = StoredChat("c9", 4.0, 4.0, "gpt-4o", AuditStatus.PREPARED, "twin")
        page = await store.chats("", 2)
        assert page == [first, second]
        rest = await store.chats("", 9, page[-1].place)
        assert [chat.chat_id for chat in rest] == ["c4", "c3", "c2", "c0"]
        assert await store.chats("", 9, rest[-1].place) == []
        assert await store.chat("", "c1") == first
        assert await store.chat("b", "c1") is None
        await store.delete_chat("", "c1")
        assert await store.chat("", "c1") is None
        await replace(store, head("new", chat="c1", created=20.0))
        assert await store.chat("", "c1") == StoredChat("c1", 20.0, 20.0, "gpt-4o", AuditStatus.PREPARED, "new")

    tell(story)


def test_lessons_are_kept_by_subject_add_up_and_expire(tell: Tell) -> None:
    async def story(store: AuditStore) -> None:
        first = Lesson("p", "m", "a", Learned(4096), 100.0)
        await store.learn(first, 10.0)
        await store.learn(Lesson("p", "m", "b", Learned(None, 20), 50.0), 10.0)
        await store.learn(Lesson("p", "m", "a", Learned(5000, 18), 90.0), 20.0)
        both = Lesson("p", "m", "a", Learned(4096, 18), 100.0)
        assert await store.lessons(30.0) == [both, Lesson("p", "m", "b", Learned(None, 20), 50.0)]
        assert await store.lessons(50.0) == [both]
        late = Lesson("p", "m", "b", Learned(7000), 200.0)
        await store.learn(late, 60.0)
        assert await store.lessons(60.0) == [both, late]
        await store.purge(1.0)  # by the real clock all of them have expired
        assert await store.lessons(0.0) == []

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
        store = open_store(URLS[scheme](tmp_path))
        await store.aclose()
        for _ in ("never opened", "closed"):
            await refused(store.replace(head("g1"), b""))
            await refused(store.finish(head("g1").key, COMPLETED))
            await refused(store.latest("", "chat"))
            await refused(store.delete_chat("", "chat"))
            await refused(store.purge(0.0))
            await refused(store.chat("", "chat"))
            await refused(store.chats("", 1))
            await refused(store.amend(head("g1"), b""))
            await refused(store.learn(Lesson("p", "m", "a", Learned(1), 1.0), 0.0))
            await refused(store.lessons(0.0))
            await refused(store.check())
            await store.open()
            await store.open()
            await store.check()
            await store.aclose()
            await store.aclose()

    asyncio.run(story())
