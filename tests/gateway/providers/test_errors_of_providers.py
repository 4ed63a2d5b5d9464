"""Every answer in provider_answers.toml gets its code; each is served to a provider and read as a gateway would."""

from __future__ import annotations

import asyncio
import json
import tomllib
from pathlib import Path

import httpx
import pytest
import respx

from gateway.errors import ProviderError
from gateway.providers.base import OutgoingRequest, ProviderConfig
from gateway.providers.errors import refusal, reported_error
from gateway.providers.openai_compatible import OpenAICompatibleProvider

DATA = tomllib.loads(Path(__file__).with_name("provider_answers.toml").read_text("utf-8"))
CASES = DATA["cases"]
COUNTS = {"refusal": 141, "answer": 13, "frames": 11, "relayed": 4, "transport": 3, "broken": 1}
BASE = "http://model.test/v1"
CHUNK = b'data: {"choices":[{"index":0,"delta":{"content":"hi"},"finish_reason":null}]}\n\n'
STATUSES = {
    "PROVIDER_AUTH": 403,
    "PROVIDER_PERMISSION": 403,
    "PROVIDER_QUOTA": 402,
    "PROVIDER_RATE_LIMIT": 429,
    "PROVIDER_OVERLOADED": 503,
    "PROVIDER_CONTEXT_OVERFLOW": 400,
    "PROVIDER_MAX_TOKENS_INVALID": 400,
    "PROVIDER_BAD_REQUEST": 400,
    "PROVIDER_CONTENT_FILTER": 400,
    "PROVIDER_NOT_FOUND": 404,
    "PROVIDER_PAYLOAD_TOO_LARGE": 413,
    "PROVIDER_TIMEOUT": 504,
    "PROVIDER_UNREACHABLE": 502,
    "PROVIDER_SERVER_ERROR": 502,
    "PROVIDER_INVALID_RESPONSE": 502,
    "PROVIDER_UNKNOWN": 502,
}
RETRYABLE = {
    f"PROVIDER_{name}" for name in ["RATE_LIMIT", "OVERLOADED", "TIMEOUT", "UNREACHABLE", "SERVER_ERROR", "INVALID_RESPONSE"]
}
WAITS = {  # what the answers of the table ask for, in seconds
    "openai rate_limit": 1.2,
    "azure rate_limit": 9.8,
    "anthropic rate_limit": 12,
    "anthropic rate_limit_ramp": 30,
    "gemini rate_limit": 26,
    "openrouter rate_limit": 60,
}


def played(how):
    """The cases of a kind, each under its name."""
    return [pytest.param(case, id=f"{case['provider']}-{case['case']}") for case in CASES if case["played"] == how]


class Breaking(httpx.AsyncByteStream):
    """A body that gives some bytes and then breaks."""

    def __init__(self, given, error):
        self._given = given
        self._error = error

    async def __aiter__(self):
        yield self._given
        raise self._error


def outcome(answer, *, stream, **config):
    """What a request leads to: the bytes given out, and the error that ended it or None."""

    async def main():
        provider = OpenAICompatibleProvider(ProviderConfig("p", BASE, **config))
        given = b""
        try:
            with respx.mock(using="httpx") as router:
                route = router.post(BASE + "/chat/completions")
                route.mock(**({"side_effect": answer} if isinstance(answer, Exception) else {"return_value": answer}))
                reply = await provider.send(OutgoingRequest(b"{}", stream, authorization="Bearer client"))
                try:
                    while part := await reply.read():
                        given += part
                finally:
                    await reply.aclose()
        except ProviderError as error:
            return given, error
        finally:
            await provider.aclose()
        return given, None

    return asyncio.run(main())


def response(status, content, headers=None):
    """An answer whose body respx leaves alone."""
    return httpx.Response(status, headers=headers, stream=httpx.ByteStream(content))


def require(error, code, *, status=None):
    """The error has the code, and what the interface says of that code."""
    assert error is not None
    assert error.code == code
    assert error.status == (STATUSES[code] if status is None else status)
    assert error.retryable is (code in RETRYABLE)


def test_no_case_is_left_out():
    kinds = [case["played"] for case in CASES]
    assert {kind: kinds.count(kind) for kind in kinds} == COUNTS
    assert len(CASES) == 173
    assert len({(case["provider"], case["case"]) for case in CASES}) == 173
    assert sum("want" not in case for case in CASES) == COUNTS["answer"]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("case", played("refusal"))
def test_a_refusal_gets_its_code(case, stream):
    answer = response(case["status"], case["body"].encode(), case.get("headers"))
    given, error = outcome(answer, stream=stream, api_key="sk")
    require(error, case["want"])
    assert given == b""
    assert error.metadata["providerStatus"] == case["status"]
    assert error.retry_after == WAITS.get(f"{case['provider']} {case['case']}")


@pytest.mark.parametrize("case", played("refusal"))
def test_a_refusal_of_the_clients_own_key_keeps_its_status(case):
    answer = response(case["status"], case["body"].encode(), case.get("headers"))
    error = outcome(answer, stream=False, api_key="passthrough")[1]
    of_the_key = case["want"] in ("PROVIDER_AUTH", "PROVIDER_PERMISSION") and case["status"] in (401, 403)
    require(error, case["want"], status=case["status"] if of_the_key else None)


@pytest.mark.parametrize("case", played("answer"))
def test_what_is_no_error_passes_as_it_came(case):
    body = case["body"].encode()
    assert outcome(response(200, body), stream=False) == (body, None)
    chunk = b"data: " + body.replace(b"message", b"delta") + b"\n\n"
    given, error = outcome(response(200, chunk + b"data: [DONE]\n\n"), stream=True)
    assert (given, error) == (chunk + b"data: [DONE]\n\n", None)


