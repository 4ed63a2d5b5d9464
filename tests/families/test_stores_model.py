"""Any order of calls leaves a store as a dict would be left by them, whether they come one by one or pile up."""

from __future__ import annotations

import asyncio
import dataclasses
import tempfile
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gateway.stores.base import AuditStore, StoredAudit
from tests.families.stores import COMPLETED, FAILED, body, head, replace, using
from tests.gateway.stores.batches import in_one_batch

Way = Callable[[AuditStore, Sequence[Coroutine[None, None, object]]], Awaitable[list[object]]]
Step = tuple[str, str, str]  # what, chat, generation
STEPS = st.tuples(
    st.sampled_from([*["replace"] * 4, *["finish"] * 3, *["fail"] * 2, "amend", "delete", "latest", "purge"]),
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
        elif what == "amend":
            if found is not None and found.head.key == new.key and found.outcome is None:
                self.audits[chat] = StoredAudit(dataclasses.replace(new, created_at=found.head.created_at), None, b"amended")
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
        case "amend":
            await store.amend(new, b"amended")
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
