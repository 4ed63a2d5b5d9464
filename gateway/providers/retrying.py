"""When a call is made once more: the provider never took it up, or asked for a moment. Knows no HTTP and sends nothing itself.

No byte of the request may have been written (the connection failed, not: took too long), or the provider said 503 and a short
wait. Never after the first byte of an answer: whoever calls leaves the answer's body outside. Both tries share one clock.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

import httpx

from gateway.errors import ProviderError, ProviderOverloaded, ProviderUnreachable
from gateway.providers.base import Retries, Timeouts

T = TypeVar("T")
_PAUSE_S = 0.1  # before a connection is tried again
_UNAVAILABLE = 503


async def with_retry(call: Callable[[float], Awaitable[T]], retries: Retries, timeouts: Timeouts) -> T:
    """What the call gives, at the second try where the first may be repeated; its ProviderErrors otherwise.

    `call` takes the loop's time since which the whole call counts.
    """
    loop = asyncio.get_running_loop()
    began = loop.time()
    try:
        return await call(began)
    except ProviderError as error:
        wait = _wait_before(error, retries)
        if wait is None or loop.time() + wait >= began + min(timeouts.first_token_s, timeouts.total_s):
            raise
    await asyncio.sleep(wait)
    return await call(began)


def _wait_before(error: ProviderError, retries: Retries) -> float | None:
    """Seconds until the second try; None where there is none. A connect timeout has waited long enough already."""
    if not retries.attempts:
        return None
    if isinstance(error, ProviderUnreachable) and isinstance(error.__cause__, httpx.ConnectError):
        return min(_PAUSE_S, retries.longest_wait_s)
    asked = error.retry_after
    if not isinstance(error, ProviderOverloaded) or error.metadata.get("providerStatus") != _UNAVAILABLE or asked is None:
        return None
    return asked if asked <= retries.longest_wait_s else None
