from __future__ import annotations

import logging
import subprocess
import sys
from typing import Any

import pytest

from tokenizer_profiles import ProfileDataMissing
from tokenizer_profiles.chat_template import ChatTemplate, TemplateRefused

Chat = list[dict[str, Any]]

CHATML = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content }}"
    "{% for call in message.tool_calls or [] %}[{{ call.function.name }} {{ ARGUMENTS }}]{% endfor %}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
OBJECTS = CHATML.replace("ARGUMENTS", "call.function.arguments.items() | list")
STRINGS = CHATML.replace("ARGUMENTS", "call.function.arguments + ''")
JSON = CHATML.replace("ARGUMENTS", "call.function.arguments | tojson")


def rendered(source: str, chat: Chat, **request: object) -> str:
    return ChatTemplate(source, {"bos_token": "<s>"}).render(chat, request)


def call(arguments: object) -> dict[str, Any]:
    return {"id": "c1", "type": "function", "function": {"name": "f", "arguments": arguments}}


def calling(arguments: object) -> Chat:
    return [{"role": "assistant", "content": "", "tool_calls": [call(arguments)]}]


def test_a_chat_is_rendered_with_the_text_that_asks_for_a_reply() -> None:
    template = ChatTemplate("{{ bos_token }}" + JSON, {"bos_token": "<s>"})
    chat: Chat = [{"role": "user", "content": "Hi"}]
    assert template.render(chat, {}) == "<s><user>Hi<assistant>"
    assert template.render(chat, {}, asks_reply=False) == "<s><user>Hi"
    assert template.render(chat, {"add_generation_prompt": False}) == "<s><user>Hi"


def test_tools_and_options_are_seen_by_the_template() -> None:
    template = ChatTemplate("{{ tools | tojson }} {{ thinking }} {{ bos_token }}", {"bos_token": "<s>"})
    request = {"tools": [{"type": "function"}], "chat_template_kwargs": {"thinking": True, "bos_token": "b", 5: 1, "tools": 0}}
    assert template.render([], request) == '[{"type": "function"}] True b'
    assert template.render([], request, tools=False) == "null True b"
    assert template.render([], {"tools": []}) == "null  <s>"


def test_arguments_become_objects_where_the_template_takes_objects() -> None:
    assert rendered(JSON, calling('{"q": "ä"}')) == '<assistant>[f {"q": "ä"}]<assistant>'
    assert rendered(OBJECTS, calling('{"q": 1}')) == "<assistant>[f [('q', 1)]]<assistant>"
    assert rendered(STRINGS, calling('{"q": 1}')) == '<assistant>[f {"q": 1}]<assistant>'


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [("", "{}"), ("not json", '"not json"'), ("[1]", '"[1]"'), ("[" * 100_000, None), ({"q": 1}, '{"q": 1}')],
)
def test_arguments_that_are_no_object_stay_as_they_came(arguments: object, shown: str | None) -> None:
    text = rendered(JSON, calling(arguments))
    assert text == f"<assistant>[f {shown}]<assistant>" or (shown is None and "[[[[" in text)


@pytest.mark.parametrize("calls", [[5], [{"function": 5}], [{"function": {"name": "f"}}], 7, "x"])
def test_odd_calls_are_handed_over_as_they_came(calls: object) -> None:
    source = "{{ messages[0].tool_calls | tojson }}"
    assert rendered(source, [{"role": "assistant", "tool_calls": calls}]).startswith(("[", "7", '"x"'))


def test_null_values_are_left_out_unless_the_template_needs_them() -> None:
    defined = "{% for message in messages %}{{ message.content is defined }} {{ message.content }} {% endfor %}"
    assert rendered(defined, [{"role": "assistant", "content": None}]) == "False  "
    needs_none = STRINGS.replace("{{ message.content }}", "{{ 'none' if message.content is none else '' + message.content }}")
    assert rendered(needs_none, [{"role": "assistant", "content": None}]) == "<assistant>none<assistant>"
    needs_text = STRINGS.replace("{{ message.content }}", "{{ '' + message.content }}")
    assert rendered(needs_text, [{"role": "assistant"}]) == "<assistant><assistant>"


