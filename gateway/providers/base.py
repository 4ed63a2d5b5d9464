"""The contract of a provider: who answers a chat completion. Knows nothing of audits, budgets or web frameworks.

A provider raises only `ProviderError`s; whoever receives a `Reply` closes it, in every case, exactly by `aclose()`.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import AsyncIterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Timeouts:
    """How long an upstream may take, in seconds; fractions are fine."""

    connect_s: float = 10.0
    first_token_s: float = 300.0  # from the start of the call to the first data event, or to the body of a plain answer
    idle_s: float = 60.0  # silence after that
    total_s: float = 900.0  # the whole call


@dataclass(frozen=True, slots=True)
class Retries:
    """How often a call that the provider never took up is made again, and how many seconds may be waited before."""

    attempts: int = 1
    longest_wait_s: float = 2.0


@dataclass(frozen=True, slots=True)
class ProviderConfig:
    """What is configured of one upstream. Its repr shows no address and no key.

    `base_url` may hold credentials and a query; `api_key` "passthrough" means that the client's own Authorization value goes
    out; `headers` and `query` are added to every call.
    """

    name: str
    base_url: str = field(default="", repr=False)
    api_key: str | None = field(default=None, repr=False)
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    query: Mapping[str, str] = field(default_factory=dict, repr=False)
    timeouts: Timeouts = field(default_factory=Timeouts)
    retries: Retries = field(default_factory=Retries)


@dataclass(frozen=True, slots=True)
class OutgoingRequest:
    """One request as it leaves: the body is final, byte for byte."""

    body: bytes
    stream: bool
    authorization: str | None = None  # the client's own Authorization value, for providers with api_key = "passthrough"
    room: int | None = None  # tokens that the context has left for the reply, where the request names no limit of its own


class Reply(ABC):
    """An open answer. `usage` and `finish_reason` are filled in as the answer is read."""

    streamed: bool
    usage: bytes | None = None  # the provider's last usage object, raw JSON
    finish_reason: str | None = None

    @property
    @abstractmethod
    def ended(self) -> bool:
        """Whether the last bytes have been given out."""

    @abstractmethod
    async def read(self) -> bytes:
        """The next bytes for the client; b"" after the end.

        Of a plain answer: the whole JSON body at the first call. Of a stream: one or more whole, legal server-sent events
        (`data:` chunks with `choices`, comments, `data: [DONE]` last), each as soon as it is complete.
        Raises ProviderError; a stream that ends without finish_reason raises ProviderStreamTruncated.
        """

    @abstractmethod
    async def aclose(self) -> None:
        """Ends the upstream request; safe to call twice, at any moment."""


@dataclass(frozen=True, slots=True)
class ForwardedRequest:
    """A request of any other endpoint, passed on as it came.

    `path` follows the base URL, percent-encoded, and begins with a slash; `query` has no question mark. `headers` are the
    client's: what belongs to its own connection, and its keys, the provider leaves out. `size` is the length of a body that
    comes in pieces, None where nobody knows it.
    """

    method: str
    path: str
    query: bytes = b""
    headers: Sequence[tuple[bytes, bytes]] = ()
    body: bytes | AsyncIterable[bytes] = b""
    size: int | None = None
    authorization: str | None = None  # the client's own Authorization value, for providers with api_key = "passthrough"


class Forwarded(ABC):
    """An open answer to a forwarded request, with a good status; `headers` are those that the client may see."""

    status: int
    headers: list[tuple[bytes, bytes]]

    @abstractmethod
    async def read(self) -> bytes:
        """The next bytes of the body as they arrive, unchanged; b"" after the end. Raises ProviderError."""

    @abstractmethod
    async def aclose(self) -> None:
        """Ends the upstream request; safe to call twice, at any moment."""


class Provider(ABC):
    """One configured upstream."""

    name: str

    @abstractmethod
    async def send(self, outgoing: OutgoingRequest) -> Reply:
        """Sends a chat completion; returns once the upstream has accepted it.

        Of a stream that is after its first data event (comments before it are held back, an error object as the first event
        raises); of a plain answer after the head with a good status. Raises ProviderError.
        """

    @abstractmethod
    async def forward(self, request: ForwardedRequest) -> Forwarded:
        """Passes a request of any other endpoint on; returns once the head of a good answer is there.

        Raises ProviderError, also for a redirect; NotFound where this kind of provider has no such endpoints.
        """

    @abstractmethod
    def account(self, authorization: str | None) -> str:
        """An opaque word for this server and the key that would be used with it (see `account_of`)."""

    @abstractmethod
    async def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        """A small request beside the chat (`/tokenize`, `/props`); path from the server's root. Raises ProviderError."""

    @abstractmethod
    async def ask_below(self, method: str, path: str, body: bytes = b"") -> bytes:
        """Like `ask`, for a path below the base URL (`/embeddings`)."""

    @abstractmethod
    async def context_limit(self, upstream_model: str) -> int | None:
        """The context length the upstream itself names for a model, in tokens; None when it names none. Never raises."""

    @abstractmethod
    async def aclose(self) -> None:
        """Closes every connection."""


def account_of(base_url: str, key: str) -> str:
    """16 hex digits of a SHA-256: the same for the same server and key, and telling neither."""
    return hashlib.sha256(f"{base_url}\n{key}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
