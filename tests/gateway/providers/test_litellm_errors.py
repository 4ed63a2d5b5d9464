"""Which of our errors an exception of the library becomes where nothing was seen on the wire, or something was."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import httpx
import pytest

from gateway.errors import GatewayError, ProviderOverloaded
from gateway.providers.base import ProviderConfig, Timeouts
from gateway.providers.deadline import Patience
from gateway.providers.litellm_errors import Translation, broken_off
from gateway.providers.litellm_wire import LibraryCall, Route

SECRET = "sk-secret"


class LibraryError(Exception):
    """Shaped like those of the library."""

    def __init__(self, message: str, status_code: int | None = None, cause: Exception | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.status_code = status_code
        self.__cause__ = cause


class AuthenticationError(LibraryError):
    pass


class UnsupportedParamsError(LibraryError):
    pass


class Timeout(LibraryError):
    pass


class MidStreamFallbackError(LibraryError):
    def __init__(self, original: Exception) -> None:
        super().__init__(f"wrapped {original}", 500)
        self.original_exception = original


def nothing_seen(call: LibraryCall) -> None:
    assert call.requests == 0


def told(raised: Exception, prepare: Callable[[LibraryCall], None] = nothing_seen, *, begun: bool = False) -> GatewayError:
    """What an exception becomes after a call that went as `prepare` says."""

    async def main() -> GatewayError:
        call = LibraryCall(Route(ProviderConfig("p")), Patience(Timeouts()), streamed=True)
        prepare(call)
        with pytest.raises(GatewayError) as caught, Translation(call, 1.5, ("model", "seed", "store")).ours(begun=begun):
            raise raised
        assert SECRET not in caught.value.message
        return caught.value

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("raised", "code"),
    [
        (AuthenticationError(SECRET, 401), "PROVIDER_AUTH"),
        (UnsupportedParamsError("x does not support parameters: ['store', 'seed']", 400), "INVALID_REQUEST"),
        (LibraryError("LLM Provider NOT provided. You passed sk-secret", 400), "PROVIDER_BAD_REQUEST"),
        (Timeout(SECRET, 408), "PROVIDER_TIMEOUT"),
        (LibraryError(SECRET, 500, httpx.ConnectError(SECRET)), "PROVIDER_UNREACHABLE"),
        (LibraryError(SECRET, 500, LibraryError("y", None, httpx.ConnectTimeout("x"))), "PROVIDER_TIMEOUT"),
        (LibraryError(SECRET, 500, ModuleNotFoundError("no", name="google")), "PROVIDER_BAD_REQUEST"),
        (
            LibraryError('x - {"error": {"message": "prompt is too long: 9 tokens > 8 maximum"}}', 400),
            "PROVIDER_CONTEXT_OVERFLOW",
        ),
        (LibraryError('x - {"error": {"code": "rate_limit_exceeded"}}', 429), "PROVIDER_RATE_LIMIT"),
        (MidStreamFallbackError(LibraryError("slow", 429)), "PROVIDER_RATE_LIMIT"),
        (LibraryError("'tool_call_id'", 400), "PROVIDER_BAD_REQUEST"),
        (KeyError(SECRET), "PROVIDER_BAD_REQUEST"),
    ],
)
def test_without_a_request_the_library_itself_is_believed(raised: Exception, code: str) -> None:
    assert told(raised).code == code


def test_what_a_provider_has_no_place_for_is_named_in_the_requests_order() -> None:
    error = told(UnsupportedParamsError("x does not support parameters: ['store', 'seed', 'other']"))
    assert error.param == "seed"
    assert "seed, store" in error.message
    assert "other" not in error.message
    assert told(UnsupportedParamsError("something else")).param is None


def test_a_missing_package_is_named() -> None:
    assert "package google" in told(LibraryError("x", 500, ModuleNotFoundError("no", name="google"))).message


def test_a_failure_seen_on_the_wire_wins() -> None:
    def failed(call: LibraryCall) -> None:
        call.requests = 1
        call.failed(ProviderOverloaded("first"))
        call.failed(ProviderOverloaded("second"))

    assert told(LibraryError("anything", 400), failed).message == "first"


@pytest.mark.parametrize(("begun", "code"), [(False, "PROVIDER_SERVER_ERROR"), (True, "PROVIDER_STREAM_ERROR")])
def test_an_error_object_in_the_answer_is_read(begun: bool, code: str) -> None:
    def reporting(call: LibraryCall) -> None:
        call.requests = 1
        call.heard(b'data: {"error": {"type": "api_error", "message": "sk-secret"}}\n\n')

    assert told(LibraryError("anything", 400), reporting, begun=begun).code == code


def test_a_binary_stream_is_told_by_the_status_the_library_found_in_it() -> None:
    def framed(call: LibraryCall) -> None:
        call.requests, call.framed = 1, True

    assert told(LibraryError('x {"message": "Too many requests"}', 429), framed, begun=True).code == "PROVIDER_RATE_LIMIT"
    assert told(LibraryError("x", 500), framed, begun=True).code == "PROVIDER_STREAM_TRUNCATED"


@pytest.mark.parametrize(
    ("begun", "whole", "code"),
    [
        (False, False, "PROVIDER_INVALID_RESPONSE"),
        (True, False, "PROVIDER_STREAM_TRUNCATED"),
        (True, True, "PROVIDER_STREAM_ERROR"),
    ],
)
def test_an_answer_that_cannot_be_read_is_told_by_how_far_it_came(begun: bool, whole: bool, code: str) -> None:
    def answered(call: LibraryCall) -> None:
        call.requests, call.whole = 1, whole
        assert broken_off(call, begun=begun).code == code

    assert told(LibraryError("'content'", 500), answered, begun=begun).code == code


def test_our_own_errors_and_the_end_pass() -> None:
    ours = ProviderOverloaded("ours")
    assert told(ours) is ours

    async def main() -> None:
        call = LibraryCall(Route(ProviderConfig("p")), Patience(Timeouts()))
        for passing in (StopAsyncIteration, asyncio.CancelledError):
            with pytest.raises(passing), Translation(call, 1.0).ours(begun=True):
                raise passing

    asyncio.run(main())
