"""The transport against a server that writes exact bytes."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from gateway.providers.transport import AiohttpTransport, make_client


def request(url: str, body: bytes = b"{}", **timeout: float) -> httpx.Request:
    return httpx.Request("POST", url, content=body, headers={"x-key": "1"}, extensions={"timeout": timeout})


async def read(transport: AiohttpTransport, asked: httpx.Request) -> bytes:
    response = await transport.handle_async_request(asked)
    try:
        return b"".join([chunk async for chunk in response.stream])
    finally:
        await response.aclose()


def run(serving, script, test):
    async def main():
        transport = AiohttpTransport()
        async with serving(script) as server:
            try:
                return await test(server, transport)
            finally:
                await transport.aclose()

    return asyncio.run(main())


def test_a_request_arrives_as_it_was_built_and_the_answer_raw(serving):
    async def script(call):
        await call.plain(
            b"\x1f\x8b-not-inflated", status=302, headers=b"Content-Encoding: gzip\r\nLocation: /x\r\nset-cookie: a=b\r\n"
        )

    async def test(server, transport):
        response = await transport.handle_async_request(request(server.url, b'{"a": 1}'))
        body = b"".join([chunk async for chunk in response.stream])
        await response.aclose()
        await read(transport, request(server.url))
        return server, response, body

    server, response, body = run(serving, script, test)
    head = server.calls[0].head.lower()
    assert (response.status_code, body) == (302, b"\x1f\x8b-not-inflated")
    assert (b"Content-Encoding", b"gzip") in response.headers.raw
    assert server.calls[0].body == b'{"a": 1}'
    assert b"x-key: 1" in head
    assert b"accept-encoding" not in head
    assert b"user-agent" not in head
    assert b"cookie" not in server.calls[1].head.lower()


def test_a_finished_answer_gives_its_connection_back(serving):
    async def script(call):
        await call.plain(b"ok")

    async def test(server, transport):
        for _ in range(3):
            assert await read(transport, request(server.url)) == b"ok"
        return [call.connection for call in server.calls]

    assert run(serving, script, test) == [1, 1, 1]


def test_chunks_arrive_at_once_and_closing_closes_the_socket(serving):
    async def script(call):
        await call.events(b"one", b"two", pause_s=0.05, end=False)
        await call.left()

    async def test(server, transport):
        response = await transport.handle_async_request(request(server.url))
        chunks = aiter(response.stream)
        assert await anext(chunks) == b"one"
        started = time.perf_counter()
        await response.aclose()
        await asyncio.wait_for(server.closed.wait(), 2)
        return time.perf_counter() - started

    assert run(serving, script, test) < 0.5


def test_a_stale_kept_connection_is_retried_once(serving):
    async def script(call):
        if call.number == 2:
            call.writer.close()
            return
        await call.plain(b"ok")

    async def test(server, transport):
        first = await read(transport, request(server.url))
        second = await read(transport, request(server.url))
        return first, second, [call.connection for call in server.calls]

    assert run(serving, script, test) == (b"ok", b"ok", [1, 1, 2])


def test_a_stale_connection_that_is_reset_is_retried_too(serving):
    async def script(call):
        if call.number == 2:
            call.reset()
            return
        await call.plain(b"ok")

    async def test(server, transport):
        await read(transport, request(server.url))
        return await read(transport, request(server.url))

    assert run(serving, script, test) == b"ok"


def test_two_stale_closings_in_a_row_are_an_error(serving):
    async def script(call):
        if call.number == 1:
            await call.plain(b"ok")
        else:
            call.writer.close()

    async def test(server, transport):
        await read(transport, request(server.url))
        with pytest.raises(httpx.RemoteProtocolError):
            await read(transport, request(server.url))
        return len(server.calls)

    assert run(serving, script, test) == 3


@pytest.mark.parametrize("beginning", [b"", b"HTTP/1.1 200 OK\r\ncontent-"])
def test_a_new_connection_that_closes_is_not_retried(serving, beginning):
    async def script(call):
        await call.answer(beginning)
        call.writer.close()

    async def test(server, transport):
        with pytest.raises(httpx.RemoteProtocolError):
            await read(transport, request(server.url))
        return len(server.calls)

    assert run(serving, script, test) == 1


def test_an_answer_that_had_begun_is_not_retried(serving):
    async def script(call):
        if call.number == 1:
            await call.plain(b"ok")
            return
        await call.answer(b"HTTP/1.1 200 OK\r\ncontent-")
        call.writer.close()

    async def test(server, transport):
        await read(transport, request(server.url))
        with pytest.raises(httpx.RemoteProtocolError):
            await read(transport, request(server.url))
        return len(server.calls)

    assert run(serving, script, test) == 2


def test_what_came_before_a_break_is_given_out_before_the_error(serving):
    async def script(call):
        await call.events(b"one", b"two", end=False)
        call.writer.close()

    async def test(server, transport):
        response = await transport.handle_async_request(request(server.url))
        await asyncio.sleep(0.1)
        chunks = aiter(response.stream)
        arrived = await anext(chunks)
        with pytest.raises(httpx.RemoteProtocolError):
            await anext(chunks)
        await response.aclose()
        return arrived

    assert run(serving, script, test) == b"onetwo"


def test_a_damaged_chunk_breaks_the_answer_after_what_came_before_it(serving):
    async def script(call):
        await call.answer(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\nhello\r\n", pause_s=0.05)
        await call.answer(b"zz\r\nabc\r\n")
        await call.left()

    async def test(server, transport):
        response = await transport.handle_async_request(request(server.url))
        chunks = aiter(response.stream)
        first = await anext(chunks)
        with pytest.raises(httpx.RemoteProtocolError):
            await asyncio.wait_for(anext(chunks), 5)
        await response.aclose()
        return first

    assert run(serving, script, test) == b"hello"


def test_long_header_lines_pass(serving):
    async def script(call):
        await call.plain(b"ok", headers=b"x-long: " + b"a" * 20_000 + b"\r\n")

    async def test(server, transport):
        return await read(transport, request(server.url))

    assert run(serving, script, test) == b"ok"


def test_garbage_is_a_protocol_error_and_silence_a_read_timeout(serving):
    async def script(call):
        if call.number == 1:
            await call.answer(b"garbage\r\n\r\n")
        else:
            await call.left()

    async def test(server, transport):
        with pytest.raises(httpx.RemoteProtocolError):
            await read(transport, request(server.url))
        with pytest.raises(httpx.ReadTimeout):
            await read(transport, request(server.url, read=0.05))

    run(serving, script, test)


def test_a_refused_connection_is_a_connect_error_without_an_address():
    async def main():
        transport = AiohttpTransport()
        with pytest.raises(httpx.ConnectError) as caught:
            await transport.handle_async_request(request("http://127.0.0.1:9/v1?key=sk-secret"))
        await transport.aclose()
        return str(caught.value)

    assert "sk-secret" not in asyncio.run(main())


def test_a_closed_transport_opens_again(serving):
    async def script(call):
        await call.plain(b"ok")

    async def test(server, transport):
        await read(transport, request(server.url))
        await transport.aclose()
        await transport.aclose()
        return await read(transport, request(server.url))

    assert run(serving, script, test) == b"ok"


def streamed(url: str, *pieces: bytes | asyncio.Event, **headers: str) -> httpx.Request:
    """A request whose body comes in pieces; at an event it waits."""

    async def body():
        for piece in pieces:
            if isinstance(piece, asyncio.Event):
                await piece.wait()
            else:
                yield piece

    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return httpx.Request("POST", url, headers=named, content=body())


def test_a_streamed_request_body_is_sent_piece_by_piece(serving):
    seen = []

    async def script(call):
        for size in (b"3\r\none\r\n", b"3\r\ntwo\r\n", b"0\r\n\r\n"):
            seen.append(await call.reader.readexactly(len(size)))
            more.set()
        await call.plain(b"ok")

    async def test(server, transport):
        answer = await read(transport, streamed(server.url, b"one", more, b"two"))
        return answer, server.calls[0].head.lower()

    more = asyncio.Event()
    answer, head = run(serving, script, test)
    assert (answer, b"".join(seen)) == (b"ok", b"3\r\none\r\n3\r\ntwo\r\n0\r\n\r\n")
    assert b"transfer-encoding: chunked" in head


def test_a_streamed_request_body_of_known_length_keeps_its_length(serving):
    async def script(call):
        await call.plain(call.body)

    async def test(server, transport):
        answer = await read(transport, streamed(server.url, b"one", b"two", content_length="6"))
        return answer, server.calls[0].head.lower()

    answer, head = run(serving, script, test)
    assert answer == b"onetwo"
    assert b"transfer-encoding" not in head


class Repeatable(httpx.AsyncByteStream):
    """A body that could be sent twice."""

    async def __aiter__(self):
        yield b"one"


def test_a_streamed_request_body_is_sent_once_even_on_a_stale_connection(serving):
    async def script(call):
        if call.number == 2:
            call.writer.close()
            return
        await call.plain(b"ok")

    async def test(server, transport):
        await read(transport, request(server.url))
        asked = httpx.Request("POST", server.url, headers={"content-length": "3"}, stream=Repeatable())
        with pytest.raises(httpx.TransportError):
            await read(transport, asked)
        return len(server.calls)

    assert run(serving, script, test) == 2


def test_a_streamed_request_body_that_fails_breaks_the_connection(serving):
    async def script(call):
        await call.left()

    async def failing():
        yield b"one"
        raise ZeroDivisionError

    async def test(server, transport):
        with pytest.raises(httpx.ReadError):
            await read(transport, httpx.Request("POST", server.url, content=failing()))
        await asyncio.wait_for(server.closed.wait(), 2)

    run(serving, script, test)


@pytest.mark.parametrize(
    ("environment", "url", "ours"),
    [
        ({}, "http://model.test/v1", True),
        ({}, "https://model.test/v1", True),
        ({"HTTP_PROXY": "http://127.0.0.1:1"}, "http://model.test/v1", False),
        ({"HTTP_PROXY": "http://127.0.0.1:1"}, "https://model.test/v1", True),
        ({"ALL_PROXY": "http://127.0.0.1:1"}, "https://model.test/v1", False),
        ({"HTTP_PROXY": "http://127.0.0.1:1", "NO_PROXY": "model.test"}, "http://model.test/v1", True),
    ],
)
def test_a_proxy_in_the_environment_means_stock_httpx(monkeypatch, environment, url, ours):
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    client = make_client(url)
    assert isinstance(client._transport_for_url(httpx.URL(url)), AiohttpTransport) is ours
    asyncio.run(client.aclose())


def test_http2_means_stock_httpx():
    pytest.importorskip("h2")
    client = make_client("https://model.test/v1", http2=True)
    assert not isinstance(client._transport, AiohttpTransport)
    asyncio.run(client.aclose())


def test_a_transport_closed_under_an_open_answer_ends_it(serving):
    async def script(call):
        await call.events(b"one", end=False)
        await call.left()

    async def test(server, transport):
        response = await transport.handle_async_request(request(server.url))
        chunks = aiter(response.stream)
        assert await anext(chunks) == b"one"
        await transport.aclose()
        with pytest.raises(httpx.ReadError):
            await asyncio.wait_for(anext(chunks), 1)
        await response.aclose()

    run(serving, script, test)
