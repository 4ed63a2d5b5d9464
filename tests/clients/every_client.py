"""What programs see that talk to the gateway with the client libraries people use. `make test-clients` runs it.

The name keeps it out of the plain test suite: it needs Node and the environments that `requirements/install.py clients` makes.
A client that is not there fails its tests.
"""

from __future__ import annotations

import json
import re
from typing import Any, NamedTuple

import pytest

from tests.clients.conftest import Trial
from tests.clients.scenarios import (
    ARGUMENTS,
    FIRST_TEXT,
    LIMIT,
    LONG_CHAT,
    RESERVE,
    SCENARIOS,
    SHORT,
    TOOL,
    TOOL_RESULT,
    UPSTREAM_WORDS,
)
from tests.scenarios.loopback import replies
from tests.scenarios.loopback.chats import tokens_of, without_oldest

FAMILIES = ("openai-python", "langchain", "litellm", "openai-node", "ai-sdk")


class Failure(NamedTuple):
    """A scenario that fails: what HTTP and the gateway say, how often it is asked, and the class each family raises."""

    status: int | None
    code: str
    requests: int
    classes: tuple[str, str, str, str, str]

    def raised_by(self, family: str) -> str:
        """The class that a client of this family raises."""
        return self.classes[FAMILIES.index(family)]


_BAD = ("BadRequestError", "OpenAIInvalidRequestError", "BadRequestError", "BadRequestError", "APICallError")
_UNKNOWN = ("NotFoundError", "OpenAIModelNotFoundError", "NotFoundError", "NotFoundError", "APICallError")
_REFUSED = ("PermissionDeniedError", "OpenAIPermissionDeniedError", "APIError", "PermissionDeniedError", "APICallError")
_UNPAID = ("APIStatusError", "APIStatusError", "APIError", "APIError", "APICallError")
_BUSY = ("InternalServerError", "OpenAIAPIError", "ServiceUnavailableError", "InternalServerError", "RetryError")
_DOWN = ("InternalServerError", "OpenAIAPIError", "BadGatewayError", "InternalServerError", "RetryError")
_LONG = ("BadRequestError", "OpenAIContextOverflowError", "ContextWindowExceededError", "BadRequestError", "APICallError")
_IN_BAND = ("APIError", "APIError", "MidStreamFallbackError", "APIError", "Object")  # the AI SDK gives the bare object
FAILURES = {
    "invalid-request": Failure(400, "INVALID_REQUEST", 1, _BAD),
    "unknown-model": Failure(404, "MODEL_NOT_FOUND", 1, _UNKNOWN),
    "auth": Failure(403, "PROVIDER_AUTH", 1, _REFUSED),
    "quota": Failure(402, "PROVIDER_QUOTA", 1, _UNPAID),
    "quota-streamed": Failure(402, "PROVIDER_QUOTA", 1, _UNPAID),
    "content-filter": Failure(400, "PROVIDER_CONTENT_FILTER", 1, _BAD),
    "overloaded": Failure(503, "PROVIDER_OVERLOADED", 3, _BUSY),
    "server-error": Failure(502, "PROVIDER_SERVER_ERROR", 3, _DOWN),
    "budget": Failure(400, "TOKEN_BUDGET_EXCEEDED", 1, _LONG),
    "budget-streamed": Failure(400, "TOKEN_BUDGET_EXCEEDED", 1, _LONG),
    "overflow": Failure(400, "PROVIDER_CONTEXT_OVERFLOW", 1, _LONG),
    "overflow-streamed": Failure(400, "PROVIDER_CONTEXT_OVERFLOW", 1, _LONG),
    "error-first": Failure(402, "PROVIDER_QUOTA", 1, _UNPAID),
    "error-midway": Failure(None, "PROVIDER_STREAM_ERROR", 1, _IN_BAND),
    "broken": Failure(None, "PROVIDER_STREAM_TRUNCATED", 1, _IN_BAND),
    "unfinished": Failure(None, "PROVIDER_STREAM_TRUNCATED", 1, _IN_BAND),
}
OVERFLOWS = [name for name, failure in FAILURES.items() if failure.classes is _LONG]
BROKEN_STREAMS = [name for name, failure in FAILURES.items() if failure.classes is _IN_BAND]
REFUSED_BY_THE_GATEWAY = ["invalid-request", "unknown-model", "budget", "budget-streamed"]
REPLIES = sorted({scenario.name for scenario in SCENARIOS} - FAILURES.keys())

