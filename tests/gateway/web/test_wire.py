"""A request is read as it was meant, and what nobody touched goes out byte for byte, whatever way it was spelled."""

from __future__ import annotations

import json
import string
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gateway.chat import ChatRequest
from gateway.errors import InvalidRequest
from gateway.web import strict_json
from gateway.web.wire import ChatReader
from gateway.web.wire_messages import MessageReader
from tests.support.small_chats import prepared_prompt
from tests.support.spellings import spelled_string, spelled_value

OWN = ("id", "meta", "pinned", "manualExcluded", "manual_excluded")
READER = ChatReader(MessageReader())


def read(body: Any, **more: Any) -> ChatRequest:
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    return READER.read(raw, more.pop("headers", {}), ("X-Session-Id",), more.pop("tenant", None), **more)


def small(**more: Any) -> dict[str, Any]:
    return {"model": "m", "messages": [{"role": "user", "content": "a"}], **more}


_TEXT = st.text(string.printable + 'é\U0001f600"\\', max_size=6)
_ODD = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 10**20) | _TEXT,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_TEXT, inner, max_size=2),
    max_leaves=4,
)
_KEY = _TEXT.filter(lambda key: key not in {*OWN, "role", "content", "type", "name", "tool_calls", "toolCalls", "function_call"})
_CONTENT = _TEXT | st.just([{"type": "text", "text": "a"}, {"type": "image_url", "image_url": {"url": "data:,"}}])
_MESSAGE = st.builds(
    lambda role, content, odd: {"role": role, "content": content, **odd},
    st.sampled_from(["user", "assistant", "system"]),
    _CONTENT,
    st.dictionaries(_KEY, _ODD, max_size=2),
)
_OURS = st.sampled_from(
    [
        {"id": "x"},
        {"meta": {"pinned": True}},
        {"pinned": None},
        {"manualExcluded": False},
        {"meta": None, "manual_excluded": True},
    ]
)
_BODY_KEY = _KEY.filter(lambda key: not key.startswith(("context", "m", "stream", "prompt_cache")))


@st.composite
def spelled_requests(draw: Any) -> tuple[bytes, list[bytes], list[dict[str, Any]]]:
    """A body in any spelling, its messages as spelled, and the fields of ours on each of them."""
    ours = [draw(st.just({}) | _OURS) for _ in range(draw(st.integers(1, 4)))]
    texts = [spelled_value(draw(_MESSAGE) | own, draw) for own in ours]
    fields = {key: spelled_value(value, draw) for key, value in draw(st.dictionaries(_BODY_KEY, _ODD, max_size=3)).items()}
    space = draw(st.sampled_from(["", " ", "\n"]))
    fields |= {"model": spelled_string("m", draw(st.booleans())), "messages": f"[{space}{f'{space},'.join(texts)}{space}]"}
    keys = draw(st.permutations(list(fields)))
    inside = f"{space},".join([f"{space}{spelled_string(key, draw(st.booleans()))}{space}:{fields[key]}" for key in keys])
    return f"{space}{{{inside}{space}}}{space}".encode(), [text.encode() for text in texts], ours


@settings(max_examples=200, deadline=None)
@given(spelled_requests())
def test_whatever_is_not_ours_goes_out_byte_for_byte(request_and_parts: tuple[bytes, list[bytes], list[dict[str, Any]]]) -> None:
    body, texts, ours = request_and_parts
    request = read(body)
    outgoing = prepared_prompt(request, kept=range(len(texts))).outgoing
    if not any(ours):
        assert outgoing == body
    sent = strict_json.fields(outgoing)
    assert {**sent, "messages": b""} == {**strict_json.fields(body), "messages": b""}
    for raw, text, own in zip(strict_json.elements(sent["messages"], "m"), texts, ours, strict=True):
        if own:
            value = json.loads(text)
            assert json.loads(raw) == {key: item for key, item in value.items() if key not in OWN}
        else:
            assert raw == text


@settings(max_examples=60, deadline=None)
@given(spelled_requests(), st.data())
def test_what_leaves_takes_nothing_else_with_it(
    request_and_parts: tuple[bytes, list[bytes], list[dict[str, Any]]], data: st.DataObject
) -> None:
    body, texts, ours = request_and_parts
    kept = [index for index in range(len(texts)) if data.draw(st.booleans())]
    sent = strict_json.fields(prepared_prompt(read(body), kept=kept).outgoing)
    raws = strict_json.elements(sent["messages"], "m")
    assert [raw for raw, i in zip(raws, kept, strict=True) if not ours[i]] == [texts[i] for i in kept if not ours[i]]
    assert list(sent) == list(strict_json.fields(body))


def test_a_request_is_read_whole() -> None:
    request = read(small(stream=True, user="u"), tenant="t", authorization="Bearer x")
    assert (request.model, request.stream, request.tenant, request.authorization) == ("m", True, "t", "Bearer x")
    assert (request.reply_limit, request.limit_fields, request.diagnostics, request.untouched) == (None, (), (), True)
    assert request.fields == {
        "model": b'"m"',
        "messages": b'[{"role": "user", "content": "a"}]',
        "stream": b"true",
        "user": b'"u"',
    }


