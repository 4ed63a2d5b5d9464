"""Every error a client can see, with its stable code. Knows nothing of HTTP but the numbers.

    GatewayError
    ├── InvalidRequest · ModelNotFound · ChatNotFound · NotFound · MethodNotAllowed
    ├── Unauthorized · HostNotAllowed · OriginNotAllowed · PayloadTooLarge · UnsupportedMediaType
    ├── TokenBudgetExceeded
    ├── ClientCancelled                    seen in audits, logs and metrics only
    ├── StoreUnavailable · ShuttingDown · Internal
    └── ProviderError
        ├── ProviderAuth · ProviderPermission · ProviderQuota · ProviderRateLimit · ProviderOverloaded
        ├── ProviderContextOverflow · ProviderMaxTokensInvalid · ProviderBadRequest · ProviderContentFilter
        ├── ProviderNotFound · ProviderPayloadTooLarge
        ├── ProviderTimeout · ProviderUnreachable · ProviderServerError · ProviderInvalidResponse · ProviderUnknown
        └── ProviderStreamError · ProviderStreamTruncated          after the first byte

Messages are our own words and numbers: no upstream text, key, header or address ever enters one.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

Number = int | float | bool | str | None


class GatewayError(Exception):
    """Something a client is told: `code` is stable, `message` is for people, `metadata` holds numbers."""

    code: ClassVar[str] = "INTERNAL"
    type: ClassVar[str] = "server_error"
    retryable: ClassVar[bool] = False

    def __init__(
        self,
        message: str,
        *,
        param: str | None = None,
        metadata: Mapping[str, Number] | None = None,
        status: int | None = None,
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.param = param
        self.metadata: dict[str, Number] = dict(metadata or {})
        self.status = status or self.default_status
        self.retry_after = retry_after

    default_status: ClassVar[int] = 500


class InvalidRequest(GatewayError):
    """The request itself is wrong; `param` is the JSON path of what is."""

    code = "INVALID_REQUEST"
    type = "invalid_request_error"
    default_status = 400


class ModelNotFound(GatewayError):
    """No model file answers for the name."""

    code = "MODEL_NOT_FOUND"
    type = "not_found_error"
    default_status = 404


class ChatNotFound(GatewayError):
    """No such chat for this tenant."""

    code = "CHAT_NOT_FOUND"
    type = "not_found_error"
    default_status = 404


class NotFound(GatewayError):
    """No such path."""

    code = "NOT_FOUND"
    type = "not_found_error"
    default_status = 404


class MethodNotAllowed(GatewayError):
    """The path exists, the method does not."""

    code = "METHOD_NOT_ALLOWED"
    type = "invalid_request_error"
    default_status = 405


class Unauthorized(GatewayError):
    """A client key is needed, and none that is known was sent."""

    code = "UNAUTHORIZED"
    type = "authentication_error"
    default_status = 401


class HostNotAllowed(GatewayError):
    """The Host header names a host this gateway does not serve."""

    code = "HOST_NOT_ALLOWED"
    type = "invalid_request_error"
    default_status = 421


class OriginNotAllowed(GatewayError):
    """A web page of another site asks for something that changes or costs something."""

    code = "ORIGIN_NOT_ALLOWED"
    type = "invalid_request_error"
    default_status = 403


class PayloadTooLarge(GatewayError):
    """The body exceeds `server.max_body_bytes`."""

    code = "PAYLOAD_TOO_LARGE"
    type = "invalid_request_error"
    default_status = 413


class UnsupportedMediaType(GatewayError):
    """The body is not JSON by its own header."""

    code = "UNSUPPORTED_MEDIA_TYPE"
    type = "invalid_request_error"
    default_status = 415


class TokenBudgetExceeded(GatewayError):
    """What must stay does not fit; nothing was sent."""

    code = "TOKEN_BUDGET_EXCEEDED"
    type = "invalid_request_error"
    default_status = 400


class ClientCancelled(GatewayError):
    """The client left before the end of its answer."""

    code = "CLIENT_CANCELLED"
    type = "client_closed_request"
    default_status = 499


class Internal(GatewayError):
    """A defect of the gateway; the log has the details, the client has not."""


class StoreUnavailable(GatewayError):
    """The audit store does not answer; without an audit nothing is sent."""

    code = "STORE_UNAVAILABLE"
    default_status = 503
    retryable = True


class ShuttingDown(GatewayError):
    """The gateway is going down: no new work, and what outlasts the grace is cut off."""

    code = "SHUTTING_DOWN"
    default_status = 503
    retryable = True


class ProviderError(GatewayError):
    """The provider, or the way to it, failed."""

    code = "PROVIDER_UNKNOWN"
    default_status = 502


class ProviderAuth(ProviderError):
    """The provider refused the key."""

    code = "PROVIDER_AUTH"
    type = "authentication_error"
    default_status = 403


class ProviderPermission(ProviderError):
    """The key may not do this."""

    code = "PROVIDER_PERMISSION"
    type = "permission_error"
    default_status = 403


class ProviderQuota(ProviderError):
    """The account is empty or capped; waiting does not help."""

    code = "PROVIDER_QUOTA"
    type = "insufficient_quota"
    default_status = 402


class ProviderRateLimit(ProviderError):
    """Too many requests; waiting helps."""

    code = "PROVIDER_RATE_LIMIT"
    type = "rate_limit_error"
    default_status = 429
    retryable = True


class ProviderOverloaded(ProviderError):
    """The provider is busy."""

    code = "PROVIDER_OVERLOADED"
    type = "overloaded_error"
    default_status = 503
    retryable = True


class ProviderContextOverflow(ProviderError):
    """The provider counted more tokens, or has less room, than was believed."""

    code = "PROVIDER_CONTEXT_OVERFLOW"
    type = "invalid_request_error"
    default_status = 400


class ProviderMaxTokensInvalid(ProviderError):
    """The requested reply limit is more than the provider allows."""

    code = "PROVIDER_MAX_TOKENS_INVALID"
    type = "invalid_request_error"
    default_status = 400


class ProviderBadRequest(ProviderError):
    """The provider refused the request as malformed."""

    code = "PROVIDER_BAD_REQUEST"
    type = "invalid_request_error"
    default_status = 400


class ProviderContentFilter(ProviderError):
    """The provider's safety filter blocked the request."""

    code = "PROVIDER_CONTENT_FILTER"
    type = "content_filter"
    default_status = 400


