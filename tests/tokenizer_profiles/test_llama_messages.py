from __future__ import annotations

from datetime import date
from typing import Any

import pytest

from tokenizer_profiles.llama_messages import (
    Chat,
    Thinking,
    added_text,
    continued,
    continues_reply,
    has_fractions,
    has_own_format,
    joined_parts,
    learn_thinking,
    template_message,
    template_tools,
    template_variables,
    writes_arguments,
    written_numbers,
)

CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}, "index": 0}


def rendered(chat: Chat, asks_reply: bool) -> str:
    """A template in Python: reasoning is shown in <think> tags."""
    text = ""
    for message in chat:
        reasoning = message.get("reasoning_content")
        text += f"<{message['role']}>" + (f"<think>\n{reasoning}</think>\n" if reasoning else "") + f"{message['content']};"
    return text + ("<assistant>" if asks_reply else "")


def handed(message: dict[str, Any], *, objects: bool = True, developers: bool = False) -> dict[str, Any]:
    return template_message(message, message.get("content"), objects=objects, developers=developers)


def test_a_message_reaches_the_template_with_known_keys_in_order() -> None:
    message = {"tool_call_id": "t", "name": "n", "refusal": "r", "content": "x", "reasoning_content": "", "role": "tool"}
    assert list(handed(message).items()) == [("role", "tool"), ("content", "x"), ("name", "n"), ("tool_call_id", "t")]


def test_calls_keep_type_name_arguments_and_id() -> None:
    message = {"role": "assistant", "content": "", "tool_calls": [CALL]}
    call = {"type": "function", "function": {"name": "f", "arguments": {"a": 1}}, "id": "c1"}
    assert handed(message)["tool_calls"] == [call]
    assert handed(message, objects=False)["tool_calls"][0]["function"]["arguments"] == '{"a": 1}'


def test_arguments_that_came_as_an_object_are_written_for_a_template_of_texts() -> None:
    call = {"type": "function", "function": {"name": "f", "arguments": {"ü": [1]}}}
    message = {"role": "assistant", "content": "", "tool_calls": [call]}
    assert handed(message, objects=False)["tool_calls"][0]["function"]["arguments"] == '{"ü":[1]}'
    assert "id" not in handed(message)["tool_calls"][0]


@pytest.mark.parametrize("calls", ["x", 5, [], None, {}])
def test_calls_that_are_no_list_are_left_out(calls: object) -> None:
    assert "tool_calls" not in handed({"role": "assistant", "content": "", "tool_calls": calls})


@pytest.mark.parametrize("call", ["x", None, {}, {"function": None}, {"function": "f"}])
def test_malformed_calls_come_as_they_are(call: object) -> None:
    assert handed({"role": "assistant", "content": "", "tool_calls": [call]})["tool_calls"] == [call]


@pytest.mark.parametrize("arguments", ["", "{", "[" * 100_000, "nonsense"])
def test_arguments_that_are_no_json_stay_a_text(arguments: str) -> None:
    message = {"role": "assistant", "content": "", "tool_calls": [{"function": {"name": "f", "arguments": arguments}}]}
    assert handed(message)["tool_calls"][0]["function"]["arguments"] == arguments


def test_developers_are_systems_unless_the_template_knows_them() -> None:
    message = {"role": "developer", "content": "x"}
    assert handed(message)["role"] == "system"
    assert handed(message, developers=True)["role"] == "developer"


def test_tools_reach_the_template_with_three_keys() -> None:
    tools = [{"type": "function", "function": {"strict": True, "parameters": {"n": 1.0}, "name": "f"}, "x": 1}]
    assert template_tools(tools) == [{"type": "function", "function": {"name": "f", "description": "", "parameters": {"n": 1}}}]


@pytest.mark.parametrize("tools", [None, "x", {}, [None], [{"function": {}}], [{"name": "f"}]])
def test_malformed_tools_come_as_they_are(tools: object) -> None:
    assert template_tools(tools) == tools


