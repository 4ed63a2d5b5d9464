"""Which of our errors an exception of litellm is. Told by what was seen on the wire, if anything; never imports the library.

The library's own words decide only where it sent nothing. They enter no message.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import islice

import httpx

from gateway.errors import (
    GatewayError,
    InvalidRequest,
    ProviderAuth,
    ProviderBadRequest,
    ProviderInvalidResponse,
    ProviderServerError,
    ProviderStreamError,
    ProviderStreamTruncated,
    ProviderTimeout,
)
from gateway.providers.errors import refusal, reported_error, transport_error
from gateway.providers.litellm_wire import LibraryCall

_MAX_CAUSES = 10
_NO_KEY = (
    "The litellm library did not find what it needs to sign in to this provider. Set api_key, or the variables that the "
    "library reads for this provider."
)
_UNKNOWN = (
    "litellm does not know whose model this is. Set upstream_model to the library's name for it, provider first, "
    'for example "anthropic/claude-sonnet-4-5".'
)
_UNTRANSLATED = "The litellm library could not put this request into the provider's format."
_NOT_A_COMPLETION = "The provider's answer is not a chat completion: the litellm library could not read it."


@dataclass(frozen=True, slots=True)
class Translation:
    """Makes our errors of what the library raises in one call; `fields` are the names of the request's fields."""

    call: LibraryCall
    connect_s: float
    fields: tuple[str, ...] = ()

    @contextmanager
    def ours(self, *, begun: bool) -> Iterator[None]:
        """Whatever the library raises inside leaves as a GatewayError. `begun`: a chunk has been given out."""
        try:
            yield
        except (GatewayError, StopAsyncIteration):
            raise
        except Exception as error:  # the library is foreign code
            raise self._told(error, begun) from error

    def _told(self, error: Exception, begun: bool) -> GatewayError:
        call = self.call
        if call.failure is not None:
            return call.failure
        original = _original(error)
        if not call.requests:
            return _before_any_request(original, self.connect_s, self.fields)
        if call.framed and (status := _status(original)) not in (None, 500):
            return refusal(status or 0, {}, _text(original))
        return broken_off(call, begun=begun)


def broken_off(call: LibraryCall, *, begun: bool) -> GatewayError:
    """Our error for an answer that ended, or became unreadable, without an error of its own."""
    reported = call.reported()
    if reported is not None:
        return reported_error(reported, in_band=begun)
    if not begun:
        return ProviderInvalidResponse(_NOT_A_COMPLETION)
    if call.cut:
        return ProviderStreamTruncated("The provider's stream ended without a finish_reason.")
    return ProviderStreamError("The provider sent an event that the litellm library could not read.")


def _before_any_request(error: Exception, connect_s: float, fields: Iterable[str]) -> GatewayError:
    """The library refused by itself, or went past our connections (a few of its providers bring their own)."""
    names = {kind.__name__ for kind in type(error).__mro__}
    text = _text(error).decode("utf-8", "replace")
    if "AuthenticationError" in names:
        return ProviderAuth(_NO_KEY)
    if "UnsupportedParamsError" in names:
        return _unsupported(text, fields)
    if "LLM Provider NOT provided" in text:
        return ProviderBadRequest(_UNKNOWN)
    if "Timeout" in names:
        return ProviderTimeout("The provider ran out of time.")
    for cause in islice(_causes(error), _MAX_CAUSES):
        if isinstance(cause, ImportError):
            return ProviderBadRequest(f"For this provider litellm needs the package {cause.name}: install it beside the gateway.")
        if isinstance(cause, (httpx.HTTPError, httpx.InvalidURL)) and not isinstance(cause, httpx.HTTPStatusError):
            return transport_error(cause, connect_s=connect_s)
    ours = refusal(_status(error) or 500, {}, _text(error))
    return ProviderBadRequest(_UNTRANSLATED) if isinstance(ours, (ProviderBadRequest, ProviderServerError)) else ours


def _unsupported(text: str, fields: Iterable[str]) -> GatewayError:
    listed = set(re.findall(r"'(\w+)'", text))
    named = [name for name in fields if name in listed]
    return InvalidRequest(
        f"This provider's format has no place for {', '.join(named) or 'a field of this request'}. Leave it out.",
        param=named[0] if named else None,
    )


def _original(error: Exception) -> Exception:
    """The exception inside the one that the library wraps around errors of streams."""
    inner = getattr(error, "original_exception", None)
    return inner if isinstance(inner, Exception) else error


def _status(error: Exception) -> int | None:
    status = getattr(error, "status_code", None)
    return status if isinstance(status, int) and 300 <= status < 600 else None


def _text(error: Exception) -> bytes:
    """What the upstream said, where the library kept it: JSON behind the library's own words, or a text."""
    message = str(getattr(error, "message", "") or error)
    start = message.find("{")
    return (message[start : message.rfind("}") + 1] if start >= 0 else message).encode("utf-8", "replace")


def _causes(error: BaseException) -> Iterator[BaseException]:
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__ or cause.__context__
