from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tokenizer_profiles import RemoteUnavailable
from tokenizer_profiles.llama_server import LlamaServer


def server(answer: Any, asked: list[tuple[str, str, bytes]] | None = None) -> LlamaServer:
    async def ask(method: str, path: str, body: bytes) -> bytes:
        if asked is not None:
            asked.append((method, path, body))
        if isinstance(answer, Exception):
            raise answer
        return answer if isinstance(answer, bytes) else json.dumps(answer).encode()

    return LlamaServer(ask)


def test_texts_and_ids_are_sent_side_by_side() -> None:
    asked: list[tuple[str, str, bytes]] = []
    assert asyncio.run(server({"tokens": [5, 1, 7]}, asked).tokenize(["ä", 1, "b"], add_special=True)) == [5, 1, 7]
    assert asked[0][:2] == ("POST", "/tokenize")
    assert json.loads(asked[0][2]) == {"content": ["ä", 1, "b"], "add_special": True, "parse_special": True}


def test_the_body_of_the_chat_is_rendered_as_it_is() -> None:
    asked: list[tuple[str, str, bytes]] = []
    body = {"messages": [{"role": "user", "content": "cut \ud83d"}], "tools": []}
    assert asyncio.run(server({"prompt": "p"}, asked).render(body)) == "p"
    assert asked[0][:2] == ("POST", "/apply-template")


@pytest.mark.parametrize("answer", [OSError("away"), b"<html>", b"[]", {}, {"prompt": 1, "tokens": [1, "x"]}, {"tokens": "x"}])
def test_every_failure_is_the_same_error(answer: Any) -> None:
    with pytest.raises(RemoteUnavailable):
        asyncio.run(server(answer).render({"messages": []}))
    with pytest.raises(RemoteUnavailable):
        asyncio.run(server(answer).tokenize("x"))


def test_properties_are_an_object() -> None:
    assert asyncio.run(server({"bos_token": "<s>"}).props()) == {"bos_token": "<s>"}


def test_a_cancelled_call_stays_cancelled() -> None:
    async def ask(method: str, path: str, body: bytes) -> bytes:
        raise asyncio.CancelledError

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(LlamaServer(ask).props())