# Written down from a running server: {{ arguments | tojson }}.
@pytest.mark.parametrize(
    ("given", "written"),
    [
        ("1.0", "1"),
        ("2.5", "2.5"),
        ("3.14159265", "3.14159"),
        ("1234567.5", "1.23457e+06"),
        ("1e15", "1e+15"),
        ("1e20", "1e+20"),
        ("1e-5", "1e-05"),
        ("-0.0", "-0"),
        ("123456.7", "123457"),
        ("9223372036854775807", "9223372036854775807"),
        ("9223372036854775808", "-9223372036854775808"),
        ("-9223372036854775808", "-9223372036854775808"),
        ("18446744073709551616", "1.84467e+19"),
        ("true", "True"),
    ],
)
def test_numbers_are_written_as_the_server_writes_them(given: str, written: str) -> None:
    call = {"function": {"name": "f", "arguments": f'{{"a": [{given}]}}'}}
    message = handed({"role": "assistant", "content": "", "tool_calls": [call]})
    value = message["tool_calls"][0]["function"]["arguments"]["a"][0]
    assert written_numbers(f'"{value}"' if isinstance(value, str) else str(value)) == written


@pytest.mark.parametrize(
    ("calls", "has"),
    [
        ([{"function": {"arguments": '{"a": 1.5}'}}], True),
        ([{"function": {"arguments": {"a": [1e300]}}}], True),
        ([{"function": {"arguments": '{"a": 1, "b": "x"}'}}, {"function": None}, None, {}], False),
        (None, False),
        ("1.5", False),
    ],
)
def test_calls_with_fractions_are_seen(calls: object, has: bool) -> None:
    assert has_fractions({"role": "assistant", "tool_calls": calls}) is has


@pytest.mark.parametrize(
    ("source", "writes"),
    [
        ("{{ call.arguments | tojson }}", True),
        ("{{ call['function']['arguments']|tojson(ensure_ascii=False) }}", True),
        ("{% for k, v in call.arguments.items() %}{{ v | tojson }}{% endfor %}", False),
        ("{{ message.content }}", False),
    ],
)
def test_a_template_that_writes_arguments_as_a_whole_is_seen(source: str, writes: bool) -> None:
    assert writes_arguments(source) is writes


def test_a_number_beyond_every_float_is_kept() -> None:
    call = {"function": {"name": "f", "arguments": {"a": 10**400}}}
    message = template_message({"role": "assistant", "tool_calls": [call]}, "", objects=False, developers=False)
    assert message["tool_calls"][0]["function"]["arguments"] == f'{{"a":{10**400}}}'
    assert template_tools([{"function": {"name": "f", "parameters": [10**400]}}]) == [
        {"type": "function", "function": {"name": "f", "description": "", "parameters": [10**400]}}
    ]


@pytest.mark.parametrize(
    ("parts", "text"), [([], ""), (["a"], "a"), (["a", "b"], "a\nb"), (["", "b"], "b"), (["a", "", "b", ""], "a\n\nb\n")]
)
def test_parts_are_joined_by_lines_but_for_empty_ones_at_the_start(parts: list[str], text: str) -> None:
    assert joined_parts(parts) == text


def test_today_is_told_twice() -> None:
    variables = {"enable_thinking": True, "date_string": "05 Nov 2026", "datetime": "Nov 05 2026"}
    assert template_variables(date(2026, 11, 5)) == variables


@pytest.mark.parametrize(
    ("source", "own"),
    [
        ("<|start|>{{ x }}<|channel|>final", True),
        ("[SYSTEM_PROMPT]{{ x }}\n[TOOL_CALLS]f[ARGS]", True),
        ("[SYSTEM_PROMPT]{{ x }}", False),
        ("<|im_start|>{{ role }}", False),
    ],
)
def test_families_with_rules_of_their_own_are_known(source: str, own: bool) -> None:
    assert has_own_format(source) is own


