"""Vectors from an embeddings endpoint; whatever goes wrong there, another scorer decides and a remark says so."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from gateway.errors import ProviderError, ProviderUnreachable
from gateway.relevance.base import RelevanceScorer, Scores, remark
from gateway.relevance.endpoint import BATCH, FAILED, Endpoint, EndpointRelevance
from gateway.relevance.vectors import MOST_CHARACTERS

VECTORS = {"ask": [2, 0], "near": [3, 0], "mid": [3, 3], "far": [0, 1], "away": [-1, 0]}


class Instead(RelevanceScorer):
    async def scores(self, query: str, texts: Sequence[str]) -> Scores:
        return Scores([0.5] * len(texts), (remark("instead", "only a stand-in"),))


class Server:
    """An embeddings endpoint that answers in falling order; `spoil` changes its answer."""

    def __init__(self, spoil: Callable[[dict[str, Any]], object] = lambda answer: answer) -> None:
        self.spoil = spoil
        self.asked: list[dict[str, Any]] = []

    async def __call__(self, body: bytes) -> bytes:
        asked = json.loads(body)
        self.asked.append(asked)
        data = [
            {"object": "embedding", "index": index, "embedding": VECTORS.get(text, [1, 1])}
            for index, text in enumerate(asked["input"])
        ]
        answer = {"object": "list", "data": data[::-1], "model": asked["model"], "usage": {"prompt_tokens": 5}}
        spoiled = self.spoil(answer)
        return spoiled if isinstance(spoiled, bytes) else json.dumps(spoiled).encode()


def scorer(server: Callable[[bytes], Any], patience_s: float = 5.0) -> EndpointRelevance:
    return EndpointRelevance(Endpoint("embedder", server), Instead(), patience_s)


def scored(made: EndpointRelevance, query: str, *texts: str) -> Scores:
    return asyncio.run(made.scores(query, texts))


def test_scores_are_the_cosines_in_the_order_of_the_texts() -> None:
    server = Server()
    found = scored(scorer(server), "ask", "far", "near", "mid", "away")
    assert found.values == [0, 1, pytest.approx(0.7071, abs=1e-4), 0]
    assert found.remarks == ()
    assert server.asked == [{"model": "embedder", "input": ["ask", "far", "near", "mid", "away"]}]


def test_only_what_is_new_is_asked() -> None:
    server = Server()
    made = scorer(server)
    scored(made, "ask", "near")
    assert scored(made, "ask", "near", "far").values == [1, 0]
    assert [asked["input"] for asked in server.asked] == [["ask", "near"], ["far"]]


def test_texts_without_a_word_are_not_asked() -> None:
    server = Server()
    assert scored(scorer(server), "ask", "", "near", " \n").values == [0, 1, 0]
    assert scored(scorer(server), "", "near").values == [0]
    assert [asked["input"] for asked in server.asked] == [["ask", "near"], ["near"]]


def test_many_and_long_texts_are_asked_in_portions() -> None:
    server = Server()
    found = scored(scorer(server), "ask", *(f"{number} {'x' * 10_000}" for number in range(2 * BATCH)), "lone \ud800")
    assert len(found.values) == 2 * BATCH + 1
    assert [len(asked["input"]) for asked in server.asked] == [BATCH, BATCH, 2]
    assert max(len(text) for asked in server.asked for text in asked["input"]) == MOST_CHARACTERS


def dropped(answer: dict[str, Any]) -> object:
    return answer | {"data": answer["data"][1:]}


def numbered(answer: dict[str, Any]) -> object:
    return answer | {"data": [one | {"index": 0} for one in answer["data"]]}


def embedded(vector: object) -> Callable[[dict[str, Any]], object]:
    return lambda answer: answer | {"data": [one | {"embedding": vector} for one in answer["data"]]}


@pytest.mark.parametrize(
    "spoil",
    [
        lambda answer: b"",
        lambda answer: b"<html>",
        lambda answer: b'{"data": "\xff"}',
        lambda answer: [],
        lambda answer: {"error": {"message": "no such model"}},
        dropped,
        numbered,
        embedded([]),
        embedded("AAAA"),
        embedded([1, None]),
        lambda answer: json.dumps(embedded([1e300] * 2)(answer)).replace("1e+300", "1.7e308").encode(),
        lambda answer: answer | {"data": [one | {"embedding": [1.0] * (2 + one["index"])} for one in answer["data"]]},
    ],
)
def test_a_wrong_answer_leaves_it_to_the_other_scorer(spoil: Callable[[dict[str, Any]], object]) -> None:
    found = scored(scorer(Server(spoil)), "ask", "near", "far")
    assert found.values == [0.5, 0.5]
    assert [told.code for told in found.remarks] == [FAILED, "instead"]


def test_an_error_is_told_by_its_code_and_the_next_call_asks_again() -> None:
    answers: list[Any] = [ProviderUnreachable("secret words of the provider"), None]
    server = Server()

    async def post(body: bytes) -> bytes:
        error = answers.pop(0)
        if error is not None:
            raise error
        return await server(body)

    made = scorer(post)
    first = scored(made, "ask", "near")
    assert first.values == [0.5]
    assert first.remarks[0].message.endswith(ProviderUnreachable.code)
    assert scored(made, "ask", "near") == Scores([1.0])
    assert issubclass(ProviderUnreachable, ProviderError)


def test_an_endpoint_that_hangs_is_not_waited_for() -> None:
    async def post(body: bytes) -> bytes:
        await asyncio.Event().wait()
        return body

    found = scored(scorer(post, patience_s=0.01), "ask", "near")
    assert found.values == [0.5]
    assert found.remarks[0].message.endswith("no answer in time")


def test_a_client_that_leaves_ends_the_call() -> None:
    async def story() -> None:
        async def post(body: bytes) -> bytes:
            await asyncio.Event().wait()
            return body

        task = asyncio.create_task(scorer(post).scores("ask", ["near"]))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(story())
