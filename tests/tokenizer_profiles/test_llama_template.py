from __future__ import annotations

import asyncio
import json
import random
from typing import Any

import pytest

from tests.tokenizer_profiles.conftest import LocalServer
from tokenizer_profiles.chat_template import TemplateRefused
from tokenizer_profiles.llama_template import LlamaTemplate

Chat = list[dict[str, Any]]

PLAIN = (
    "{% for message in messages %}<{{ message.role }}>{{ message.content | trim }}{% endfor %}"
    "{% if add_generation_prompt %}<assistant>{% endif %}"
)
TYPED = "{% for message in messages %}{% for part in message.content %}{{ part.text or '' }}{% endfor %}|{% endfor %}"
BOTH = (
    "{% if message.content is string %}{{ message.content }}{% else %}"
    "{% for part in message.content %}{{ part.text }}{% endfor %}{% endif %}"
)
THINKS = (
    "{% for message in messages %}<{{ message.role }}>{% if message.reasoning_content %}<think>{{ message.reasoning_content }}"
    "</think>{% endif %}{{ message.content }}{% endfor %}{% if add_generation_prompt %}<assistant>OPEN{% endif %}"
)
WORDS = ("hello ", " world", "\n\n", "  ", "世界", "é", "\xa0", "\u2028", "\x85", "<|im_end|>", "</s>", "\t", "🙂", "12345", "")


def rendered(source: str, chat: Chat, **request: object) -> str:
    return LlamaTemplate(source, {}).render(chat, request)


def test_trimming_knows_only_ascii_spaces() -> None:
    text = " \n\u00a0\u2028 a\u3000\x85\x1f\t "
    assert rendered(PLAIN, [{"role": "user", "content": text}]) == "<user>\u00a0\u2028 a\u3000\x85\x1f<assistant>"
    assert rendered(PLAIN, [{"role": "user", "content": " a "}]) == "<user>a<assistant>"


def test_nothing_and_developers_are_handed_over_as_the_server_does() -> None:
    chat: Chat = [{"role": "developer", "content": "x"}, {"role": "user", "content": None}]
    assert rendered(PLAIN, chat) == "<system>x<user><assistant>"
    assert rendered(PLAIN + "{# <|channel|> #}", chat) == "<developer>x<user><assistant>"


def test_parts_are_joined_unless_the_template_takes_them() -> None:
    chat: Chat = [
        {"role": "user", "content": [{"type": "text", "text": ""}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    ]
    assert rendered(PLAIN, chat) == "<user>a\nb<assistant>"
    assert rendered(TYPED, chat) == "ab|"
    assert rendered("{% for message in messages %}" + BOTH + "{% endfor %}", chat) == "ab"


def test_a_last_reply_is_left_open() -> None:
    chat: Chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "You"}]
    template = LlamaTemplate(PLAIN, {})
    assert template.render(chat, {}) == "<user>Hi<assistant>You"
    assert template.render(chat, {}, asks_reply=False) == "<user>Hi<assistant>You"
    assert template.render(chat, {"add_generation_prompt": False}) == "<user>Hi<assistant>You"
    assert not template.guesses(chat)


def test_a_guessed_way_of_thinking_is_told() -> None:
    chat: Chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "You"}]
    opens = LlamaTemplate(THINKS.replace("OPEN", "<think>"), {})
    assert opens.guesses(chat)
    assert not opens.guesses(chat[:1])
    assert not LlamaTemplate(THINKS.replace("OPEN", ""), {}).guesses(chat)


def test_results_in_parts_are_a_guess_where_parts_stay_parts() -> None:
    chat: Chat = [{"role": "tool", "content": [{"type": "text", "text": "a"}]}]
    assert LlamaTemplate("{% for message in messages %}" + BOTH + "{% endfor %}", {}).guesses(chat)
    assert not LlamaTemplate(PLAIN, {}).guesses(chat)
    assert LlamaTemplate(PLAIN, {}).guesses([{"role": "user", "content": 5}])


def test_a_template_that_the_server_has_rules_for_is_a_guess() -> None:
    assert LlamaTemplate(PLAIN + "{# <|channel|> #}", {}).guesses([])
    assert not LlamaTemplate(PLAIN, {}).guesses([])


def test_spaces_in_parts_are_trimmed_like_those_of_texts() -> None:
    parts = BOTH.replace("part.text", "part.text | trim")
    chat: Chat = [{"role": "user", "content": [{"type": "text", "text": " \u00a0a\x85 "}]}]
    assert rendered("{% for message in messages %}" + parts + "{% endfor %}", chat) == "\u00a0a\x85"


def test_fractions_are_a_guess_where_values_are_printed_one_by_one() -> None:
    values = (
        "{% for message in messages %}{{ message.content }}{% for call in message.tool_calls or [] %}"
        "{% for key, value in call.function.arguments.items() %}{{ key }}={{ value }}{% endfor %}{% endfor %}{% endfor %}"
    )
    whole = values.replace(".items() %}{{ key }}={{ value }}", " %}{{ call.function.arguments | tojson }}")
    calls = [{"type": "function", "id": "c", "function": {"name": "f", "arguments": '{"a": 1.5}'}}]
    chat: Chat = [{"role": "assistant", "content": "", "tool_calls": calls}]
    assert LlamaTemplate(values, {}).guesses(chat)
    assert not LlamaTemplate(whole, {}).guesses(chat)


def test_every_template_sees_the_servers_variables() -> None:
    assert rendered("{{ enable_thinking }}", []) == "True"
    assert rendered("{{ enable_thinking }}", [], chat_template_kwargs={"enable_thinking": False}) == "False"


def test_a_refusal_stays_a_refusal() -> None:
    template = LlamaTemplate("{{ raise_exception('no') }}", {})
    with pytest.raises(TemplateRefused, match="no"):
        template.render([{"role": "user", "content": "\u2028"}], {})


def chats(number: int) -> list[Chat]:
    chance = random.Random(5)  # noqa: S311  (not for secrets)

    def text() -> str:
        return "".join(chance.choice(WORDS) for _ in range(chance.randint(0, 6)))

    def content() -> object:
        parts = [{"type": "text", "text": text()} for _ in range(chance.randint(1, 3))]
        return parts if chance.random() < 0.2 else text()

    made: list[Chat] = []
    for _ in range(number):
        roles = [*chance.choice([[], ["system"], ["developer"]]), *("user", "assistant") * chance.randint(1, 3)]
        made.append([{"role": role, "content": content()} for role in roles[: len(roles) - chance.randint(0, 1)]])
    return made


def test_renders_are_those_of_the_server(local_server: LocalServer) -> None:
    known = json.loads(asyncio.run(local_server.ask("GET", "/props", b"")))
    template = LlamaTemplate(known["chat_template"], {key: known[key] for key in ("bos_token", "eos_token")})
    for chat in chats(60):
        assert template.render(chat, {}) == local_server.post("/apply-template", {"messages": chat})["prompt"]