class ProviderNotFound(ProviderError):
    """The provider does not know the model or the path."""

    code = "PROVIDER_NOT_FOUND"
    type = "not_found_error"
    default_status = 404


class ProviderPayloadTooLarge(ProviderError):
    """Too many bytes for the provider (not too many tokens)."""

    code = "PROVIDER_PAYLOAD_TOO_LARGE"
    type = "invalid_request_error"
    default_status = 413


class ProviderTimeout(ProviderError):
    """No connection, no first token or no further token in time."""

    code = "PROVIDER_TIMEOUT"
    type = "timeout_error"
    default_status = 504
    retryable = True


class ProviderUnreachable(ProviderError):
    """No connection to the provider could be made or kept."""

    code = "PROVIDER_UNREACHABLE"
    type = "connection_error"
    default_status = 502
    retryable = True


class ProviderServerError(ProviderError):
    """The provider failed."""

    code = "PROVIDER_SERVER_ERROR"
    default_status = 502
    retryable = True


class ProviderInvalidResponse(ProviderError):
    """The provider's answer is not a chat completion."""

    code = "PROVIDER_INVALID_RESPONSE"
    default_status = 502
    retryable = True


class ProviderUnknown(ProviderError):
    """The provider refused for a reason that could not be told."""


class ProviderStreamError(ProviderError):
    """The provider broke off a stream with an error."""

    code = "PROVIDER_STREAM_ERROR"


class ProviderStreamTruncated(ProviderError):
    """A stream ended without a finish_reason."""

    code = "PROVIDER_STREAM_TRUNCATED"
