from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tokenizer_profiles import RemoteUnavailable
from tokenizer_profiles.remote_base import answer_of, encoded


def answered(answer: Any) -> Any:
    async def ask(method: str, path: str, body: bytes) -> bytes:
        if isinstance(answer, Exception):
            raise answer
        return bytes(answer)

    return asyncio.run(answer_of(ask, "POST", "/count", "{}"))


def test_an_object_is_an_answer() -> None:
    assert answered(b'{"count": 5}') == {"count": 5}


@pytest.mark.parametrize("answer", [OSError("secret"), b"<html>", b"[1]", b"5", b"\xff", b"[" * 100_000])
def test_everything_else_is_a_failure_that_names_the_path_and_no_content(answer: Any) -> None:
    with pytest.raises(RemoteUnavailable, match=r"^POST /count (failed: \w+|answered something else than an object)$"):
        answered(answer)


def test_bodies_keep_their_letters() -> None:
    assert encoded({"a": "ä\ud83d"}) == '{"a": "ä\ud83d"}'


def test_what_json_cannot_hold_is_a_failure() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for odd in (deep, {"x": {1, 2}}, b"x", object()):
        with pytest.raises(RemoteUnavailable, match="cannot be sent"):
            encoded({"x": odd})


def test_mappings_are_objects() -> None:
    from types import MappingProxyType

    assert json.loads(encoded({"x": MappingProxyType({"a": 1})})) == {"x": {"a": 1}}
