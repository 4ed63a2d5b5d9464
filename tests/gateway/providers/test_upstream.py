"""What an answer on the wire is at least."""

from __future__ import annotations

import asyncio

import httpx
import pytest

from gateway.providers.base import Timeouts
from gateway.providers.deadline import Patience
from gateway.providers.upstream import Upstream


class Sync(httpx.SyncByteStream):
    """A body that cannot be awaited."""


def test_an_answer_that_cannot_be_awaited_is_a_defect():
    async def main():
        with pytest.raises(TypeError):
            Upstream(httpx.Response(200, stream=Sync()), Patience(Timeouts()), 1.0)

    asyncio.run(main())


def test_closing_twice_closes_once():
    async def main():
        upstream = Upstream(httpx.Response(200, stream=httpx.ByteStream(b"abc")), Patience(Timeouts()), 1.0)
        body = await upstream.read()
        await upstream.aclose()
        await upstream.aclose()
        return body

    assert asyncio.run(main()) == b"abc"


@pytest.mark.parametrize("encoding", ["identity", "", " Identity "])
def test_no_compression_may_have_a_name(encoding):
    async def main():
        response = httpx.Response(200, headers={"content-encoding": encoding}, stream=httpx.ByteStream(b"abc"))
        upstream = Upstream(response, Patience(Timeouts()), 1.0)
        upstream.decompress()
        body = await upstream.read()
        await upstream.aclose()
        return body

    assert asyncio.run(main()) == b"abc"
