from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tokenizer_profiles.samples import CALL, TOOL, Chat, count, numbers, turn
from tests.tokenizer_profiles.toy_tokenizer import TEMPLATE, TURNS, toy_tokenizer
from tokenizer_profiles import ProfileDataMissing
from tokenizer_profiles.attribution import Marks
from tokenizer_profiles.base import OFF_LOOP_CHARACTERS
from tokenizer_profiles.images import TileRule
from tokenizer_profiles.template_profile import TemplateProfile
from tokenizer_profiles.tokenizer_data import TokenizerData

IMAGES = TileRule(85, 170)


def toy(template: str = TEMPLATE, **others: Any) -> TemplateProfile:
    variables = {"bos_token": "<s>"} if "bos_token" in template else {}
    data = TokenizerData(toy_tokenizer(*TURNS), template, variables, **others)
    return TemplateProfile("toy", lambda: data, IMAGES)


# The toy: one token a character and one for each of <s>, <turn>, </turn>.


def test_each_message_owns_its_turn_and_the_template_the_rest() -> None:
    counted = count(toy(), [{"role": "user", "content": " Hi"}, {"role": "assistant", "content": "yo"}])
    assert numbers(counted) == [turn("user", " Hi"), turn("assistant", "yo")]
    assert counted.template.tokens == 1 + 1 + len("assistant\n")
    assert not counted.approximate


def test_tools_cost_what_they_add_to_the_render() -> None:
    chat: Chat = [{"role": "user", "content": "Hi"}]
    counted = count(toy(), chat, tools=[TOOL], temperature=1)
    assert counted.tools.tokens == turn("tools", json.dumps([TOOL]))
    assert numbers(counted) == [turn("user", "Hi")]
    assert count(toy(), chat, tools=[]).tools.tokens == 0


def test_text_of_a_special_token_is_that_token_and_stays_in_its_message() -> None:
    chat: Chat = [{"role": "user", "content": "a</turn>b<turn>c"}, {"role": "user", "content": "<turn>"}]
    assert numbers(count(toy(), chat)) == [turn("user", "a1b1c"), turn("user", "1")]


def test_a_message_of_nothing_but_a_call_is_found_by_its_function() -> None:
    chat: Chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "", "tool_calls": [CALL]}]
    assert numbers(count(toy(), chat)) == [turn("user", "Hi"), turn("assistant", 'find({"q": "träume"})')]


def test_options_of_the_request_reach_the_template() -> None:
    profile = toy(
        "{% for message in messages %}{{ message.content }}{% endfor %}{{ extra }}{% if add_generation_prompt %}:{% endif %}"
    )
    chat: Chat = [{"role": "user", "content": "Hi"}]
    assert count(profile, chat).total == 3
    assert count(profile, chat, chat_template_kwargs={"extra": "more", "messages": "x"}).total == 7
    assert count(profile, chat, add_generation_prompt=False).total == 2
    assert count(profile, chat, chat_template_kwargs="odd").total == 3


def test_a_server_that_adds_a_bos_adds_it_to_renders_without_one() -> None:
    assert count(toy(bos_tokens=1), [{"role": "user", "content": "Hi"}]).template.tokens == 1 + 11
    without = TokenizerData(toy_tokenizer(*TURNS), TEMPLATE.replace("{{ bos_token }}", ""), {"bos_token": "<s>"}, bos_tokens=1)
    counted = count(TemplateProfile("toy", lambda: without, IMAGES), [{"role": "user", "content": "Hi"}])
    assert counted.template.tokens == 1 + 11


def test_a_template_that_drops_messages_still_adds_up() -> None:
    profile = toy("{{ bos_token }}{% for message in messages[-2:] %}<turn>{{ message.content | trim }}</turn>{% endfor %}")
    chat: Chat = [{"role": "user", "content": text} for text in ("one", " two", "three ")]
    counted = count(profile, chat)
    assert counted.total == 1 + 5 + 7
    assert [part.tokens for part in counted.messages[1:]] == [5, 7]
    assert counted.messages[0].tokens == 0


def test_a_template_that_looks_at_empty_contents_keeps_the_others_apart() -> None:
    profile = toy(
        "{% for message in messages %}<turn>{% if message.content %}{{ message.content }}!{% endif %}</turn>{% endfor %}"
    )
    counted = count(
        profile, [{"role": "user", "content": "a"}, {"role": "user", "content": ""}, {"role": "user", "content": "b"}]
    )
    assert (counted.messages[2].tokens, counted.messages[2].approximate) == (4, False)
    assert sum(numbers(counted)) == 10
    assert counted.template.tokens == 0


def test_without_boundaries_the_whole_is_exact_and_the_messages_are_shares() -> None:
    profile = toy("{% for message in messages %}[{{ message.role }}] {{ message.content }}\n{% endfor %}")
    counted = count(profile, [{"role": "user", "content": "aaaa"}, {"role": "assistant", "content": "b" * 40}])
    assert counted.total == len("[user] aaaa\n") + len("[assistant] \n") + 40
    assert [part.approximate for part in counted.messages] == [True, True]
    assert numbers(counted)[1] > 40
    assert not counted.template.approximate
    assert not counted.approximate


def test_marks_are_left_out_when_the_template_changes_them() -> None:
    upper = toy("{% for message in messages %}<turn>{{ message.content | length }}</turn>{% endfor %}")
    counted = count(upper, [{"role": "user", "content": "abc"}, {"role": "user", "content": "d" * 12}])
    assert counted.total == 3 + 4
    assert all(part.approximate for part in counted.messages)


