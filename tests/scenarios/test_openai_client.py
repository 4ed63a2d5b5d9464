"""The official OpenAI client, plain and streamed, sync and async: replies, usage, headers, and what the provider got."""

from __future__ import annotations

import asyncio
import json

import openai
import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.chats import conversation, tokens_of, without_oldest
from tests.scenarios.loopback.running_gateway import RunningGateway
from tests.scenarios.loopback.upstream import Upstream

SHORT = [{"role": "user", "content": "Name three rivers."}]
LIMIT, RESERVE = 200, 50


def test_a_plain_reply_arrives_whole(gateway: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.plain())
    with gateway.openai() as client:
        reply = client.chat.completions.create(model=script.model, messages=SHORT)
    assert reply.choices[0].message.content == replies.TEXT
    assert reply.choices[0].finish_reason == "stop"
    assert (reply.id, reply.model) == ("chatcmpl-1", "from-upstream")
    assert reply.usage is not None
    assert reply.usage.model_dump(exclude_none=True) == replies.USAGE


def test_the_answer_is_the_providers_byte_for_byte(gateway: RunningGateway, upstream: Upstream) -> None:
    body = replies.completion(nobody_knows={"this": [1.50, 1e2]}).replace(b'": ', b'"  :\t')
    script = upstream.script(replies.answer(body))
    assert gateway.post({"model": script.model, "messages": SHORT}).content == body


def test_a_streamed_reply_arrives_piece_by_piece(gateway: RunningGateway, upstream: Upstream) -> None:
    gate = upstream.gate()
    script = upstream.script(replies.STREAM_HEAD, replies.piece("The Nile"), gate, replies.piece(" and the Po."), replies.FINISH)
    with gateway.openai() as client:
        stream = client.chat.completions.create(
            model=script.model, messages=SHORT, stream=True, stream_options={"include_usage": True}
        )
        with stream:
            assert next(stream).choices[0].delta.content == "The Nile"
            gate.open()
            rest = list(stream)
    assert "".join(chunk.choices[0].delta.content or "" for chunk in rest if chunk.choices) == " and the Po."
    assert [chunk.choices[0].finish_reason for chunk in rest if chunk.choices] == [None, "stop"]
    assert rest[-1].usage is not None
    assert rest[-1].usage.total_tokens == replies.USAGE["total_tokens"]


def test_a_stream_is_the_providers_byte_for_byte(gateway: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.stream("a", " b", " c"))
    response = gateway.post({"model": script.model, "messages": SHORT, "stream": True})
    assert response.headers["content-type"].startswith("text/event-stream")
    assert response.content == dechunked(replies.stream("a", " b", " c"))


def dechunked(answer: bytes) -> bytes:
    """The body of an HTTP answer in chunks."""
    rest, out = answer.partition(b"\r\n\r\n")[2], b""
    while size := int((rest.partition(b"\r\n"))[0], 16):
        start = rest.index(b"\r\n") + 2
        out, rest = out + rest[start : start + size], rest[start + size + 2 :]
    return out


def test_the_async_client_gets_the_same(gateway: RunningGateway, upstream: Upstream) -> None:
    plain, streamed = upstream.script(replies.plain()), upstream.script(replies.stream("one", " two"))

    async def ask() -> tuple[str | None, str]:
        async with gateway.async_openai() as client:
            reply = await client.chat.completions.create(model=plain.model, messages=SHORT)
            stream = await client.chat.completions.create(model=streamed.model, messages=SHORT, stream=True)
            texts = [chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices]
        return reply.choices[0].message.content, "".join(texts)

    assert asyncio.run(ask()) == (replies.TEXT, "one two")


def test_twenty_clients_at_once_get_their_own_replies(gateway: RunningGateway, upstream: Upstream) -> None:
    scripts = [upstream.script(replies.stream(f"reply {number}")) for number in range(20)]

    async def ask(client: openai.AsyncOpenAI, model: str) -> str:
        stream = await client.chat.completions.create(model=model, messages=SHORT, stream=True)
        return "".join([chunk.choices[0].delta.content or "" async for chunk in stream if chunk.choices])

    async def ask_all() -> list[str]:
        async with gateway.async_openai() as client:
            return list(await asyncio.gather(*(ask(client, script.model) for script in scripts)))

    assert asyncio.run(ask_all()) == [f"reply {number}" for number in range(20)]


