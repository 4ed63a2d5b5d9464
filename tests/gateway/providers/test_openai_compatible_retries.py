"""What a provider of the kind `openai` sends a second time; the wire is respx's."""

from __future__ import annotations

import asyncio

import httpx
import pytest
import respx

from gateway.errors import ProviderError, ProviderOverloaded
from gateway.providers.base import ForwardedRequest, ProviderConfig, Retries
from gateway.providers.openai_compatible import OpenAICompatibleProvider
from tests.gateway.providers.test_openai_compatible import BASE, CHAT, COMPLETION, plain, streamed

BUSY = httpx.Response(503, headers={"retry-after": "0"})


@pytest.mark.parametrize(
    ("outcome", "attempts", "calls"),
    [
        (httpx.ConnectError("refused"), 1, 2),
        (BUSY, 1, 2),
        (httpx.ConnectError("refused"), 0, 1),
        (BUSY, 0, 1),
        (httpx.ConnectTimeout("slow"), 1, 1),
        (httpx.WriteError("broken"), 1, 1),
        (httpx.Response(200, content=b'data: {"error":{"code":503,"retry_after":0}}\n\n'), 1, 1),
    ],
)
@pytest.mark.parametrize("ask", [plain, streamed])
def test_only_what_was_never_taken_up_is_sent_again(ask, outcome, attempts, calls):
    async def main():
        config = ProviderConfig("p", BASE, retries=Retries(attempts))
        provider = OpenAICompatibleProvider(config, client=httpx.AsyncClient())
        with respx.mock(using="httpx") as router:
            route = router.post(CHAT)
            route.side_effect = [outcome, httpx.Response(200, content=COMPLETION)]
            if calls == 1:
                with pytest.raises(ProviderError):
                    await ask(provider)
            else:
                assert b"hi" in (await ask(provider))[0]
            sent = [call.request.content for call in route.calls]
        await provider.aclose()
        return sent

    assert asyncio.run(main()) == [b'{"a": 1.0}'] * calls


async def pieces():
    yield b'{"a"'
    yield b": 1.0}"


@pytest.mark.parametrize(("body", "calls"), [(b'{"a": 1.0}', 2), (None, 1)])
def test_what_is_passed_on_is_sent_again_where_its_body_is_still_there(body, calls):
    async def main():
        provider = OpenAICompatibleProvider(ProviderConfig("p", BASE), client=httpx.AsyncClient())
        with respx.mock(using="httpx") as router:
            route = router.post(BASE + "/embeddings")
            route.side_effect = [BUSY, httpx.Response(200, content=b"[]")]
            request = ForwardedRequest("POST", "/embeddings", body=pieces() if body is None else body)
            if calls == 1:
                with pytest.raises(ProviderOverloaded):
                    await provider.forward(request)
            else:
                await (await provider.forward(request)).aclose()
            sent = route.call_count
        await provider.aclose()
        return sent

    assert asyncio.run(main()) == calls
