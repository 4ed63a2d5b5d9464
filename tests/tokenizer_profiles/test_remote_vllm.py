from __future__ import annotations

from tests.tokenizer_profiles.toy_server import PNG
from tokenizer_profiles.remote_vllm import question

CHAT = [{"role": "user", "content": "a"}, {"role": "user", "content": [{"type": "text", "text": "b"}, "c"]}]


def test_the_chat_is_sent_as_it_is_with_the_keys_that_its_template_sees() -> None:
    request = {
        "tools": [{"name": "f"}],
        "add_generation_prompt": False,
        "model": "alias",
        "temperature": 1,
        "chat_template": None,
    }
    made = question("m", CHAT, request)
    assert made.path == "/tokenize"
    assert made.body == {"tools": [{"name": "f"}], "add_generation_prompt": False, "messages": CHAT, "model": "m"}
    assert made.exact
    assert not made.rest
    assert "model" not in question("", CHAT, {}).body


def test_what_the_chat_endpoint_hands_to_the_template_is_handed_to_it() -> None:
    given = {"chat_template_kwargs": {"enable_thinking": False}, "reasoning_effort": "low"}
    assert question("m", CHAT, given).body["chat_template_kwargs"] == {"reasoning_effort": "low", "enable_thinking": False}
    assert question("m", CHAT, {**given, "chat_template_kwargs": "x"}).body["chat_template_kwargs"] == "x"


def test_media_are_estimated_on_top() -> None:
    made = question("m", [{"role": "user", "content": [PNG, {"type": "text", "text": "a"}]}, *CHAT], {})
    assert made.rest == [{"content": [PNG]}]


def test_gpt_oss_is_not_quite_its_chat() -> None:
    assert not question("openai/gpt-oss-20b", CHAT, {}).exact
