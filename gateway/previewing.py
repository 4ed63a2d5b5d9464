"""What `sluicegate preview` and `sluicegate count` find out: the same preparation as the gateway's, without a server.

Sends no message and writes no audit; a remote tokenizer, or an upstream that alone knows its limit, may be asked. Prints nothing.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import msgspec

from gateway.app import Configuration, Gateway, make_providers
from gateway.chat import ChatRequest
from gateway.counting import PromptCounting
from gateway.errors import InvalidRequest, ModelNotFound
from gateway.json_reading import read_json
from gateway.providers.base import Provider
from gateway.web import strict_json
from gateway.web.wire import ChatReader
from gateway.web.wire_messages import MessageReader
from gateway.web.wire_prompt import preview_object
from tokenizer_profiles.base import PromptCount, TokenCount
from tokenizer_profiles.builtin import AUTO
from tokenizer_profiles.registry import ProfileRegistry

STANDARD_INPUT = "-"
_SHOWN = 60  # characters of a block's text in a line for people


@dataclass(frozen=True, slots=True)
class Tally:
    """A counted request: by which profile, the role of each message, and why it is only estimated ("" where it is not known)."""

    profile: str
    prompt: PromptCount
    roles: Sequence[str]
    reason: str = ""


def read_input(file: str) -> bytes:
    """The bytes of a file, or of standard input for `-`. Raises InvalidRequest."""
    try:
        return sys.stdin.buffer.read() if file == STANDARD_INPUT else Path(file).read_bytes()
    except (OSError, ValueError) as error:  # the latter for what can be no path
        reason = error.strerror if isinstance(error, OSError) else error
        raise InvalidRequest(f"It can't be read: {reason}.") from error


async def preview(configuration: Configuration, body: bytes, strategies: Sequence[str]) -> list[dict[str, Any]]:
    """What a generation would send, as `/api/v2/context-preview` tells it; once, or once for each of the strategies.

    Raises InvalidRequest and ModelNotFound; over budget is an answer.
    """
    request = _read(configuration, body)
    variants = [replace(request, options=replace(request.options, strategy=name)) for name in strategies]
    gateway = Gateway(configuration)  # its parts are there at once
    preparer = gateway.rooms.engine.preparer
    async with aclosing(gateway):
        await gateway.take_up_lessons()
        found = [await preparer.prepare(variant) for variant in variants or [request]]
    return [preview_object(each.summary(), each.body(), fits=each.fits, deficit=each.deficit) for each in found]


async def count(configuration: Configuration | None, body: bytes, model: str | None) -> Tally:
    """Counts a request with the tokenizer configured for its model, or for `model`; by the name alone where none is configured.

    Raises InvalidRequest, and ProfileError when the tokenizer can't be had.
    """
    request = _read(configuration, body if model is None else _with_model(body, model))
    roles = [message.role for message in request.messages]
    try:
        config = None if configuration is None else configuration.models.resolve(request.model)
    except ModelNotFound:
        config = None
    if configuration is None or config is None:
        return await _count_by_name(request, roles)
    upstream_model = config.upstream_name(request.model)
    providers = make_providers(configuration.settings)
    counting = PromptCounting(ProfileRegistry.with_builtins(), {name: provider.ask for name, provider in providers.items()})
    async with _closed(providers.values()):
        counted = await counting.count(config, upstream_model, request, request.messages)
    return Tally(counted.profile, counted.prompt, roles, _reason(upstream_model) if config.tokenizer == AUTO else "")


def preview_lines(found: Mapping[str, Any]) -> Iterator[str]:
    """One preview for people to read."""
    budget, tokenizer = found["budget"], found["tokenizer"]
    exactness = "approximate" if tokenizer["approximate"] else "exact"
    counted = f"tokenizer {tokenizer['profile']}, {exactness}"
    yield _printable(f"{found['model']} at {found['provider']}, strategy {found['contextStrategy']}, {counted}")
    room = budget["contextLimit"] - budget["replyReserve"]
    margin = f" and a margin of {budget['safetyMargin']}" if budget["safetyMargin"] else ""
    yield f"limit {budget['contextLimit']} tokens: {room} for the prompt, {budget['replyReserve']} for the reply{margin}"
    verdict = "fits" if found["fits"] else f"does not fit: {found['deficit']} tokens too many; nothing would be sent"
    yield f"prompt {budget['promptTokens']} tokens, {budget['promptTokensBefore']} before: {verdict}"
    yield ""
    for block in found["blocks"]:
        yield _block_line(block)
    for remark in found["diagnostics"]:
        yield _printable(f"{remark['level']}: {remark['message']}")


def count_lines(tally: Tally) -> Iterator[str]:
    """One count for people to read."""
    prompt = tally.prompt
    for number, (role, tokens) in enumerate(zip(tally.roles, prompt.messages, strict=True)):
        yield _count_line(f"message {number}, {_printable(role)}", tokens)
    for label, part in (("tools", prompt.tools), ("response format", prompt.response_format), ("template", prompt.template)):
        if part.tokens:
            yield _count_line(label, part)
    exactness = "approximate" if prompt.approximate else "exact"
    yield f"{prompt.total:>9}  total, {exactness} (profile {tally.profile})"
    if tally.reason:
        yield _printable(f"approximate: {tally.reason}")


@asynccontextmanager
async def _closed(providers: Iterable[Provider]) -> AsyncIterator[None]:
    """Closes whatever was asked meanwhile."""
    try:
        yield
    finally:
        for provider in providers:
            await provider.aclose()


def _read(configuration: Configuration | None, body: bytes) -> ChatRequest:
    chat_id_headers = () if configuration is None else configuration.settings.clients.chat_id_headers
    return ChatReader(MessageReader()).read(body, {}, chat_id_headers, None)


def _with_model(body: bytes, model: str) -> bytes:
    fields = {key: msgspec.Raw(raw) for key, raw in strict_json.fields(body).items()}
    return msgspec.json.encode({**fields, "model": model})


async def _count_by_name(request: ChatRequest, roles: Sequence[str]) -> Tally:
    profile = ProfileRegistry.with_builtins().resolve(AUTO, request.model)
    await asyncio.to_thread(profile.load)
    others = {key: read_json(raw) for key, raw in request.fields.items() if key != "messages"}
    prompt = await profile.count_prompt([message.message for message in request.messages], others)
    return Tally(profile.name, prompt, roles, _reason(request.model))


def _reason(model: str) -> str:
    return ProfileRegistry.with_builtins().choose(model).reason


def _block_line(block: Mapping[str, Any]) -> str:
    fate = "kept" if block["included"] else "left out"
    if block["truncatedTo"] is not None:
        fate = f"cut to {block['truncatedTo']}"
    text = _printable(" ".join(block["content"][: 4 * _SHOWN].split()))
    shown = text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
    tokens = f"{'~' if block['approximate'] else ''}{block['tokens']}"
    return (
        f"{tokens:>9}  {fate:<8}  {block['reason']:<18}  {_printable(block['id'])} {_printable(block['role'])}: {shown}".rstrip()
    )


def _count_line(label: str, count: TokenCount) -> str:
    return f"{count.tokens:>9}  {label}{', approximate' if count.approximate else ''}"


def _printable(text: str) -> str:
    """Without anything that a terminal would obey."""
    return "".join(each if each.isprintable() else "\ufffd" for each in text)