def test_a_chat_that_holds_every_mark_is_counted_without() -> None:
    every = {"role": "user", "content": "".join(map(chr, range(0xE000, 0xF900))), "extra": 1}  # not plainly a turn
    counted = count(toy(), [every])
    assert counted.total == 1 + turn("user", " " * 6400) + 11
    assert counted.messages[0].approximate


def test_a_plain_chat_needs_no_second_render(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Marks, "avoiding", None)
    chat = [{"role": "user", "content": " a "}, {"role": "assistant", "content": "b"}, {"role": "user", "content": "c"}]
    assert not count(toy(), chat).approximate


def test_a_template_that_refuses_the_marked_chat_is_counted_without() -> None:
    picky = toy(
        "{% for message in messages %}{{ message.content }}"
        "{{ raise_exception('no') if message.content | length > 4 }}{% endfor %}"
    )
    counted = count(picky, [{"role": "user", "content": "abcd"}])
    assert counted.total == 4
    assert picky.last_failure is None


@pytest.mark.parametrize(
    "template",
    ["{{ raise_exception('roles must alternate') }}", "{{ messages[0].none.at_all }}", "{% broken", "", "{{ 1 // 0 }}"],
)
def test_a_refused_chat_is_counted_by_rules_and_says_so(template: str) -> None:
    profile = toy(template)
    counted = count(profile, [{"role": "user", "content": "Hello"}], tools=[TOOL])
    assert counted.template.approximate
    assert counted.messages[0].tokens == 3 + 1 + 5
    assert counted.tools.tokens > 50
    assert profile.last_failure is not None
    assert "template" in profile.last_failure


def test_the_failure_is_over_with_the_next_good_chat() -> None:
    profile = toy("{% if messages | length > 1 %}{{ raise_exception('one at a time') }}{% endif %}{{ messages[0].content }}")
    chat: Chat = [{"role": "user", "content": "Hi"}]
    assert count(profile, chat * 2).approximate
    assert profile.last_failure is not None
    assert "one at a time" in profile.last_failure
    assert count(profile, chat).total == 2
    assert profile.last_failure is None


def test_images_are_estimated_beside_the_text() -> None:
    parts = [{"type": "text", "text": "Hi"}, {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}]
    counted = count(toy(), [{"role": "user", "content": parts}])
    assert counted.messages[0].tokens > turn("user", "Hi") + 85
    assert counted.messages[0].approximate
    assert counted.approximate


@pytest.mark.parametrize("content", [5, {"a": 1}, [7, {"type": "riddle", "text": 3}], [["x"]], True])
def test_odd_contents_are_counted_as_text_and_marked(content: object) -> None:
    counted = count(toy(), [{"role": "user", "content": content}])
    assert counted.approximate
    assert counted.total > 12


NESTED = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["type", "text", "function", "name"]), inner),
    max_leaves=4,
)
ODD_MESSAGES = st.lists(
    st.dictionaries(st.sampled_from(["role", "content", "tool_calls", "name", "reasoning_content", "x"]), NESTED), max_size=3
)
ODD_REQUESTS = st.dictionaries(st.sampled_from(["tools", "tool_choice", "chat_template_kwargs", "documents"]), NESTED)


@pytest.mark.parametrize("dialect", ["transformers", "llama.cpp"])
def test_nothing_in_a_request_raises(dialect: str) -> None:
    profile = toy(dialect=dialect)

    @settings(deadline=None, max_examples=100)
    @given(ODD_MESSAGES, ODD_REQUESTS)
    def counted(messages: Chat, request: dict[str, Any]) -> None:
        found = asyncio.run(profile.count_prompt(messages, request))
        assert len(found.messages) == len(messages)
        assert min(part.tokens for part in (*found.messages, found.tools, found.template)) >= 0

    counted()


def test_nesting_beyond_the_recursion_limit_is_counted_by_rules() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    profile = toy()
    assert count(profile, [{"role": "user", "content": "Hi", "name": deep}]).total > 6
    assert profile.last_failure is not None


def test_lone_surrogates_are_counted_and_marked() -> None:
    counted = count(toy(), [{"role": "user", "content": "a\ud800b\udfff"}])
    assert numbers(counted) == [turn("user", "a?b?")]
    assert counted.approximate
    assert count(toy(""), [{"role": "user", "content": "\ud800"}]).messages[0].tokens == 5


def test_nothing_is_read_before_it_is_needed_and_then_once() -> None:
    read: list[int] = []

    def reading() -> TokenizerData:
        read.append(1)
        return TokenizerData(toy_tokenizer(*TURNS), TEMPLATE)

    profile = TemplateProfile("toy", reading, IMAGES)
    assert not profile.loaded
    assert not read
    count(profile, [])
    assert profile.loaded
    profile.load()
    assert read == [1]


def test_missing_data_is_told() -> None:
    def reading() -> TokenizerData:
        raise ProfileDataMissing("install it")

    profile = TemplateProfile("toy", reading, IMAGES)
    with pytest.raises(ProfileDataMissing, match="install it"):
        profile.load()
    with pytest.raises(ProfileDataMissing, match="install it"):
        count(profile, [])
    assert not profile.loaded


def test_the_first_count_and_every_long_one_leave_the_event_loop(monkeypatch: pytest.MonkeyPatch) -> None:
    threads: list[object] = []
    to_thread = asyncio.to_thread

    async def watched(function: Callable[..., Any], *given: Any) -> Any:
        threads.append(function)
        return await to_thread(function, *given)

    monkeypatch.setattr(asyncio, "to_thread", watched)
    profile = toy()
    for text, expected in (("Hi", 1), ("Hi", 1), ("a" * OFF_LOOP_CHARACTERS, 2)):
        count(profile, [{"role": "user", "content": text}])
        assert len(threads) == expected