def test_our_fields_of_the_body_are_taken_off() -> None:
    own = {"contextShift": {"chatId": "c"}, "contextStrategy": "truncate", "context_strategy": None, "context_shift": None}
    request = read(small(**own, prompt_cache_key="k", metadata={"chat_id": "d"}))
    assert set(request.fields) == {"model", "messages", "prompt_cache_key", "metadata"}
    assert (request.untouched, request.options.chat_id, request.options.strategy) == (False, "c", "truncate")


def test_unknown_marks_are_told() -> None:
    request = read(small(messages=[{"role": "user"}, {"role": "user", "meta": {"pinnd": True, "x" * 90: 1}}]))
    assert [(item.code, item.message[:31]) for item in request.diagnostics] == [
        ("unknown-mark", "messages[1].meta.'pinnd' is not"),
        ("unknown-mark", "messages[1].meta.'xxxxxxxxxxxxx"),
    ]
    assert all(len(item.message) < 130 for item in request.diagnostics)


@pytest.mark.parametrize("stream", [True, False, None])
def test_a_stream_is_asked_for_by_true_alone(stream: bool | None) -> None:
    assert read(small(stream=stream)).stream is (stream is True)


@pytest.mark.parametrize(
    ("body", "param", "words"),
    [
        ({"messages": [{}]}, "model", "must be a string"),
        (small(model=None), "model", "must be a string"),
        (small(model=5), "model", "must be a string"),
        (small(model=""), "model", "is empty"),
        ({"model": "m"}, "messages", "has no `messages`"),
        ({"model": "m", "messages": None}, "messages", "has no `messages`"),
        ({"model": "m", "input": "hello"}, "messages", "Responses API"),
        ({"model": "m", "messages": []}, "messages", "is empty"),
        ({"model": "m", "messages": {}}, "messages", "must be a list"),
        ({"model": "m", "messages": "hello"}, "messages", "must be a list"),
        (small(stream="true"), "stream", "true or false"),
        (small(stream=1), "stream", "true or false"),
        (b'{"model":"m","messages":[{"role":"user"}],"tools":[{"a":1,"a":2}]}', "tools", "repeats a key"),
        (b'{"model":"m","messages":[{"role":"user","x":{"a":1,"a":2}}]}', "messages[0]", "repeats a key"),
        (b'{"model":"m","messages":[{"role":"user"}],"x":' + b"[" * 128 + b"]" * 128 + b"}", "x", "deeper than 128"),
    ],
)
def test_what_is_wrong_with_a_body_is_told_by_its_path(body: Any, param: str, words: str) -> None:
    with pytest.raises(InvalidRequest, match=words) as caught:
        read(body)
    assert caught.value.param == param


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize(
    ("spelling", "limit"),
    [
        ("1", 1),
        ("100", 100),
        ("100.0", 100),
        ("1e2", 100),
        ("1.5e1", 15),
        ("10E-1", 1),
        ("null", None),
        ("1" * 18, int("1" * 18)),
    ],
)
def test_a_reply_limit_is_a_whole_number(name: str, spelling: str, limit: int | None) -> None:
    request = read(f'{{"model":"m","messages":[{{}}],"{name}":{spelling}}}'.encode())
    assert (request.reply_limit, request.limit_fields) == (limit, (name,) if limit else ())


@pytest.mark.parametrize("name", ["max_tokens", "max_completion_tokens"])
@pytest.mark.parametrize(
    "spelling",
    [
        *["0", "-0", "-1", "0.0", "0.5", "1.5", "1e-1", "-1e2", "1e400", "-1e400", "true", "false", "[]", "[1]", "{}"],
        '"100"',
        '""',
        "-" + "9" * 5000,
    ],
    ids=lambda text: text[:8],
)
def test_any_other_reply_limit_is_refused_by_name(name: str, spelling: str) -> None:
    with pytest.raises(InvalidRequest, match="whole number of tokens, at least 1") as caught:
        read(f'{{"model":"m","messages":[{{}}],"{name}":{spelling}}}'.encode())
    assert caught.value.param == name


@example(5000)
@settings(max_examples=20, deadline=None)
@given(st.integers(19, 5000))
def test_a_reply_limit_of_endless_digits_is_only_large(digits: int) -> None:
    request = read(f'{{"model":"m","messages":[{{}}],"max_tokens":{"9" * digits}}}'.encode())
    assert request.reply_limit is not None
    assert request.reply_limit >= 10**18


def test_of_two_reply_limits_the_larger_counts() -> None:
    request = read(small(max_tokens=5, max_completion_tokens=7))
    assert (request.reply_limit, set(request.limit_fields)) == (7, {"max_tokens", "max_completion_tokens"})
    assert read(small(max_tokens=9, max_completion_tokens=7)).reply_limit == 9