@pytest.mark.parametrize("case", played("broken"))
@pytest.mark.parametrize("stream", [False, True])
def test_a_completion_that_says_that_it_failed_is_an_error(case, stream):
    given, error = outcome(response(200, case["body"].encode()), stream=stream)
    require(error, case["code"])
    assert given == b""


FRAMES = [
    pytest.param(frame, id=f"{case['provider']}-{number}")
    for case in CASES
    if case["played"] == "frames"
    for number, frame in enumerate(case["frames"], start=1)
]


@pytest.mark.parametrize("frame", FRAMES)
def test_an_error_in_the_middle_of_a_stream_ends_it_with_its_code(frame):
    given, error = outcome(response(200, CHUNK + frame["event"].encode() + b"\n\n"), stream=True)
    assert given == CHUNK
    assert error is not None
    assert error.code == frame["in_band"]


@pytest.mark.parametrize("frame", FRAMES)
def test_an_error_as_the_first_event_of_a_stream_is_an_http_error(frame):
    given, error = outcome(response(200, frame["event"].encode() + b"\n\n"), stream=True)
    assert given == b""
    require(error, frame["first"])


def test_every_stream_of_the_table_can_break_off_for_no_reason_that_could_be_told():
    unnamed = {
        case["provider"]
        for case in CASES
        if case["played"] == "frames" and any(frame["in_band"] == case["want"] for frame in case["frames"])
    }
    assert unnamed == {case["provider"] for case in CASES if case["case"] == "mid_stream"}


@pytest.mark.parametrize("case", played("relayed"))
def test_a_finish_reason_passes_and_an_error_that_names_it_has_the_code(case):
    body = b'{"choices":[{"index":0,"message":{"content":""},"finish_reason":"%s"}]}' % case["finish"].encode()
    assert outcome(response(200, body), stream=False) == (body, None)
    for told in case["objects"]:
        assert reported_error(told.encode(), in_band=False).code == case["want"]
        require(outcome(response(400, told.encode()), stream=False)[1], case["want"])
        require(outcome(response(200, b"data: " + told.encode() + b"\n\n"), stream=True)[1], case["want"])


@pytest.mark.parametrize("case", played("transport"))
def test_a_case_without_an_answer_gets_its_code(case):
    require(outcome(getattr(httpx, case["raises"].removeprefix("httpx."))(""), stream=True)[1], case["want"])


@pytest.mark.parametrize(("name", "codes"), DATA["transport"].items())
def test_an_exception_instead_of_an_answer_gets_its_code(name, codes):
    for stream in (False, True):
        require(outcome(getattr(httpx, name)(""), stream=stream)[1], codes["before"])


@pytest.mark.parametrize(("name", "codes"), [item for item in DATA["transport"].items() if "after" in item[1]])
def test_an_exception_in_the_middle_of_a_stream_gets_its_code(name, codes):
    answer = httpx.Response(200, stream=Breaking(CHUNK, getattr(httpx, name)("")))
    given, error = outcome(answer, stream=True)
    assert given == CHUNK
    assert error is not None
    assert error.code == codes["after"]


def test_an_answer_that_is_no_json_is_invalid():
    require(outcome(response(200, b"<html>"), stream=False)[1], "PROVIDER_INVALID_RESPONSE")


def test_who_cancels_is_told_by_no_error_of_ours():
    def cancel(request):
        raise asyncio.CancelledError

    async def main():
        with respx.mock(using="httpx", assert_all_called=False) as router:
            router.post(BASE + "/chat/completions").mock(side_effect=cancel)
            provider = OpenAICompatibleProvider(ProviderConfig("p", BASE))
            with pytest.raises(asyncio.CancelledError):
                await provider.send(OutgoingRequest(b"{}", stream=True))
            await provider.aclose()

    asyncio.run(main())


@pytest.mark.parametrize("said", DATA["overflows"], ids=lambda said: said["says"][:60])
def test_an_overflow_is_known_by_its_sentence_and_tells_its_numbers(said):
    wanted = {"providerStatus": 400}
    wanted |= {"providerLimit": said["limit"]} if "limit" in said else {}
    wanted |= {"providerPromptTokens": said["prompt"]} if "prompt" in said else {}
    for body in ({"error": {"message": said["says"]}}, {"message": said["says"]}, {"detail": said["says"]}):
        error = refusal(400, {}, json.dumps(body).encode())
        assert (error.code, error.metadata) == ("PROVIDER_CONTEXT_OVERFLOW", wanted)


@pytest.mark.parametrize("said", DATA["overflows"], ids=lambda said: said["says"][:60])
def test_with_another_status_the_sentence_is_no_overflow(said):
    body = json.dumps({"error": {"message": said["says"]}}).encode()
    codes = {429: "RATE_LIMIT", 401: "AUTH", 404: "NOT_FOUND", 502: "SERVER_ERROR"}
    for status, code in codes.items():
        error = refusal(status, {}, body)
        assert error.code == f"PROVIDER_{code}"
        assert error.metadata == {"providerStatus": status}


@pytest.mark.parametrize(
    "veto", ["Rate limit reached. ", "5000 tokens per minute. ", "TPM: ", "Throttled: ", "Try again later. "]
)
@pytest.mark.parametrize("said", DATA["overflows"][:6], ids=lambda said: said["says"][:60])
def test_a_sentence_that_speaks_of_waiting_is_no_overflow(said, veto):
    body = json.dumps({"error": {"message": veto + said["says"]}}).encode()
    assert refusal(400, {}, body).code == "PROVIDER_BAD_REQUEST"
