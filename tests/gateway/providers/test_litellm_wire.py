"""What is seen and allowed of the library's requests."""

from __future__ import annotations

import asyncio
import contextlib
import gzip
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager

import httpx
import pytest

from gateway.errors import ProviderBadRequest, ProviderError, ProviderRateLimit
from gateway.providers.base import ProviderConfig, Timeouts
from gateway.providers.deadline import Patience
from gateway.providers.litellm_wire import CURRENT, BlockingTransport, CallTransport, LibraryCall, Route
from tests.gateway.providers.conftest import Call, Script, Server

Serving = Callable[[Script], AbstractAsyncContextManager[Server]]
JSON = b"content-type: application/json\r\n"


@contextlib.contextmanager
def current(call: LibraryCall) -> Iterator[None]:
    token = CURRENT.set(call)
    try:
        yield
    finally:
        CURRENT.reset(token)


@contextlib.asynccontextmanager
async def a_call(base_url: str = "", *, stream: bool = True) -> AsyncIterator[LibraryCall]:
    route = Route(ProviderConfig("p", base_url))
    call = LibraryCall(route, Patience(Timeouts()), stream)
    with current(call):
        yield call
    await call.aclose()
    await route.aclose()


def run(serving: Serving, script: Script, use: Callable[[Server, httpx.AsyncClient], Awaitable[None]]) -> None:
    async def main() -> None:
        async with serving(script) as server, httpx.AsyncClient(transport=CallTransport(), follow_redirects=True) as client:
            await use(server, client)

    asyncio.run(main())


async def whole(call: Call) -> None:
    await call.plain(b'{"ok": true}', headers=JSON)


def test_outside_of_a_call_nothing_is_sent(serving: Serving) -> None:
    async def use(server: Server, client: httpx.AsyncClient) -> None:
        with pytest.raises(httpx.ConnectError):
            await client.post(server.url)
        assert server.calls == []

    run(serving, whole, use)


@pytest.mark.parametrize("other", ["http://localhost:{port}/", "https://127.0.0.1:{port}/", "http://127.0.0.1:1/"])
def test_with_a_base_url_no_other_address_is_asked(serving: Serving, other: str) -> None:
    async def use(server: Server, client: httpx.AsyncClient) -> None:
        async with a_call(server.url) as call:
            with pytest.raises(ProviderBadRequest):
                await client.post(other.format(port=server.port))
            assert call.requests == 0
        async with a_call(server.url):
            assert (await client.get(server.url)).json() == {"ok": True}

    run(serving, whole, use)


def test_without_a_base_url_only_what_was_written_to_is_read(serving: Serving) -> None:
    async def use(server: Server, client: httpx.AsyncClient) -> None:
        async with a_call():
            with pytest.raises(ProviderBadRequest):
                await client.get(server.url)
        async with a_call():
            await client.post(server.url)
            assert (await client.get(server.url)).status_code == 200
        assert len(server.calls) == 2

    run(serving, whole, use)


def test_a_refusal_is_remembered_and_not_asked_for_again(serving: Serving) -> None:
    async def refusing(call: Call) -> None:
        await call.plain(b'{"error": {"message": "slow"}}', status=429, headers=b"retry-after: 3\r\n")

    async def use(server: Server, client: httpx.AsyncClient) -> None:
        async with a_call(server.url) as call:
            for _ in range(2):
                with pytest.raises(ProviderRateLimit):
                    await client.post(server.url)
            assert call.failure is not None
            assert call.failure.retry_after == 3
        assert len(server.calls) == 1

    run(serving, refusing, use)


def test_compression_is_undone_once(serving: Serving) -> None:
    async def packed(call: Call) -> None:
        assert b"accept-encoding: identity" in call.head.lower()
        await call.plain(gzip.compress(b"hello"), headers=b"content-encoding: gzip\r\n")

    async def use(server: Server, client: httpx.AsyncClient) -> None:
        async with a_call(server.url):
            assert (await client.post(server.url)).content == b"hello"

    run(serving, packed, use)


ENDS = [
    b'data: {"choices": [{"finish_reason": "stop"}]}\n\n',
    b'data: {"candidates":[{"finishReason":"STOP"}]}\r\n\r\n',
    b'data: {"type":"message_stop"}\n\n',
    b'\x00\x00{"stopReason":"end_turn"}\x12',
    b'{"done":true}\n',
    b"data: [DONE]\n\n",
]
NO_ENDS = [
    b'data: {"choices": [{"finish_reason": null, "delta": {"content": "\\"finish_reason\\": \\"stop\\""}}]}\n\n',
    b'data: {"candidates":[{"content":{}}]}\n\n',
    b'{"done":false}\n',
]