KEEPS_NO_REPORT = {"langchain"}  # of the reply's unknown fields; the headers tell the same
KEEPS_NO_ID = {("langchain", True)}  # of a stream
TELLS_NO_CODE = {"litellm"}  # of most errors: it has classes instead
OVERFLOW_KINDS = {"langchain": "ContextOverflowError", "litellm": "ContextWindowExceededError"}
OVERFLOW_WORDS = {  # what programs look for in an error's text
    "cline": r"\bcontext\s*(length|window|limit)\b|\bprompt\s+is\s+too\s+long\b|reduce the length of the messages or completion",
    "roo": r"\bcontext\s*(length|window)\b|\bmaximum\s*context\b|\btokens?\s*exceed|\btoo\s*many\s*tokens?\b",
    "kilo, opencode, pi": r"prompt is too long|exceeds the context window|maximum context length is \d+ tokens|too many tokens",
    "continue": r"maximum context length|reduce the length of the messages|context_length_exceeded|use a shorter prompt",
    "librechat": r"maximum context length|prompt is too long|exceeds the model|max_tokens|token limit|input too long",
    "openhands": r"contextwindowexceedederror|prompt is too long|please reduce the length of|context length exceeded",
    "langchain": r"context_length_exceeded|input tokens exceed the configured limit|prompt is too long|maximum context length",
    "litellm": r"this model's maximum context length is|prompt is too long|exceeds the available context size",
}
THROTTLED_WORDS = r"rate[\s_-]?limit|per[\s_-]?minute|\b429\b|auth|permission|forbidden|quota|billing|too many requests"


def says(words: str, text: str) -> bool:
    """Whether a text holds one of the phrases, in any case of letters."""
    return re.search(words, text, re.IGNORECASE) is not None


def sent(trial: Trial, name: str, number: int = 1) -> Any:
    """The body of a request that reached the provider, parsed."""
    return trial.scripts[name].calls[number - 1].json


def parsed(calls: list[dict[str, Any]]) -> list[tuple[str, str, Any]]:
    """Tool calls with their arguments as values; some clients give them parsed."""
    texts = [call["arguments"] for call in calls]
    values = [json.loads(text) if isinstance(text, str) else text for text in texts]
    return [(call["id"], call["name"], value) for call, value in zip(calls, values, strict=True)]


CALLS = [(f"call_{number}", "length_of", json.loads(text)) for number, text in enumerate(ARGUMENTS)]


def test_the_client_is_of_the_generation_it_stands_for(trial: Trial) -> None:
    assert trial.version.startswith(trial.generation.version)


@pytest.mark.parametrize("name", REPLIES)
def test_a_reply_raises_nothing(trial: Trial, name: str) -> None:
    assert trial.outcomes[name]["error"] is None


@pytest.mark.parametrize("name", ["plain", "stream", "rate-limit"])
def test_a_reply_arrives_with_its_text_end_usage_and_id(trial: Trial, name: str) -> None:
    outcome = trial.outcomes[name]
    assert outcome["text"] == replies.TEXT
    assert outcome["finish"] == "stop"
    assert outcome["usage"] == [replies.USAGE["prompt_tokens"], replies.USAGE["completion_tokens"]]
    kept = (trial.generation.family, name == "stream") not in KEEPS_NO_ID
    assert outcome["id"] == (replies.CREATED["id"] if kept else None)


@pytest.mark.parametrize("name", ["plain", "stream"])
def test_a_prompt_that_fits_reaches_the_provider_byte_for_byte(trial: Trial, name: str) -> None:
    (body,) = trial.requests[name]
    assert [call.body for call in trial.scripts[name].calls] == [body]
    assert sent(trial, name)["messages"] == SHORT
    assert trial.scripts[name].calls[0].headers["authorization"] == "Bearer sk-of-the-gateway"


def test_the_usage_of_a_stream_was_asked_for(trial: Trial) -> None:
    assert sent(trial, "stream")["stream_options"] == {"include_usage": True}


@pytest.mark.parametrize("name", ["tools", "tools-streamed"])
def test_tool_calls_come_back_whole(trial: Trial, name: str) -> None:
    outcome = trial.outcomes[name]
    assert parsed(outcome["calls"]) == CALLS
    assert outcome["finish"] == "tool_calls"


@pytest.mark.parametrize("name", ["tools", "tools-streamed"])
def test_a_tool_is_described_to_the_provider_as_the_client_describes_it(trial: Trial, name: str) -> None:
    (tool,) = sent(trial, name)["tools"]
    assert tool["function"]["name"] == TOOL["function"]["name"]
    assert tool["function"]["parameters"]["properties"] == TOOL["function"]["parameters"]["properties"]
    assert [call.body for call in trial.scripts[name].calls] == trial.requests[name]


