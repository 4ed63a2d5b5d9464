"""Which fields of a request become arguments of the library, and which addresses are refused."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.errors import InvalidRequest, ProviderNotFound
from gateway.providers.litellm_request import arguments_of, wants_usage

URL = "HTTPS://host.test/cat.png"


def arguments(**fields: Any) -> dict[str, Any]:
    return arguments_of(json.dumps({"model": "a/b", "messages": [], **fields}).encode())


def with_part(part: dict[str, Any], **message: Any) -> dict[str, Any]:
    return arguments(messages=[{"role": "user", "content": "x"}, {"role": "user", "content": ["x", part], **message}])


def test_known_fields_keep_their_values_and_unknown_ones_go_into_the_body() -> None:
    found = arguments(temperature=0.1, tools=[{"a": 1}], stream=True, metadata={"a": "b"}, api_base="x", weird={"deep": [1.50]})
    assert found == {
        "model": "a/b",
        "messages": [],
        "temperature": 0.1,
        "tools": [{"a": 1}],
        "extra_body": {"api_base": "x", "weird": {"deep": [1.5]}},
    }


def test_what_says_nothing_is_left_out() -> None:
    assert set(arguments(n=1, presence_penalty=0, logprobs=False, seed=None, response_format={"type": "text"})) == {
        "model",
        "messages",
    }
    assert arguments(n=2, store=True, response_format={"type": "json_object"}).keys() > {"n", "store", "response_format"}


@pytest.mark.parametrize(
    ("part", "where"),
    [
        ({"type": "image_url", "image_url": {"url": URL}}, "image_url.url"),
        ({"type": "image_url", "image_url": f" {URL}"}, "image_url"),
        ({"type": "file", "file": {"file_id": URL}}, "file.file_id"),
        ({"type": "input_audio", "input_audio": {"data": URL}}, "input_audio.data"),
        ({"type": "video_url", "video_url": {"url": URL.lower()}}, "video_url.url"),
        ({"type": "document", "source": {"type": "url", "url": URL}}, "source.url"),
        ({"type": "tool_result", "content": [{"type": "image", "source": {"url": URL}}]}, "content[0].source.url"),
        ({"type": "x", "addresses": [URL]}, "addresses[0]"),
    ],
)
def test_what_the_library_would_fetch_is_refused_with_its_place(part: dict[str, Any], where: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        with_part(part)
    assert caught.value.param == f"messages[1].content[1].{where}"
    assert "host.test" not in caught.value.message


def test_images_of_a_message_are_looked_at_too() -> None:
    with pytest.raises(InvalidRequest) as caught:
        with_part({}, images=[{"image_url": {"url": URL}}])
    assert caught.value.param == "messages[1].images[0].image_url.url"


@pytest.mark.parametrize(
    "part",
    [
        {"type": "text", "text": URL},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}},
        {"type": "tool_result", "content": URL},
        {"type": "tool_use", "input": {"url": URL}},
        {"type": "document", "title": URL, "context": URL, "source": {"type": "text", "data": "see " + URL}},
    ],
)
def test_addresses_that_are_only_read_pass(part: dict[str, Any]) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "get", "arguments": URL}}
    assert with_part(part, tool_calls=[call])["messages"][1]["content"][1] == part


def test_a_model_whose_name_is_an_address_is_refused() -> None:
    with pytest.raises(ProviderNotFound) as caught:
        arguments(model=f"huggingface/{URL}")
    assert "host.test" not in caught.value.message


@pytest.mark.parametrize(
    ("options", "wanted"), [(None, False), ({}, False), ({"include_usage": 1}, False), ({"include_usage": True}, True)]
)
def test_the_usage_of_a_stream_is_asked_for_by_its_option(options: dict[str, Any] | None, wanted: bool) -> None:
    assert wants_usage(arguments(stream_options=options)) is wanted


def test_an_option_of_another_shape_is_refused() -> None:
    with pytest.raises(InvalidRequest):
        wants_usage({"stream_options": [1]})
