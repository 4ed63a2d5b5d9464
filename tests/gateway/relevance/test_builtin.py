"""Every scorer that the settings may name is there, and keeps the contract."""

from __future__ import annotations

import asyncio
import json
import typing

import pytest

from gateway.relevance.builtin import BUILTIN
from gateway.relevance.endpoint import Endpoint, EndpointRelevance
from gateway.settings import RecallSettings


async def post(body: bytes) -> bytes:
    texts = json.loads(body)["input"]
    return json.dumps({"data": [{"index": i, "embedding": [1.0, i]} for i in range(len(texts))]}).encode()


def found() -> Endpoint:
    return Endpoint("embedder", post)


def not_wanted() -> Endpoint:
    raise AssertionError("nobody asked for an endpoint")


def test_the_names_are_those_of_the_settings() -> None:
    assert BUILTIN.keys() == set(typing.get_args(typing.get_type_hints(RecallSettings)["scorer"]))


def test_only_the_endpoint_wants_an_endpoint() -> None:
    assert isinstance(BUILTIN["endpoint"](found), EndpointRelevance)
    for name in ("none", "local"):
        BUILTIN[name](not_wanted)


@pytest.mark.parametrize("name", BUILTIN)
def test_every_text_gets_a_number_from_0_to_1(name: str) -> None:
    texts = ["a dragon", "", "\ud800 half", "salt " * 5000]
    scores = asyncio.run(BUILTIN[name](found).scores("dragons", texts))
    assert len(scores.values) == len(texts)
    assert all(0 <= value <= 1 for value in scores.values)
    assert scores.remarks == ()


def test_none_knows_no_relevance() -> None:
    assert asyncio.run(BUILTIN["none"](not_wanted).scores("dragons", ["dragons", "salt"])).values == [0.0, 0.0]
