"""Messages are examined once, and go out byte for byte unless they carried something of ours or a foreign link."""

from __future__ import annotations

import json
from typing import Any

import pytest

from gateway.chat import ChatMessage, Marks
from gateway.errors import InvalidRequest
from gateway.web.wire_messages import MessageReader


def read(*messages: Any, reader: MessageReader | None = None) -> list[ChatMessage]:
    raws = [message if isinstance(message, bytes) else json.dumps(message).encode() for message in messages]
    return (reader or MessageReader()).read(b"[" + b" , ".join(raws) + b"]")


def sent(message: Any) -> Any:
    return json.loads(read(message)[0].outgoing)


@pytest.mark.parametrize(
    "raw",
    [
        b'{ "role":"user" ,"content":"caf\\u00e9","x":1.50e0 }',
        b'{"content":[{"type":"text","text":"a"}, "odd", 5],"role":"user"}',
        b'{"role":"assistant","content":null,"tool_calls":[{"id":"c", "type":"function"}]}',
        b'{"role":"tool","tool_call_id":"c", "content":"r"}',
        b'{"role":"assistant","tool_calls":"odd"}',
        b'{"role":"assistant","tool_calls":["odd", {"type":"function"}]}',
        b'{"role":"assistant","tool_calls":[{"id":"c","call_id":"d"}], "content":""}',
        b'{ "role":"user","content":"a","call_id":"not a link here" }',
        b'{"type":"function_call","call_id":"c", "name":"f"}',
        b'{"type":"function_call_output", "call_id":"c","id":"kept","meta":"kept"}',
        b'{"role":null , "id":"kept"}',
    ],
)
def test_a_message_without_anything_of_ours_goes_out_byte_for_byte(raw: bytes) -> None:
    assert read(raw)[0].outgoing == raw


def test_what_is_known_of_a_message_is_read() -> None:
    message = read({"role": "user", "content": "hello", "id": "one", "meta": {"pinned": True, "odd": 1}})[0]
    assert (message.role, message.text, message.id, message.marks) == ("user", "hello", "one", Marks(pinned=True))
    assert message.unknown_meta == ("odd",)
    assert message.message == {"role": "user", "content": "hello"}


@pytest.mark.parametrize(
    ("raw", "role"),
    [
        (b'{"type":"function_call","call_id":"c"}', "assistant"),
        (b'{"type":"function_call_output","call_id":"c"}', "tool"),
        (b'{"role":null}', "assistant"),
        (b'{"type":5}', "assistant"),
    ],
)
def test_an_item_without_a_role_is_grouped_by_what_it_is(raw: bytes, role: str) -> None:
    assert read(raw)[0].role == role


def test_our_fields_are_taken_off_and_the_rest_keeps_its_spelling() -> None:
    raw = (
        b'{"id":"x","n": 1.50e0,"meta":{"pinned":true},"role":"user","pinned":true,'
        b'"manualExcluded":false,"manual_excluded":null,"content":"\\u00e9"}'
    )
    assert read(raw)[0].outgoing == b'{"n":1.50e0,"role":"user","content":"\\u00e9"}'


def test_our_fields_are_taken_off_parts_and_other_parts_stay() -> None:
    parts = [
        {"type": "text", "text": "a", "pinned": True},
        {"type": "text", "id": "kept"},
        "odd",
        {"meta": {"label": "l"}, "x": 1},
    ]
    message = read({"role": "user", "content": parts})[0]
    assert json.loads(message.outgoing)["content"] == [
        {"type": "text", "text": "a"},
        {"type": "text", "id": "kept"},
        "odd",
        {"x": 1},
    ]
    assert message.marks == Marks(pinned=True, label="l")
    untouched = b'{"role":"user","id":"x","content":[ {"type":"text"} ]}'
    assert read(untouched)[0].outgoing == b'{"role":"user","content":[ {"type":"text"} ]}'


@pytest.mark.parametrize("key", ["tool_call_id", "toolCallId", "callId", "call_id"])
@pytest.mark.parametrize("role", ["tool", "function"])
def test_the_link_of_a_result_goes_out_in_openais_spelling(key: str, role: str) -> None:
    message = {"role": role, key: "c", "content": "r"}
    assert sent(message) == {"role": role, "tool_call_id": "c", "content": "r"}
    assert read(message)[0].links.results == ("c",)


@pytest.mark.parametrize(
    "links",
    [
        {"tool_call_id": None, "callId": "c"},
        {"callId": "c", "tool_call_id": None},
        {"toolCallId": None, "call_id": "c"},
        {"tool_call_id": "", "call_id": "c"},
        {"toolCallId": "c", "call_id": "x"},
        {"toolCallId": 5, "call_id": "c"},
    ],
)
def test_of_several_links_the_one_that_was_linked_by_goes_out(links: dict[str, Any]) -> None:
    message = {"role": "tool", **links, "content": "r"}
    assert read(message)[0].links.results == ("c",)
    assert sent(message) == {"role": "tool", "tool_call_id": "c", "content": "r"}


@pytest.mark.parametrize(
    "links", [b'"tool_call_id": "c","call_id":"x"', b'"call_id":"x","tool_call_id": "c"', b'"callId":null, "tool_call_id": "c"']
)
def test_a_result_that_is_linked_as_openai_does_keeps_its_other_fields(links: bytes) -> None:
    raw = b'{"role":"tool",' + links + b', "content":"r"}'
    message = read(raw)[0]
    assert (message.links.results, message.outgoing) == (("c",), raw)
    assert read(raw[:-1] + b',"id":"own"}')[0].outgoing == raw.replace(b" ", b"")