def read_in(pieces: list[bytes], content_type: str, serving: Serving) -> bool:
    """Whether a stream in such pieces counts as cut."""
    found = []

    async def script(call: Call) -> None:
        head = f"HTTP/1.1 200 OK\r\ncontent-type: {content_type}\r\ntransfer-encoding: chunked\r\n\r\n"
        await call.answer(head.encode())
        await call.answer(*(b"%x\r\n%s\r\n" % (len(piece), piece) for piece in pieces), b"0\r\n\r\n", pause_s=0.002)

    async def use(server: Server, client: httpx.AsyncClient) -> None:
        async with a_call(server.url) as call:
            await client.post(server.url)
            found.append(call.cut)

    run(serving, script, use)
    return found[0]


@pytest.mark.parametrize("end", ENDS)
def test_the_end_of_a_stream_is_seen_also_in_two_pieces(serving: Serving, end: bytes) -> None:
    half = len(end) // 2
    assert not read_in([end[:half], end[half:]], "text/event-stream", serving)


@pytest.mark.parametrize("piece", NO_ENDS)
def test_a_stream_without_its_end_is_cut(serving: Serving, piece: bytes) -> None:
    assert read_in([piece], "text/event-stream", serving)


def test_one_document_in_answer_to_a_stream_is_whole(serving: Serving) -> None:
    assert not read_in([b'{"output": ', b'"hi"}'], "application/json", serving)
    assert read_in([b'{"output": '], "application/json", serving)


@pytest.mark.parametrize(
    ("heard", "reported"),
    [
        (b'event: error\ndata: {"type": "error", "error": {"type": "x"}}\n\n', b'{"type": "error", "error": {"type": "x"}}'),
        (b'data: {"error": {"code": 1}}\n\ndata: [DONE]\n\n', b'{"error": {"code": 1}}'),
        (b'[{"candidates": []},\n{"error": {"code": 2}}]', b'{"error": {"code": 2}}'),
        (b'{"error": null}\n{"choices": []}\n', None),
        (b"\xff\xfe", None),
    ],
)
def test_the_error_at_the_end_of_an_answer_is_found(heard: bytes, reported: bytes | None) -> None:
    async def main() -> None:
        async with a_call() as call:
            call.heard(heard)
            assert call.reported() == reported

    asyncio.run(main())


def test_a_broken_answer_is_a_failure_of_the_call(serving: Serving) -> None:
    async def breaking(call: Call) -> None:
        await call.events(b"data: {}\n\n", end=False)
        await asyncio.sleep(0.02)
        call.reset()

    async def use(server: Server, client: httpx.AsyncClient) -> None:
        async with a_call(server.url) as call:
            with pytest.raises(ProviderError):
                await client.post(server.url)
            assert call.failure is not None
            assert call.failure.code == "PROVIDER_UNREACHABLE"

    run(serving, breaking, use)


def test_closing_a_call_closes_its_connection_whatever_the_library_holds(serving: Serving) -> None:
    async def endless(call: Call) -> None:
        await call.events(b"data: {}\n\n", end=False)
        await call.left()

    async def use(server: Server, client: httpx.AsyncClient) -> None:
        async with a_call(server.url) as call:
            response = await client.send(client.build_request("POST", server.url), stream=True)
            await call.aclose()
            await asyncio.wait_for(server.closed.wait(), 1.0)
            await response.aclose()

    run(serving, endless, use)


def test_what_does_not_wait_runs_in_a_thread_and_to_the_same_addresses(serving: Serving) -> None:
    async def use(server: Server, _: httpx.AsyncClient) -> None:
        with httpx.Client(transport=BlockingTransport()) as client:
            async with a_call(server.url):
                assert (await asyncio.to_thread(client.post, server.url)).json() == {"ok": True}
                with pytest.raises(httpx.ConnectError):
                    client.post(server.url)  # noqa: ASYNC212  # which is what is refused
                with pytest.raises(httpx.ConnectError):
                    await asyncio.to_thread(client.post, "http://127.0.0.1:1/")
            with pytest.raises(httpx.ConnectError):
                await asyncio.to_thread(client.post, server.url)

    run(serving, whole, use)
