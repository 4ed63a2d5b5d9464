"""The kind `litellm`: its configuration, its keys, what it refuses and what it keeps to itself."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import logging
import os
import subprocess
import sys
from typing import Any

import pytest

from gateway.errors import GatewayError, NotFound, ProviderNotFound
from gateway.providers.base import ForwardedRequest, OutgoingRequest, ProviderConfig
from gateway.providers.litellm import LitellmProvider
from tests.gateway.providers.litellm_calls import CLAUDE, KEY, Serving, answers, error_of, plain, provider_of, request
from tests.house.tree import ROOT
from tests.support import anthropic_wire

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning:pydantic")  # of models that the library builds on first use


def test_headers_and_query_are_added_to_every_call(serving: Serving) -> None:
    config = {"headers": {"x-own": "a", "anthropic-beta": "b"}, "query": {"version": "2"}}
    _, _, server = answers(serving, plain(anthropic_wire.message()), request(CLAUDE), **config)
    head = server.calls[0].head
    assert head.startswith(b"POST /v1/messages?version=2 HTTP/1.1")
    assert b"x-own: a\r\n" in head
    assert b"anthropic-beta: b" in head


def test_the_clients_own_key_goes_out_and_its_refusal_comes_back_as_it_is(serving: Serving) -> None:
    async def main() -> None:
        async with (
            serving(plain(anthropic_wire.error("authentication_error", "x"), status=401)) as server,
            provider_of(server, api_key="passthrough") as provider,
        ):
            outgoing = request(CLAUDE)
            for authorization in ("Bearer sk-theirs", None, "Basic eDp5", "Bearer os.environ/HOME", "Bearer k\u00e9y"):
                with pytest.raises(GatewayError) as caught:
                    await provider.send(OutgoingRequest(outgoing.body, False, authorization))
                assert (caught.value.code, caught.value.status) == ("PROVIDER_AUTH", 401)
            (call,) = server.calls
            assert b"x-api-key: sk-theirs\r\n" in call.head

    asyncio.run(main())


def test_the_gateways_environment_never_stands_in_for_the_clients_key(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-environment")
    error = error_of(serving, plain(anthropic_wire.message()), request(CLAUDE), api_key="passthrough")
    assert error.code == "PROVIDER_AUTH"


def test_no_key_at_all_is_told_before_anything_is_sent(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    error = error_of(serving, plain(anthropic_wire.message()), request(CLAUDE), api_key=None)
    assert (error.code, "Set api_key" in error.message) == ("PROVIDER_AUTH", True)


def test_what_means_nothing_is_left_out_and_what_means_something_is_refused_by_name(serving: Serving) -> None:
    neutral = {"presence_penalty": 0, "frequency_penalty": 0.0, "n": 1, "store": False, "prompt_cache_key": "k", "user": None}
    _, _, server = answers(serving, plain(anthropic_wire.message()), request(CLAUDE, **neutral))
    assert set(json.loads(server.calls[0].body)) == {"model", "messages", "max_tokens"}
    _, _, server = answers(serving, plain(anthropic_wire.message()), request(CLAUDE, user="me", safety_identifier="x"))
    assert json.loads(server.calls[0].body)["metadata"] == {"user_id": "me"}
    error = error_of(serving, plain(b""), request(CLAUDE, presence_penalty=0.5))
    assert (error.code, error.param) == ("INVALID_REQUEST", "presence_penalty")


def test_no_field_of_a_request_steers_the_library(serving: Serving) -> None:
    steering = {
        "api_base": "http://127.0.0.1:1", "base_url": "http://127.0.0.1:1", "api_key": "sk-other", "mock_response": "mocked",
        "custom_llm_provider": "openai", "extra_headers": {"x-stolen": "1"}, "fallbacks": ["openai/x"], "client": 1, "timeout": 0,
    }  # fmt: skip
    (completion,), _, server = answers(serving, plain(anthropic_wire.message()), request(CLAUDE, **steering))
    assert completion["choices"][0]["message"]["content"] == "Hello there"
    (call,) = server.calls
    assert b"x-api-key: " + KEY.encode() in call.head
    assert b"x-stolen" not in call.head


def test_an_address_in_a_message_is_refused_before_anything_is_sent(serving: Serving) -> None:
    image = {"type": "image_url", "image_url": {"url": "https://127.0.0.1/cat.png"}}
    error = error_of(serving, plain(b""), request(CLAUDE, messages=[{"role": "user", "content": [image]}]))
    assert (error.code, error.status, error.param) == ("INVALID_REQUEST", 400, "messages[0].content[0].image_url.url")
    assert "127.0.0.1" not in error.message


def test_an_image_inside_the_request_goes_out(serving: Serving) -> None:
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
    outgoing = request(CLAUDE, messages=[{"role": "user", "content": [image]}])
    _, _, server = answers(serving, plain(anthropic_wire.message()), outgoing)
    assert json.loads(server.calls[0].body)["messages"][0]["content"][0]["source"]["data"] == "aGk="


@pytest.mark.parametrize(
    ("fields", "code", "told"),
    [
        ({"model": "nobodys-model"}, "PROVIDER_BAD_REQUEST", "Set upstream_model"),
        ({"model": "huggingface/https://host.test/x"}, "PROVIDER_NOT_FOUND", "base_url"),
        ({"messages": [{"role": "user", "content": 5}]}, "PROVIDER_BAD_REQUEST", "format"),
        ({"messages": "hi"}, "PROVIDER_BAD_REQUEST", "format"),
        ({"stream_options": 1}, "INVALID_REQUEST", "stream_options"),
    ],
)
def test_what_the_library_cannot_translate_is_told_without_its_words(
    serving: Serving, fields: dict[str, Any], code: str, told: str
) -> None:
    error = error_of(serving, plain(b""), request(**{"model": CLAUDE, **fields}))
    assert error.code == code
    assert told in error.message
    assert "host.test" not in error.message


def test_the_library_writes_no_log_and_prints_nothing(
    serving: Serving, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    answers(serving, plain(anthropic_wire.message()), request(CLAUDE))
    error_of(serving, plain(anthropic_wire.error("api_error", KEY), status=500), request(CLAUDE, stream=True))
    error_of(serving, plain(b"{}"), request(CLAUDE))
    assert [record.name for record in caplog.records if record.name.lower().startswith(("litellm", "httpx"))] == []
    assert KEY not in caplog.text
    assert capfd.readouterr() == ("", "")


def test_the_library_counts_nothing_and_moves_no_setting(serving: Serving, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR", raising=False)
    monkeypatch.setenv("PREDIBASE_TENANT_ID", "t")
    (completion,), reply, _ = answers(serving, plain(b'{"generated_text": "Hello there"}'), request("predibase/m"))
    assert completion["choices"][0]["message"]["content"] == "Hello there"
    assert reply.usage is None
    assert "TIKTOKEN_CACHE_DIR" not in os.environ


def test_nothing_but_chat_completions_goes_through() -> None:
    async def main() -> None:
        provider = LitellmProvider(ProviderConfig("p"))
        with pytest.raises(ProviderNotFound):
            await provider.ask("POST", "/tokenize")
        with pytest.raises(ProviderNotFound):
            await provider.ask_below("POST", "/embeddings")
        with pytest.raises(NotFound):
            await provider.forward(ForwardedRequest("POST", "/images"))
        assert await provider.context_limit("anthropic/x") is None
        await provider.aclose()

    asyncio.run(main())


def test_an_account_is_the_server_and_the_key() -> None:
    def account(authorization: str | None = None, **config: Any) -> str:
        return LitellmProvider(ProviderConfig("p", **config)).account(authorization)

    accounts = [
        account(),
        account(api_key="a"),
        account(base_url="http://one.test", api_key="a"),
        account(base_url="http://one.test", headers={"x-api-key": "b"}),
        account("Bearer a", api_key="passthrough"),
        account("Bearer b", api_key="passthrough"),
    ]
    assert len(set(accounts)) == len(accounts)
    assert account(api_key="a") == account("Bearer theirs", api_key="a")


def test_the_library_is_imported_with_the_first_request_alone() -> None:
    script = (
        "import sys; from gateway.providers.builtin import BUILTIN; from gateway.providers.base import ProviderConfig;"
        "assert 'gateway.providers.litellm' not in sys.modules; BUILTIN['litellm'](ProviderConfig('p'));"
        "assert 'gateway.providers.litellm' in sys.modules; assert 'litellm' not in sys.modules"
    )
    run = subprocess.run(  # noqa: S603  # our own script
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr


PUBLISHED = "anthropic/claude-sonnet-4-5"  # the catalogue has its limits


@pytest.mark.parametrize(
    ("room", "asked", "expected"), [(5000, None, 5000), (5000, 30, 30), (10**7, None, None), (None, None, None)]
)
def test_a_reply_is_never_asked_for_beyond_the_room_that_the_context_has_left(
    serving: Serving, room: int | None, asked: int | None, expected: int | None
) -> None:
    outgoing = dataclasses.replace(request(PUBLISHED, max_tokens=asked), room=room)
    _, _, server = answers(serving, plain(anthropic_wire.message()), outgoing)
    sent = json.loads(server.calls[0].body)["max_tokens"]
    assert sent == expected if expected else sent > 5000  # the longest reply that the model has
