"""Stand-ins for what lies outside: a provider that says what a test tells it to, and stores with a fault."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace

from gateway.errors import StoreUnavailable
from gateway.providers.base import Forwarded, ForwardedRequest, OutgoingRequest, Provider, Reply, account_of
from gateway.stores.base import AuditHead, AuditKey, AuditOutcome
from gateway.stores.memory import MemoryStore

Piece = bytes | BaseException | asyncio.Event

ANSWER = b'{"id":"chatcmpl-1","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}]}'
CHUNK = b'data: {"id":"chatcmpl-1","choices":[{"index":0,"delta":{"content":"hi"}}]}\n\n'
DONE = b"data: [DONE]\n\n"
USAGE = b'{"prompt_tokens":7,"completion_tokens":1}'


class FakeReply(Reply):
    """Gives out its pieces; raises those that are exceptions, waits at those that are events, then goes on."""

    usage = USAGE
    finish_reason = "stop"

    def __init__(self, pieces: Sequence[Piece], *, streamed: bool) -> None:
        self.streamed = streamed
        self.closed = 0
        self._pieces = list(pieces)
        self._ended = False

    @property
    def ended(self) -> bool:
        return self._ended

    async def read(self) -> bytes:
        while self._pieces:
            piece = self._pieces.pop(0)
            if isinstance(piece, asyncio.Event):
                await piece.wait()
                continue
            if isinstance(piece, BaseException):
                raise piece
            self._ended = not self._pieces
            return piece
        self._ended = True
        return b""

    async def aclose(self) -> None:
        self.closed += 1


class FakeForwarded(Forwarded):
    """Gives out its pieces; raises those that are exceptions, waits at those that are events, then goes on."""

    def __init__(self, pieces: Sequence[Piece], headers: Sequence[tuple[bytes, bytes]], status: int) -> None:
        self.status = status
        self.headers = list(headers)
        self.closed = 0
        self._reply = FakeReply(pieces, streamed=True)

    async def read(self) -> bytes:
        return await self._reply.read()

    async def aclose(self) -> None:
        self.closed += 1


class FakeProvider(Provider):
    """Answers every request with a reply of the same pieces."""

    name = "up"

    def __init__(self, *pieces: Piece, limit: int | None = None, refusal: Exception | None = None) -> None:
        self.pieces: Sequence[Piece] = pieces or (ANSWER,)
        self.refusal = refusal
        self.limit = limit
        self.sent: list[OutgoingRequest] = []
        self.replies: list[FakeReply] = []
        self.forwarded: list[ForwardedRequest] = []
        self.answers: list[FakeForwarded] = []
        self.answer_status = 200
        self.answer_headers: Sequence[tuple[bytes, bytes]] = [(b"content-type", b"application/json")]
        self.asked: list[str] = []
        self.closed = 0
        self.before_send: Callable[[], object] | None = None
        self.hold: asyncio.Event | None = None

    async def send(self, outgoing: OutgoingRequest) -> Reply:
        self.sent.append(outgoing)
        if self.before_send is not None:
            self.before_send()
        if self.hold is not None:
            await self.hold.wait()
        if self.refusal is not None:
            raise self.refusal
        self.replies.append(FakeReply(self.pieces, streamed=outgoing.stream))
        return self.replies[-1]

    async def forward(self, request: ForwardedRequest) -> Forwarded:
        if not isinstance(request.body, bytes):
            request = replace(request, body=b"".join([piece async for piece in request.body]))
        self.forwarded.append(request)
        if self.hold is not None:
            await self.hold.wait()
        if self.refusal is not None:
            raise self.refusal
        self.answers.append(FakeForwarded(self.pieces, self.answer_headers, self.answer_status))
        return self.answers[-1]

    def account(self, authorization: str | None) -> str:
        return account_of(self.name, authorization or "")

    async def ask(self, method: str, path: str, body: bytes = b"") -> bytes:
        return b"{}"

    async def ask_below(self, method: str, path: str, body: bytes = b"") -> bytes:
        return b"{}"

    async def context_limit(self, upstream_model: str) -> int | None:
        self.asked.append(upstream_model)
        await asyncio.sleep(0)
        return self.limit

    async def aclose(self) -> None:
        self.closed += 1


class BrokenStore(MemoryStore):
    """A store that fails at the calls named."""

    def __init__(self, *failing: str) -> None:
        super().__init__()
        self.failing = failing

    async def replace(self, head: AuditHead, body: bytes) -> None:
        self._maybe("replace")
        await super().replace(head, body)

    async def finish(self, key: AuditKey, outcome: AuditOutcome) -> None:
        self._maybe("finish")
        await super().finish(key, outcome)

    async def check(self) -> None:
        self._maybe("check")

    def _maybe(self, call: str) -> None:
        if call in self.failing:
            raise StoreUnavailable("the disk is full")


class SlowStore(MemoryStore):
    """A store that has committed long before it says so."""

    def __init__(self) -> None:
        super().__init__()
        self.committed = asyncio.Event()
        self.say_so = asyncio.Event()
        self.ends = 0

    async def replace(self, head: AuditHead, body: bytes) -> None:
        await super().replace(head, body)
        self.committed.set()
        await self.say_so.wait()

    async def finish(self, key: AuditKey, outcome: AuditOutcome) -> None:
        self.ends += 1
        await super().finish(key, outcome)
