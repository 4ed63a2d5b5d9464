"""What every client is asked to do, and what the provider answers to it. Knows no client and no expectation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.chats import conversation, message
from tests.scenarios.loopback.upstream import Ending, Script, Step, Upstream

LIMIT, RESERVE = 1000, 100
MODEL = f"""\
model = "small"
aliases = ["small-*"]
provider = "fake"
context_limit = {LIMIT}
reply_reserve = {RESERVE}
tokenizer = "o200k_base"
"""
UPSTREAM_WORDS = "words of the provider"
TOOL_RESULT = "1233 km"
FIRST_TEXT = "The Nile"
SHORT = [{"role": "system", "content": "You know rivers."}, {"role": "user", "content": "Name three."}]
LONG_CHAT = conversation(turns=12, tokens=60)
TOO_LONG = [message("system", 700, "s"), message("user", 400, "u")]
ARGUMENTS = ['{"river": "Rh\\u00f4ne", "unit": "km"}', '{"river": "Po \\"lower\\""}']
TOOL = {
    "type": "function",
    "function": {
        "name": "length_of",
        "description": "How long a river is.",
        "parameters": {
            "type": "object",
            "properties": {"river": {"type": "string"}, "unit": {"type": "string"}},
            "required": ["river"],
        },
    },
}


@dataclass(frozen=True, slots=True)
class Scenario:
    """One request of a client: what the provider plays, first and from the second call on, and what the client adds."""

    name: str
    steps: tuple[Step, ...] = ()
    then: tuple[Step, ...] | None = None
    stream: bool = False
    messages: Sequence[dict[str, Any]] = field(default_factory=lambda: SHORT)
    extra: dict[str, Any] = field(default_factory=dict)
    tools: bool = False
    model: str | None = None

    def script(self, upstream: Upstream) -> Script:
        """The provider's part, under a model name of its own."""
        return Script(self.model, []) if self.model else upstream.script(*self.steps, then=self.then)

    def request(self, model: str) -> dict[str, Any]:
        """What the driver is told to ask."""
        asked = {"name": self.name, "model": model, "stream": self.stream, "messages": self.messages, "extra": self.extra}
        return asked | ({"tools": [TOOL], "toolResult": TOOL_RESULT} if self.tools else {})


def chunk(delta: dict[str, Any], finish_reason: str | None = None) -> bytes:
    """One event of a stream."""
    choice = {"index": 0, "delta": delta, "finish_reason": finish_reason}
    return replies.event({**replies.CREATED, "object": "chat.completion.chunk", "choices": [choice]})


def tool_calls() -> list[dict[str, Any]]:
    """Two calls at once, as a plain reply has them."""
    return [
        {"id": f"call_{number}", "type": "function", "function": {"name": "length_of", "arguments": text}}
        for number, text in enumerate(ARGUMENTS)
    ]


def plain_calls() -> bytes:
    """A plain reply that calls tools."""
    called = {"role": "assistant", "content": None, "tool_calls": tool_calls()}
    return replies.plain(choices=[{"index": 0, "message": called, "finish_reason": "tool_calls"}])


def streamed_calls() -> bytes:
    """The same in a stream: first the name, then the arguments, three characters at a time."""
    events = [chunk({"role": "assistant", "content": None})]
    for index, call in enumerate(tool_calls()):
        text = call["function"]["arguments"]
        begun = {**call, "index": index, "function": {"name": call["function"]["name"], "arguments": ""}}
        pieces = [{"index": index, "function": {"arguments": text[at : at + 3]}} for at in range(0, len(text), 3)]
        events += [chunk({"tool_calls": [piece]}) for piece in (begun, *pieces)]
    end = [chunk({}, "tool_calls"), replies.usage_event(), replies.DONE, replies.END]
    return replies.STREAM_HEAD + b"".join(events + end)


def error_event(code: str) -> bytes:
    """An error object in a stream."""
    return replies.event(json.dumps({"error": {"message": UPSTREAM_WORDS, "type": "some_error", "code": code}}).encode())


def refused(status: int, code: str | None = None) -> tuple[Step, ...]:
    """A refusal of the provider."""
    return (replies.refusal(status, UPSTREAM_WORDS, code=code),)


BEGUN = replies.STREAM_HEAD + replies.piece(FIRST_TEXT)
REPORT = {"contextShift": {"report": "summary"}}
OVERFLOW = "context_length_exceeded"
SCENARIOS = [
    Scenario("plain", (replies.plain(),)),
    Scenario("stream", (replies.stream("The Nile,", " the Rhine", " and the Po."),), stream=True),
    Scenario("tools", (plain_calls(),), (replies.plain(),), tools=True),
    Scenario("tools-streamed", (streamed_calls(),), (replies.plain(),), stream=True, tools=True),
    Scenario("report", (replies.plain(),), messages=LONG_CHAT, extra=REPORT),
    Scenario("report-streamed", (replies.stream(),), stream=True, messages=LONG_CHAT, extra=REPORT),
    Scenario("invalid-request", extra={"contextStrategy": "nobody's"}),
    Scenario("unknown-model", model="nobody"),
    Scenario("auth", refused(401)),
    Scenario("quota", refused(429, "insufficient_quota")),
    Scenario("quota-streamed", refused(429, "insufficient_quota"), stream=True),
    Scenario("content-filter", refused(400, "content_filter")),
    Scenario("rate-limit", (replies.refusal(429, UPSTREAM_WORDS, retry_after="1"),), (replies.plain(),)),
    Scenario("overloaded", refused(503)),
    Scenario("server-error", refused(500)),
    Scenario("budget", messages=TOO_LONG),
    Scenario("budget-streamed", messages=TOO_LONG, stream=True),
    Scenario("overflow", refused(400, OVERFLOW)),
    Scenario("overflow-streamed", (replies.STREAM_HEAD + error_event(OVERFLOW) + replies.END,), stream=True),
    Scenario("error-first", (replies.STREAM_HEAD + error_event("insufficient_quota") + replies.END,), stream=True),
    Scenario("error-midway", (BEGUN + error_event("server_error") + replies.END,), stream=True),
    Scenario("broken", (BEGUN, 0.2, Ending.RESET), stream=True),
    Scenario("unfinished", (BEGUN + replies.END,), stream=True),
]
