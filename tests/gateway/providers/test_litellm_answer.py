"""Objects of the library become bytes; what it invents is left out."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from gateway.errors import GatewayError
from gateway.providers.base import ProviderConfig, Timeouts
from gateway.providers.deadline import Patience
from gateway.providers.litellm_answer import Chunks, WholeAnswer
from gateway.providers.litellm_errors import Translation
from gateway.providers.litellm_wire import CURRENT, LibraryCall, Route


class Model:
    """Shaped like an object of the library."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields

    def model_dump(self, *, mode: str, exclude_none: bool, warnings: bool) -> dict[str, Any]:
        assert (mode, exclude_none, warnings) == ("json", True, False)
        return json.loads(json.dumps(self._fields))


class Stream:
    """Gives chunks one after the other, or raises what stands between them."""

    def __init__(self, *chunks: dict[str, Any] | Exception) -> None:
        self._chunks = list(chunks)
        self.seen: list[LibraryCall | None] = []
        self.closed = 0

    async def __anext__(self) -> Model:
        self.seen.append(CURRENT.get())
        if not self._chunks:
            raise StopAsyncIteration
        chunk = self._chunks.pop(0)
        if isinstance(chunk, Exception):
            raise chunk
        return Model(chunk)

    async def aclose(self) -> None:
        self.closed += 1


def call_of(*heard: bytes) -> LibraryCall:
    call = LibraryCall(Route(ProviderConfig("p")), Patience(Timeouts()), streamed=True)
    for piece in heard:
        call.requests = 1
        call.heard(piece)
    return call


def piece(content: str | None, finish_reason: str | None = None) -> dict[str, Any]:
    return {"choices": [{"delta": {} if content is None else {"content": content}, "finish_reason": finish_reason}]}


async def read(stream: Stream, call: LibraryCall, *, usage_wanted: bool = False) -> list[Any]:
    """What the stream gives, parsed."""
    chunks = Chunks(stream, Translation(call, 1.0), usage_wanted=usage_wanted)
    events = [event async for event in chunks]
    await chunks.aclose()
    assert all(event.endswith(b"\n\n") for event in events)
    return [json.loads(event.removeprefix(b"data: ")) for event in events]


def test_each_chunk_is_an_event_and_is_read_within_its_call() -> None:
    async def main() -> None:
        call, stream = call_of(b'"finish_reason":"stop"'), Stream(piece("é"), piece(None, "stop"))
        assert await read(stream, call) == [piece("é"), piece(None, "stop")]
        assert set(stream.seen) == {call}
        assert CURRENT.get() is None
        assert stream.closed == 1

    asyncio.run(main())


@pytest.mark.parametrize("wanted", [False, True])
def test_a_usage_nobody_asked_for_has_no_choices(wanted: bool) -> None:
    async def main() -> None:
        usage = {"choices": [], "usage": {"prompt_tokens": 1, "cost": 0.5}}
        (chunk,) = await read(Stream(usage), call_of(b"[DONE]"), usage_wanted=wanted)
        assert chunk["usage"] == {"prompt_tokens": 1}
        assert ("choices" in chunk) is wanted

    asyncio.run(main())


def test_a_usage_of_nothing_but_zeros_is_none() -> None:
    async def main() -> None:
        zeros = {"prompt_tokens": 0, "completion_tokens": 0, "total_tokens": 0}
        (chunk,) = await read(Stream({"choices": [], "usage": zeros}), call_of(b"x"), usage_wanted=True)
        assert chunk == {"choices": []}

    asyncio.run(main())


@pytest.mark.parametrize(
    ("stream", "code"),
    [
        (Stream(piece("a"), piece(None, "stop")), "PROVIDER_STREAM_TRUNCATED"),
        (Stream(piece("a"), ValueError("x")), "PROVIDER_STREAM_TRUNCATED"),
        (Stream(piece(None, "stop")), "PROVIDER_INVALID_RESPONSE"),
        (Stream({"no": "choices"}), "PROVIDER_INVALID_RESPONSE"),
    ],
)
def test_an_end_that_the_provider_did_not_send_is_a_failure_and_the_last_thing_said(stream: Stream, code: str) -> None:
    async def main() -> None:
        chunks = Chunks(stream, Translation(call_of(b"data: {}\n\n"), 1.0), usage_wanted=False)
        with pytest.raises(GatewayError) as caught:
            await collected(chunks)
        assert caught.value.code == code
        assert [event async for event in chunks] == []
        await chunks.aclose()

    asyncio.run(main())


async def collected(chunks: Chunks) -> list[bytes]:
    return [event async for event in chunks]


def test_a_finish_of_a_call_that_went_past_the_wire_is_believed() -> None:
    async def main() -> None:
        assert await read(Stream(piece(None, "stop")), call_of()) == [piece(None, "stop")]

    asyncio.run(main())


def test_a_whole_answer_is_one_body_with_what_every_client_reads() -> None:
    async def main() -> None:
        answer = WholeAnswer(Model({"choices": [{"message": {"tool_calls": []}}], "usage": {"total_tokens": 3}}), call_of())
        (body,) = [piece async for piece in answer]
        await answer.aclose()
        assert json.loads(body) == {
            "choices": [{"message": {"tool_calls": [], "content": None}, "finish_reason": None}],
            "usage": {"total_tokens": 3},
        }

    asyncio.run(main())
