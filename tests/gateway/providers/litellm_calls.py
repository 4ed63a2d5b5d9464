"""Sends requests of the kind `litellm` to a loopback server, and gathers what comes back."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest

from gateway.errors import GatewayError
from gateway.providers.base import OutgoingRequest, ProviderConfig, Reply
from gateway.providers.litellm import LitellmProvider
from tests.gateway.providers.conftest import Call, Script, Server
from tests.support import anthropic_wire, gemini_wire

Serving = Callable[[Script], AbstractAsyncContextManager[Server]]
CLAUDE = anthropic_wire.MODEL
GEMINI = gemini_wire.MODEL
KEY = "sk-of-the-gateway"


def request(model: str, *, stream: bool = False, **fields: Any) -> OutgoingRequest:
    body = {"model": model, "messages": [{"role": "user", "content": "hi"}], "max_tokens": 9, "stream": stream, **fields}
    return OutgoingRequest(json.dumps(body).encode(), stream)


@asynccontextmanager
async def provider_of(server: Server, **config: Any) -> AsyncIterator[LitellmProvider]:
    provider = LitellmProvider(ProviderConfig("p", f"http://127.0.0.1:{server.port}", **{"api_key": KEY, **config}))
    try:
        yield provider
    finally:
        await provider.aclose()


async def drained(reply: Reply, whole: bytearray) -> None:
    """Adds what the reply gives to `whole`."""
    while data := await reply.read():
        whole += data


async def read_all(provider: LitellmProvider, outgoing: OutgoingRequest) -> tuple[list[Any], Any]:
    """What a reply gives, its events parsed, and the reply."""
    reply = await provider.send(outgoing)
    try:
        whole = bytearray()
        await drained(reply, whole)
        assert reply.ended
    finally:
        await reply.aclose()
    if not outgoing.stream:
        return [json.loads(whole)], reply
    *events, done, rest = bytes(whole).split(b"\n\n")
    assert (done, rest) == (b"data: [DONE]", b"")
    return [json.loads(event.removeprefix(b"data: ")) for event in events], reply


def answers(serving: Serving, script: Script, outgoing: OutgoingRequest, **config: Any) -> tuple[list[Any], Any, Server]:
    """The answer of a server that follows a script."""

    async def main() -> tuple[list[Any], Any, Server]:
        async with serving(script) as server, provider_of(server, **config) as provider:
            return *await read_all(provider, outgoing), server

    return asyncio.run(main())


def error_of(serving: Serving, script: Script, outgoing: OutgoingRequest, **config: Any) -> GatewayError:
    """The error that a server's answer ends in."""
    with pytest.raises(GatewayError) as caught:
        answers(serving, script, outgoing, **config)
    assert KEY not in caught.value.message
    return caught.value


def plain(body: bytes, **head: Any) -> Script:
    async def script(call: Call) -> None:
        await call.plain(body, **{"headers": b"content-type: application/json\r\n", **head})

    return script


def streamed(*events: bytes, breaks: bool = False) -> Script:
    async def script(call: Call) -> None:
        await call.events(*events, end=not breaks)
        if breaks:
            await asyncio.sleep(0.02)
            call.reset()

    return script