def test_parts_are_joined_for_a_template_that_takes_texts() -> None:
    parts = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "x"}},
        "b",
        {"type": "input_text", "text": "c"},
    ]
    assert rendered(JSON, [{"role": "user", "content": parts}]) == "<user>a\nb\nc<assistant>"


def test_parts_stay_parts_for_a_template_that_takes_them() -> None:
    source = (
        "{% for message in messages %}{% if message.content is string %}{{ message.content }}{% else %}"
        "{% for part in message.content %}{{ '(image)' if part.type == 'image_url' else part.text }}{% endfor %}{% endif %}"
        "{% endfor %}"
    )
    parts = [
        {"type": "text", "text": "a"},
        {"type": "image_url", "image_url": {"url": "x"}},
        {"type": "output_text", "text": "b"},
    ]
    assert rendered(source, [{"role": "user", "content": parts}]) == "a(image)b"


def test_a_text_is_one_part_for_a_template_that_takes_nothing_else() -> None:
    source = "{% for message in messages %}{% for part in message.content %}{{ part.text + '|' }}{% endfor %}{% endfor %}"
    assert rendered(source, [{"role": "user", "content": "a"}, {"role": "user", "content": ["b", "c"]}]) == "a|b|c|"


def test_a_template_without_calls_may_need_nothing_for_null() -> None:
    source = "{% for message in messages %}{{ message.content + '|' }}{% endfor %}"
    assert rendered(source, [{"role": "assistant", "content": None}, {"role": "user", "content": "a"}]) == "|a|"


@pytest.mark.parametrize(
    ("content", "shown"),
    [
        (5, "5"),
        ({"a": None}, '{"a":null}'),
        ([7], "7"),
        ([{"type": "riddle"}], '{"type":"riddle"}'),
        ([{"type": ["x"]}], '{"type":["x"]}'),
    ],
)
def test_what_is_not_understood_is_shown_as_json_and_is_a_guess(content: object, shown: str) -> None:
    template = ChatTemplate(JSON, {})
    chat: Chat = [{"role": "user", "content": content}]
    assert template.render(chat, {}) == f"<user>{shown}<assistant>"
    assert template.guesses(chat)


def test_known_contents_are_no_guess() -> None:
    parts = ["a", {"type": "text", "text": "b"}, {"type": "image_url"}, {"type": "refusal", "refusal": "c"}]
    assert not ChatTemplate(JSON, {}).guesses([{"role": "user", "content": content} for content in (None, "", "a", [], parts)])


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("{{ raise_exception('roles must alternate') }}", "TemplateError: roles must alternate"),
        ("{{ messages[9].content.x }}", "UndefinedError"),
        ("{% for %}", "TemplateSyntaxError"),
        ("{{ ''.__class__.__mro__ }}", "SecurityError"),
        ("{{ 1 // 0 }}", "ZeroDivisionError"),
        ("", "no chat template"),
    ],
)
def test_whatever_a_template_raises_is_a_refusal(source: str, said: str) -> None:
    template = ChatTemplate(source, {})
    with pytest.raises(TemplateRefused, match=said):
        template.render([{"role": "user", "content": "Hi"}], {})
    assert template.tried([{"role": "user", "content": "Hi"}]) == ""


def test_the_callers_messages_stay_as_they_are() -> None:
    chat = [*calling('{"q": 1}'), {"role": "user", "content": [{"type": "text", "text": "a"}], "name": None}]
    before = repr(chat)
    rendered(JSON, chat)
    assert repr(chat) == before


def test_missing_packages_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    with pytest.raises(ProfileDataMissing, match=r"sluicegate\[transformers\]"):
        ChatTemplate("x", {})
    assert not logging.getLogger("transformers").filters


def test_importing_the_profiles_loads_no_heavy_package_and_rendering_says_nothing() -> None:
    code = (
        "import sys, tokenizer_profiles.huggingface\n"
        "heavy = {'transformers', 'tokenizers', 'jinja2', 'numpy'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "from tokenizer_profiles.chat_template import ChatTemplate\n"
        "assert ChatTemplate('x', {}).render([], {}) == 'x'\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)  # noqa: S603  (our own code)
    assert (done.returncode, done.stderr) == (0, "")
