"""When a call is made once more, when not, and how long that may take."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from gateway.errors import (
    ProviderContextOverflow,
    ProviderError,
    ProviderOverloaded,
    ProviderQuota,
    ProviderRateLimit,
    ProviderTimeout,
    ProviderUnreachable,
)
from gateway.providers.base import Retries, Timeouts
from gateway.providers.errors import transport_error
from gateway.providers.retrying import with_retry


def failed(error: httpx.TransportError) -> ProviderError:
    """What becomes of an exception of the transport."""
    ours = transport_error(error, connect_s=1)
    ours.__cause__ = error
    return ours


def refused(kind: type[ProviderError], wait: float | None = 0.0, status: int = 503) -> ProviderError:
    return kind("no", metadata={"providerStatus": status}, retry_after=wait)


def run(*outcomes: ProviderError | str, retries: Retries | None = None, timeouts: Timeouts | None = None):
    """What comes of calls with these outcomes: the answer or the error, and the loop times the calls were told."""
    told: list[float] = []

    async def call(since: float) -> str:
        told.append(since)
        outcome = outcomes[len(told) - 1]
        if isinstance(outcome, ProviderError):
            raise outcome
        return outcome

    async def main() -> str | ProviderError:
        try:
            return await with_retry(call, retries or Retries(), timeouts or Timeouts())
        except ProviderError as error:
            return error

    return asyncio.run(main()), told


REPEATED = {
    "no connection": failed(httpx.ConnectError("refused")),
    "busy": refused(ProviderOverloaded),
}


@pytest.mark.parametrize("error", REPEATED.values(), ids=REPEATED)
def test_what_was_never_taken_up_is_tried_once_more_with_the_clock_of_the_first(error):
    answer, told = run(error, "answer")
    assert answer == "answer"
    assert told[0] == told[1]


@pytest.mark.parametrize("error", REPEATED.values(), ids=REPEATED)
def test_there_is_no_third_try(error):
    answer, told = run(REPEATED["busy"], error, "answer")
    assert (answer, len(told)) == (error, 2)


def test_what_went_well_is_not_repeated():
    answer, told = run("answer", "another")
    assert (answer, len(told)) == ("answer", 1)


@pytest.mark.parametrize(
    "error",
    [
        failed(httpx.ConnectTimeout("slow")),
        failed(httpx.ReadError("reset")),
        failed(httpx.RemoteProtocolError("closed unanswered")),
        failed(httpx.PoolTimeout("full")),
        ProviderUnreachable("a body that broke off"),
        ProviderTimeout("no first token"),
        refused(ProviderOverloaded, None),
        refused(ProviderOverloaded, 2.5),
        refused(ProviderOverloaded, status=529),
        refused(ProviderQuota),
        refused(ProviderContextOverflow),
        refused(ProviderRateLimit, status=429),
    ],
)
def test_everything_else_is_told_at_once(error):
    answer, told = run(error, "answer")
    assert (answer, len(told)) == (error, 1)


@pytest.mark.parametrize("error", REPEATED.values(), ids=REPEATED)
def test_without_attempts_nothing_is_repeated(error):
    answer, told = run(error, "answer", retries=Retries(attempts=0))
    assert (answer, len(told)) == (error, 1)


def test_the_wait_is_the_one_asked_for():
    started = time.monotonic()
    assert run(refused(ProviderOverloaded, 0.15), "answer", retries=Retries(longest_wait_s=0.15))[0] == "answer"
    assert time.monotonic() - started >= 0.14


@pytest.mark.parametrize("timeouts", [Timeouts(total_s=1), Timeouts(first_token_s=1)])
@pytest.mark.parametrize(("wait", "calls"), [(1.0, 1), (0.01, 2)])
def test_a_wait_that_would_outlast_the_call_is_not_begun(timeouts, wait, calls):
    assert len(run(refused(ProviderOverloaded, wait), "answer", timeouts=timeouts)[1]) == calls


def test_who_leaves_during_the_wait_is_let_go():
    calls = []

    async def call(since: float) -> str:
        calls.append(since)
        raise refused(ProviderOverloaded, 30)

    async def main() -> None:
        task = asyncio.create_task(with_retry(call, Retries(longest_wait_s=60), Timeouts()))
        await asyncio.sleep(0.02)
        assert not task.done()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())
    assert len(calls) == 1