def test_a_prompt_that_fits_goes_out_byte_for_byte(gateway: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.plain())
    body = (
        b'{ "top_p":1.0,\n"messages" : [ {"content":"caf\\u00e9 \xc3\xa9","role":"user" , "x-own":1e2}], "seed":9007199254740993,'
        b'"model":"' + script.model.encode() + b'","unknown":{"a":[ ]} }'
    )
    assert gateway.http.post("/v1/chat/completions", content=body).status_code == 200
    assert script.arrival().body == body


@pytest.mark.parametrize("stream", [False, True])
def test_old_messages_are_left_out_and_nothing_else_changes(gateway: RunningGateway, upstream: Upstream, stream: bool) -> None:
    script = upstream.script(replies.stream() if stream else replies.plain())
    messages = conversation(turns=8)
    expected = without_oldest(messages, LIMIT - RESERVE)
    with gateway.openai() as client:
        raw = client.chat.completions.with_raw_response.create(
            model=script.model, messages=messages, stream=stream, temperature=0.5, extra_body={"own": [1]}
        )
        raw.parse().close() if stream else raw.parse()
    sent = script.sent
    assert sent["messages"] == expected
    assert 1 < len(expected) < len(messages)
    assert (sent["temperature"], sent["own"], sent["model"]) == (0.5, [1], script.model)
    headers = raw.headers
    assert headers["x-context-prompt-tokens"] == str(tokens_of(expected))
    assert headers["x-context-excluded"] == str(len(messages) - len(expected))
    assert headers["x-context-excluded-tokens"] == str(tokens_of(messages) - tokens_of(expected))


def test_kept_messages_are_forwarded_byte_for_byte(gateway: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.plain())
    old, new = (json.dumps(item) for item in conversation(turns=2, tokens=100)[1::2])
    kept = new.replace(": ", " :\t").replace("{", '{"n": 1.0e0 ,', 1).encode()
    body = b'{"messages": [' + old.encode() + b" , " + kept + b'], "model": "' + script.model.encode() + b'"}'
    assert gateway.http.post("/v1/chat/completions", content=body).status_code == 200
    assert b'"messages":[' + kept + b"]" in script.arrival().body
    assert old.encode() not in script.arrival().body


def test_the_headers_tell_what_was_fitted(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(replies.plain())
    with gateway.openai(default_headers={"X-Context-Chat-Id": chat_id}) as client:
        headers = client.chat.completions.with_raw_response.create(model=script.model, messages=SHORT, max_tokens=30).headers
    told = {name[len("x-context-") :]: value for name, value in headers.items() if name.startswith("x-context-")}
    assert told.pop("generation-id").startswith("gen_")
    assert told.pop("prompt-tokens") == str(4 + 4 + 3)
    assert told == {
        "chat-id": chat_id,
        "strategy": "truncate",
        "limit": str(LIMIT),
        "reply-reserve": "30",
        "excluded": "0",
        "excluded-tokens": "0",
        "truncated": "0",
        "tokenizer": "o200k_base",
        "approximate": "false",
    }
    assert headers["x-request-id"]


def test_the_gateways_key_is_sent_and_the_clients_is_not(gateway: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.plain())
    with gateway.openai(api_key="sk-of-the-client") as client:
        client.chat.completions.create(model=script.model, messages=SHORT)
    call = script.arrival()
    assert call.headers["authorization"] == "Bearer sk-of-the-gateway"
    assert "sk-of-the-client" not in str(call.headers)


def test_the_models_are_listed_with_their_limits(gateway: RunningGateway) -> None:
    with gateway.openai() as client:
        listed = {model.id: model for model in client.models.list()}
        assert set(listed) == {"small"}
        assert listed["small"].to_dict()["context_length"] == LIMIT
        assert client.models.retrieve("small-9").id == "small-9"
        with pytest.raises(openai.NotFoundError):
            client.models.retrieve("large")
