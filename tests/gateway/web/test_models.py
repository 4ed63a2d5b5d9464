"""The models are listed as OpenAI lists them, with their limits."""

from __future__ import annotations

from typing import Any

import pytest
from starlette.requests import Request

from gateway.errors import ModelNotFound
from gateway.web.models import Models
from tests.support.doubles import FakeProvider
from tests.support.rooms import ask, open_rooms, run
from tests.support.small_chats import model_config

MODELS = [
    model_config("b", context_limit=100, max_output=7, aliases=("b-*",)),
    model_config("a", context_limit=None, upstream_model="a-1"),
    model_config(None, context_limit=50),
]


def entry(name: str, limit: int, output: int | None = None) -> dict[str, Any]:
    return {
        "id": name,
        "object": "model",
        "created": 0,
        "owned_by": "up",
        "context_length": limit,
        "max_model_len": limit,
        "max_output_tokens": output,
    }


def get(path: str, provider: FakeProvider | None = None, models: list[Any] | None = None) -> Any:
    return run(ask(open_rooms(provider or FakeProvider(limit=4096), models=models or MODELS), "GET", path))


def test_models_with_a_name_are_listed() -> None:
    provider = FakeProvider(limit=4096)
    assert get("/v1/models", provider).json() == {"object": "list", "data": [entry("a", 4096), entry("b", 100, 7)]}
    assert provider.asked == ["a-1"]


def test_a_model_answers_to_all_its_names() -> None:
    assert get("/v1/models/b").json() == entry("b", 100, 7)
    assert get("/v1/models/b-2024").json() == entry("b-2024", 100, 7)
    assert get("/v1/models/whatever").json() == entry("whatever", 50)


def test_a_name_may_hold_a_slash() -> None:
    assert get("/v1/models/org%2Fmodel").json()["id"] == "org/model"
    assert get("/v1/models/org/model").json()["id"] == "org/model"


def test_a_model_that_nobody_configured_is_not_found() -> None:
    answer = get("/v1/models/c", models=MODELS[:2])
    assert (answer.status_code, answer.json()["error"]["code"]) == (404, "MODEL_NOT_FOUND")
    assert answer.json()["error"]["param"] == "model"


def test_a_name_that_is_empty_is_not_found() -> None:
    request = Request({"type": "http", "path_params": {"id": ""}})
    with pytest.raises(ModelNotFound, match="empty"):
        run(Models(open_rooms()).one(request))