@pytest.mark.parametrize("name", ["tools", "tools-streamed"])
def test_the_results_of_tools_go_out_with_their_calls(trial: Trial, name: str) -> None:
    *before, spoken, first, second = sent(trial, name, 2)["messages"]
    assert before == SHORT
    assert parsed([{"id": call["id"], **call["function"]} for call in spoken["tool_calls"]]) == CALLS
    assert [(result["role"], result["tool_call_id"], result["content"]) for result in (first, second)] == [
        ("tool", "call_0", TOOL_RESULT),
        ("tool", "call_1", TOOL_RESULT),
    ]
    assert trial.outcomes[name]["followUp"] == replies.TEXT


@pytest.mark.parametrize("name", FAILURES)
def test_a_failure_raises_the_class_that_stands_for_it(trial: Trial, name: str) -> None:
    error, failure = trial.outcomes[name]["error"], FAILURES[name]
    family = trial.generation.family
    assert error is not None, "the client did not notice"
    assert error["class"] == failure.raised_by(family)
    assert failure.status in (error["status"], None)
    assert error["code"] == failure.code or (family in TELLS_NO_CODE and error["code"] is None)
    assert error["text"]
    assert UPSTREAM_WORDS not in error["text"]


@pytest.mark.parametrize("name", FAILURES)
def test_only_what_may_be_over_soon_is_asked_again(trial: Trial, name: str) -> None:
    asked = FAILURES[name].requests
    assert len(trial.requests[name]) == asked
    assert len(trial.scripts[name].calls) == (0 if name in REFUSED_BY_THE_GATEWAY else asked)


def test_a_rate_limit_is_waited_for_and_asked_once_more(trial: Trial) -> None:
    assert len(trial.requests["rate-limit"]) == len(trial.scripts["rate-limit"].calls) == 2


@pytest.mark.parametrize("name", OVERFLOWS)
def test_a_prompt_that_is_too_long_is_known_by_its_words(trial: Trial, name: str) -> None:
    text = trial.outcomes[name]["error"]["text"]
    assert [program for program, words in OVERFLOW_WORDS.items() if not says(words, text)] == []
    assert not says(THROTTLED_WORDS, text)


@pytest.mark.parametrize("name", OVERFLOWS)
def test_a_prompt_that_is_too_long_is_known_by_its_kind_where_there_is_one(trial: Trial, name: str) -> None:
    family = trial.generation.family
    kind = OVERFLOW_KINDS.get(family, FAILURES[name].raised_by(family))
    assert kind in trial.outcomes[name]["error"]["kinds"]


@pytest.mark.parametrize("name", sorted(FAILURES.keys() - set(OVERFLOWS)))
def test_no_other_failure_is_taken_for_a_prompt_that_is_too_long(trial: Trial, name: str) -> None:
    error = trial.outcomes[name]["error"]
    assert [program for program, words in OVERFLOW_WORDS.items() if says(words, error["text"])] == []
    assert not set(OVERFLOW_KINDS.values()) & set(error["kinds"])


@pytest.mark.parametrize("name", BROKEN_STREAMS)
def test_a_stream_that_breaks_gives_its_text_and_no_end(trial: Trial, name: str) -> None:
    outcome = trial.outcomes[name]
    assert outcome["text"] == FIRST_TEXT
    assert outcome["finish"] is None
    assert outcome["error"] is not None


@pytest.mark.parametrize("name", ["report", "report-streamed"])
def test_what_was_left_out_is_told_in_headers(trial: Trial, name: str) -> None:
    kept = without_oldest(LONG_CHAT, LIMIT - RESERVE)
    headers = trial.outcomes[name]["headers"]
    assert 1 < len(kept) < len(LONG_CHAT)
    assert sent(trial, name)["messages"] == kept
    assert headers["x-context-prompt-tokens"] == str(tokens_of(kept))
    assert headers["x-context-excluded"] == str(len(LONG_CHAT) - len(kept))
    assert headers["x-context-generation-id"]
    assert headers["x-request-id"]


@pytest.mark.parametrize("name", ["report", "report-streamed"])
def test_what_was_left_out_is_told_in_the_reply(trial: Trial, name: str) -> None:
    outcome = trial.outcomes[name]
    assert outcome["text"] == replies.TEXT
    if trial.generation.family in KEEPS_NO_REPORT:
        assert outcome["report"] is None
        return
    assert outcome["report"]["generationId"] == outcome["headers"]["x-context-generation-id"]
    assert str(outcome["report"]["promptTokens"]) == outcome["headers"]["x-context-prompt-tokens"]
    assert str(len(outcome["report"]["excluded"])) == outcome["headers"]["x-context-excluded"]