@pytest.mark.parametrize("odd", [{"toolCalls": "odd"}, {"toolCalls": None}, {"tool_calls": None}, {"tool_calls": "odd"}])
def test_calls_that_are_none_stay_as_they_are_when_our_fields_are_taken_off(odd: dict[str, Any]) -> None:
    message = {"role": "assistant", "content": "a", **odd}
    assert sent(message) == sent({**message, "id": "own"}) == message


@pytest.mark.parametrize("key", ["toolCallId", "callId", "call_id"])
@pytest.mark.parametrize("name", ["tool_calls", "toolCalls"])
def test_calls_go_out_in_openais_spelling(key: str, name: str) -> None:
    calls = [{key: "c", "function": {"name": "f"}}, {"id": "d", key: "x"}, "odd"]
    message = {"role": "assistant", "content": None, name: calls}
    assert sent(message) == {
        "role": "assistant",
        "content": None,
        "tool_calls": [{"id": "c", "function": {"name": "f"}}, {"id": "d", key: "x"}, "odd"],
    }


def test_calls_that_have_their_ids_keep_their_spelling() -> None:
    raw = b'{"role":"assistant","toolCalls":[ {"id":"c"} ]}'
    assert read(raw)[0].outgoing == b'{"role":"assistant","tool_calls":[ {"id":"c"} ]}'


def test_a_null_link_of_a_call_counts_as_absent() -> None:
    message = {"role": "assistant", "tool_calls": [{"id": None, "toolCallId": None, "call_id": "c"}]}
    assert read(message)[0].links.calls == (("c",),)
    assert [call["id"] for call in sent(message)["tool_calls"]] == ["c"]


def test_a_null_list_of_calls_counts_as_absent() -> None:
    message = {"role": "assistant", "tool_calls": None, "toolCalls": [{"id": "c"}]}
    assert read(message)[0].links.calls == (("c",),)
    assert sent(message)["tool_calls"] == [{"id": "c"}]


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": 5}, "messages[1].role"),
        ({"role": "user", "id": 5}, "messages[1].id"),
        ({"role": "user", "meta": {"pinned": 1}}, "messages[1].meta.pinned"),
        (b"[]", "messages[1]"),
        (b'"text"', "messages[1]"),
        (b"null", "messages[1]"),
        (b'{"role":"user","content":{"a":1,"a":2}}', "messages[1]"),
        (b'{"role":"user","content":' + b"[" * 126 + b"]" * 126 + b"}", "messages[1]"),
    ],
)
def test_what_is_wrong_is_told_by_its_path(message: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read({"role": "user"}, message)
    assert caught.value.param == param


def test_a_message_may_be_nested_as_deep_as_the_body_may() -> None:
    assert len(read(b'{"role":"user","content":' + b"[" * 125 + b"]" * 125 + b"}")) == 1


def test_what_is_no_list_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="messages must be a list"):
        MessageReader().read(b"{}")


def test_a_message_that_was_seen_is_the_same_again() -> None:
    reader = MessageReader()
    first = read({"role": "user", "content": "a"}, reader=reader)[0]
    again = read({"role": "user", "content": "a"}, {"role": "user", "content": "b"}, reader=reader)
    assert again[0] is first
    assert again[1] is not first
    forgetful = MessageReader(memory_bytes=0)
    assert read({"role": "user"}, reader=forgetful)[0] is not read({"role": "user"}, reader=forgetful)[0]


def numbered(count: int) -> list[bytes]:
    return [b'{"role":"user","content":"%d %s"}' % (number, b"word " * 20) for number in range(count)]


@pytest.mark.parametrize("comma", [b",", b" , ", b"\n,"])
@pytest.mark.parametrize("end", [b"]", b" \n]"])
def test_a_long_list_that_has_grown_is_read_from_where_it_grew(comma: bytes, end: bytes) -> None:
    reader = MessageReader()
    before = reader.read(b"[" + comma.join(numbered(60)) + end)
    for count in (60, 61, 75, 62):
        raws = numbered(count)
        found = reader.read(b"[" + comma.join(raws) + end)
        assert [message.raw for message in found] == raws
        assert all(one is other for one, other in zip(found, before, strict=False))


def test_a_long_list_that_has_changed_is_read_anew() -> None:
    reader, raws = MessageReader(), numbered(60)
    reader.read(b"[" + b",".join(raws) + b"]")
    for changed in ([*raws[:50], b'{"role":"user"}'], raws[:59], [*raws[:59], raws[59][:-2] + b'!"}', b'{"role":"tool"}']):
        assert [message.raw for message in reader.read(b"[" + b",".join(changed) + b"]")] == changed


def test_what_is_wrong_in_a_list_that_has_grown_is_told_by_its_place_in_the_whole() -> None:
    reader, raws = MessageReader(), numbered(60)
    reader.read(b"[" + b",".join(raws) + b"]")
    for _ in range(2):
        with pytest.raises(InvalidRequest) as caught:
            reader.read(b"[" + b",".join([*raws, b'{"role":"user"}', b'{"role":5}']) + b"]")
        assert caught.value.param == "messages[61].role"


def test_a_wrong_message_is_wrong_every_time() -> None:
    reader = MessageReader()
    for _ in range(2):
        with pytest.raises(InvalidRequest):
            read({"role": 5}, reader=reader)


def test_other_values_are_examined_and_remembered() -> None:
    reader = MessageReader()
    reader.examine(b'{"a":[1]}', "tools")
    reader.examine(b'{"a":[1]}', "tools")
    reader.examine(b'"plain"', "user")
    for _ in range(2):
        with pytest.raises(InvalidRequest) as caught:
            reader.examine(b'[{"a":1,"a":1}]', "tools")
        assert caught.value.param == "tools"