@pytest.mark.parametrize(
    ("last", "continues"),
    [({"role": "assistant", "content": "x"}, True), ({"role": "user"}, False), ({"role": "assistant", "tool_calls": [1]}, False)],
)
def test_a_last_reply_is_continued(last: dict[str, Any], continues: bool) -> None:
    assert continues_reply([{"role": "user"}, last]) is continues


def test_nothing_is_continued_in_no_chat() -> None:
    assert not continues_reply([])


@pytest.mark.parametrize(
    ("last", "text"),
    [
        ({"content": "A"}, "<user>Q;<assistant><think>\n</think>\nA"),
        ({"content": "A", "reasoning_content": "R"}, "<user>Q;<assistant><think>\nR</think>\nA"),
        ({"content": "", "reasoning_content": "R"}, "<user>Q;<assistant><think>\nR"),
        ({"content": [{"text": "a"}, {"text": "b"}]}, "<user>Q;<assistant><think>\n</think>\na\n\nb"),
        ({"content": [{"text": ""}, {"text": "b"}]}, "<user>Q;<assistant><think>\n</think>\nb"),
        ({"content": [{"text": ""}]}, "<user>Q;<assistant><think>\n</think>\n"),
        ({"content": 5}, "<user>Q;<assistant><think>\n</think>\n"),
        ({"content": ""}, "<user>Q;"),
        ({"content": []}, "<user>Q;"),
        ({}, "<user>Q;"),
    ],
)
def test_the_last_reply_is_left_open(last: dict[str, Any], text: str) -> None:
    chat = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": ""}]
    assert continued(rendered, chat, last, learn_thinking(rendered)) == text


def test_reasoning_that_the_template_opens_itself_is_opened_once() -> None:
    def opening(chat: Chat, asks_reply: bool) -> str:
        return rendered(chat, False) + ("<assistant><think>\n" if asks_reply else "")

    thinking = learn_thinking(opening)
    chat = [{"role": "user", "content": "Q"}, {"role": "assistant", "content": "A"}]
    assert (thinking.start, thinking.certain) == ("<think>\n", False)
    assert continued(opening, chat, chat[-1], thinking) == "<user>Q;<assistant><think>\n</think>\nA"


def test_reasoning_that_only_the_asking_opens_is_guessed() -> None:
    assert learn_thinking(lambda chat, asks_reply: "<think>\n" if asks_reply else "") == Thinking(
        "<think>", "</think>", certain=False
    )


@pytest.mark.parametrize(
    ("asking", "thinking"),
    [
        ("<assistant>", Thinking("<think>", "</think>", certain=False)),
        ("<assistant></think>", Thinking(certain=False)),
        ("", Thinking("<think>", "</think>", certain=False)),
    ],
)
def test_reasoning_that_is_only_taken_out_is_guessed(asking: str, thinking: Thinking) -> None:
    def dropping(chat: Chat, asks_reply: bool) -> str:
        return "".join(f"<{m['role']}>{m['content'].split('</think>')[-1]}" for m in chat) + (asking if asks_reply else "")

    assert learn_thinking(dropping) == thinking


def test_a_template_that_knows_no_reasoning_has_none() -> None:
    def plain(chat: Chat, asks_reply: bool) -> str:
        return rendered([{"role": m["role"], "content": m["content"]} for m in chat], asks_reply)

    assert learn_thinking(plain) == Thinking()


def test_a_template_that_renders_nothing_has_no_reasoning() -> None:
    assert learn_thinking(lambda chat, asks_reply: "") == Thinking()


@pytest.mark.parametrize(
    ("before", "after", "added"), [("ab", "abc", "c"), ("", "x", "x"), ("abX", "abY", "Y"), ("ab", "ab", "")]
)
def test_what_was_added_stands_behind_the_common_start(before: str, after: str, added: str) -> None:
    assert added_text(before, after) == added
