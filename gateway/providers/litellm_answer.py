"""Answers of litellm as the bytes a server of OpenAI's format would send. Knows the library's objects by their methods alone.

The library ends a stream that broke with a finish_reason of its own, and counts tokens where the provider named none.
Neither is passed on.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx

from gateway.providers.litellm_errors import Translation, broken_off
from gateway.providers.litellm_wire import CURRENT, LibraryCall

_COUNTS = ("prompt_tokens", "completion_tokens", "total_tokens")


class WholeAnswer(httpx.AsyncByteStream):
    """A completion as one body."""

    def __init__(self, answer: Any, call: LibraryCall) -> None:
        self._body = _dumped(_fields(answer, "message"))
        self._call = call

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        body, self._body = self._body, b""
        if not body:
            raise StopAsyncIteration
        return body

    async def aclose(self) -> None:
        """Ends what the call still has open."""
        await self._call.aclose()


class Chunks(httpx.AsyncByteStream):
    """A stream of the library as server-sent events. A usage that the client did not ask for comes without `choices`."""

    def __init__(self, chunks: Any, translation: Translation, *, usage_wanted: bool) -> None:
        self._chunks = chunks
        self._translation = translation
        self._call = translation.call
        self._usage_wanted = usage_wanted
        self._begun = False
        self._over = False

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if self._over:
            raise StopAsyncIteration
        try:
            event = await self._event()
        except BaseException:
            self._over = True
            raise
        self._begun = True
        return event

    async def _event(self) -> bytes:
        token = CURRENT.set(self._call)
        try:
            with self._translation.ours(begun=self._begun):
                fields = _fields(await anext(self._chunks), "delta")
        finally:
            CURRENT.reset(token)
        if any(choice["finish_reason"] for choice in fields["choices"]) and self._call.cut:
            raise broken_off(self._call, begun=self._begun)
        if not fields["choices"] and not self._usage_wanted:
            del fields["choices"]
        return b"data: " + _dumped(fields) + b"\n\n"

    async def aclose(self) -> None:
        """Ends the request on the wire, then what the library holds of it."""
        self._over = True
        await self._call.aclose()
        await self._chunks.aclose()


def _fields(answer: Any, part: str) -> dict[str, Any]:
    """A completion or a chunk without the fields that say nothing; those that every client reads stay."""
    fields: dict[str, Any] = answer.model_dump(mode="json", exclude_none=True, warnings=False)
    for choice in fields["choices"]:
        choice.setdefault("finish_reason", None)
        if part == "message":
            choice["message"].setdefault("content", None)
    usage = fields.get("usage")
    if isinstance(usage, dict):
        if part == "delta":
            usage.pop("cost", None)  # reckoned by the library, from prices of its own
        if not any(usage.get(name) for name in _COUNTS):
            del fields["usage"]
    return fields


def _dumped(fields: dict[str, Any]) -> bytes:
    return json.dumps(fields, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
