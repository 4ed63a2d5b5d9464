"""Every message is counted once for each profile, and a profile without its data is replaced by an estimate that says so."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from typing import Any

import pytest

from gateway.counting import OFF_LOOP_BYTES, PromptCounting, spread
from tests.support.rooms import run
from tests.support.small_chats import (
    PRIMER,
    NeighbourProfile,
    OneKind,
    WordProfile,
    chat_message,
    chat_request,
    model_config,
    profiles,
)
from tokenizer_profiles.base import PromptCount, TokenCount, TokenizerProfile
from tokenizer_profiles.builtin import APPROXIMATE
from tokenizer_profiles.errors import ProfileDataMissing
from tokenizer_profiles.kinds import ProfileKind, ProfileRequest
from tokenizer_profiles.registry import ProfileRegistry


class Watched(WordProfile):
    """Remembers what it counted, and in which thread."""

    def __init__(self) -> None:
        self.messages: list[Mapping[str, Any]] = []
        self.requests: list[Mapping[str, Any]] = []
        self.threads: set[int] = set()

    def count_message(self, message: Mapping[str, Any]) -> TokenCount:
        self.messages.append(message)
        self.threads.add(threading.get_ident())
        return super().count_message(message)

    def count_request(self, request: Mapping[str, Any]) -> PromptCount:
        self.requests.append(request)
        self.threads.add(threading.get_ident())
        return super().count_request(request)


class Unloaded(WordProfile):
    """A profile with something to load, once, or with nothing to load it from."""

    def __init__(self, *, missing: bool = False) -> None:
        self.loads = 0
        self._missing = missing

    @property
    def loaded(self) -> bool:
        return self.loads > 0 and not self._missing

    def load(self) -> None:
        self.loads += 1
        if self._missing:
            raise ProfileDataMissing("words", "the file of words")


def test_parts_of_an_additive_profile_are_added_up() -> None:
    request = chat_request(
        [{"role": "user", "content": "a b"}, {"role": "user", "content": "c"}],
        body={"tools": [{}, {}], "response_format": {"type": "json_object"}},
    )
    counted = run(PromptCounting(profiles(words=WordProfile()), {}).count(model_config(), "m", request, request.messages))
    assert (counted.profile, counted.estimated, counted.additive) == ("words", False, True)
    assert [part.tokens for part in counted.prompt.messages] == [4, 3]
    assert (counted.prompt.tools.tokens, counted.prompt.response_format.tokens, counted.prompt.template.tokens) == (20, 5, PRIMER)


def test_a_message_is_counted_once_for_each_model() -> None:
    profile = Watched()
    counting = PromptCounting(profiles(words=profile), {})
    first, second = chat_message({"role": "user", "content": "a"}), chat_message({"role": "user", "content": "b"})

    async def count() -> None:
        config = model_config()
        for messages in ([first], [first, second], [second]):
            await counting.count(config, "m", chat_request(messages), messages)
        assert [message["content"] for message in profile.messages] == ["a", "b"]
        await counting.count(config, "other", chat_request([first]), [first])

    run(count())
    assert [message["content"] for message in profile.messages] == ["a", "b", "a"]
    assert set(first.counts) == {"words m", "words other"}


def test_tools_and_formats_are_counted_once_and_nothing_else_of_the_request_is() -> None:
    profile = Watched()
    counting = PromptCounting(profiles(words=profile), {})

    async def count(**body: Any) -> int:
        request = chat_request([{"role": "user", "content": "a"}], body=body)
        return (await counting.count(model_config(), "m", request, request.messages)).prompt.total

    async def count_all() -> list[int]:
        tools = [{"name": "f"}]
        return [await count(), await count(temperature=1), await count(tools=tools), await count(tools=tools, user="x")]

    assert run(count_all()) == [6, 6, 16, 16]
    assert profile.requests == [{}, {"tools": [{"name": "f"}]}]


def test_values_that_are_alike_under_other_keys_are_not_confused() -> None:
    counting = PromptCounting(profiles(words=WordProfile()), {})

    async def count(**body: Any) -> int:
        request = chat_request([], body=body)
        return (await counting.count(model_config(), "m", request, [])).prompt.total

    async def count_all() -> list[int]:
        return [await count(tools=[1]), await count(functions=[1]), await count(response_format=[1])]

    assert run(count_all()) == [13, 3, 8]


@pytest.mark.parametrize(("size", "off_loop"), [(10, False), (OFF_LOOP_BYTES + 1, True)])
def test_much_new_text_is_counted_in_a_thread(size: int, off_loop: bool) -> None:
    for messages, body in ([{"role": "user", "content": "x" * size}], {}), ([], {"tools": ["x" * size]}):
        profile = Watched()
        request = chat_request(messages, body=body)
        large = run(PromptCounting(profiles(words=profile), {}).count(model_config(), "m", request, request.messages))
        assert large.prompt.total > 0
        assert (profile.threads - {threading.get_ident()} != set()) is off_loop


@pytest.mark.parametrize("number", ["1e400", "1" * 5000, "-0", "1E5"])
@pytest.mark.parametrize("additive", [True, False])
def test_any_number_may_stand_in_a_tool(number: str, additive: bool) -> None:
    registry = profiles(words=WordProfile() if additive else NeighbourProfile())
    request = chat_request([{"role": "user", "content": "a"}])
    odd = chat_request(request.messages, fields={**request.fields, "tools": f'[{{"maximum":{number}}}]'.encode()})
    assert run(PromptCounting(registry, {}).count(model_config(), "m", odd, odd.messages)).prompt.total > 0


def test_a_profile_that_does_not_add_up_counts_everything_anew() -> None:
    request = chat_request([{"role": "user", "content": "a"}, {"role": "user", "content": "b"}], body={"tools": []})
    counting = PromptCounting(profiles(words=NeighbourProfile()), {})
    counted = run(counting.count(model_config(), "m", request, request.messages))
    assert (counted.profile, counted.additive, counted.estimated) == ("neighbours", False, False)
    assert [part.tokens for part in counted.prompt.messages] == [3, 7]


def test_an_estimated_template_makes_the_text_of_such_a_profile_an_estimate() -> None:
    class Estimated(NeighbourProfile):
        async def count_prompt(self, messages: Any, request: Any) -> PromptCount:
            return PromptCount((), TokenCount(0), TokenCount(0), TokenCount(1, approximate=True))

    counted = run(PromptCounting(profiles(words=Estimated()), {}).count(model_config(), "m", chat_request([]), []))
    assert counted.estimated


def test_a_profile_is_made_once_for_each_model_and_provider_and_knows_its_server() -> None:
    kind = OneKind(WordProfile())

    async def ask(method: str, path: str, body: bytes) -> bytes:
        return b""

    counting = PromptCounting(ProfileRegistry({"words": kind}), {"up": ask})

    async def make() -> None:
        for model in ("m", "m", "n"):
            await counting.ready_profile(model_config(), model)
        await counting.ready_profile(model_config(provider="other"), "m")

    run(make())
    assert [(request.model, request.ask) for request in kind.asked] == [("m", ask), ("n", ask), ("m", None)]


def test_a_profile_is_loaded_before_it_counts() -> None:
    profile = Unloaded()
    counting = PromptCounting(profiles(words=profile), {})

    async def load() -> None:
        await asyncio.gather(*(counting.ready_profile(model_config(), "m") for _ in range(3)))
        loads = profile.loads
        await counting.ready_profile(model_config(), "m")
        assert profile.loads == loads

    run(load())


def test_a_profile_without_its_data_is_replaced_by_the_estimate_once(caplog: pytest.LogCaptureFixture) -> None:
    profile, estimate = Unloaded(missing=True), WordProfile()
    counting = PromptCounting(profiles(words=profile, **{APPROXIMATE: estimate}), {})

    async def load() -> None:
        for _ in range(2):
            assert await counting.ready_profile(model_config(), "m") is estimate

    run(load())
    assert profile.loads == 1
    assert [record.getMessage()[:41] for record in caplog.records] == [
        "models/m.toml is counted approximately: T"
    ] or caplog.records


def test_a_profile_with_a_path_is_found_beside_the_model_file_and_called_as_it_is_called_there() -> None:
    asked: list[str] = []

    class Folders(ProfileKind):
        takes_argument = True

        def make(self, request: ProfileRequest) -> TokenizerProfile:
            asked.append(request.argument)
            profile = WordProfile()
            profile.name = f"hf:{request.argument}"
            return profile

    counting = PromptCounting(ProfileRegistry({"hf": Folders()}), {})
    request = chat_request([{"role": "user", "content": "one"}])
    config = model_config(file="/etc/gate/models/m.toml", tokenizer="hf:tokenizers/mini")
    counted = run(counting.count(config, "m", request, request.messages))
    assert asked == ["/etc/gate/tokenizers/mini"]
    assert counted.profile == "hf:tokenizers/mini"


PAIR = ({"role": "user", "content": "a b"}, {"role": "user", "content": "c"})


def test_what_a_shape_joins_is_counted_once_for_all_requests() -> None:
    profile = Watched()
    counting = PromptCounting(profiles(words=profile), {})

    async def count() -> list[int]:
        config = model_config(message_shape="merge")
        requests = [chat_request(PAIR), chat_request([*PAIR, {"role": "assistant", "content": "d"}])]
        return [(await counting.count(config, "m", request, request.messages)).prompt.total for request in requests]

    assert run(count()) == [PRIMER + 5, PRIMER + 5 + 3]
    assert [message["content"] for message in profile.messages].count("a b\n\nc") == 1


def test_in_a_shape_parts_do_not_add_up_and_what_each_costs_alone_is_told() -> None:
    counting = PromptCounting(profiles(words=WordProfile()), {})
    request = chat_request([*PAIR, {"role": "assistant", "content": "d"}])
    config = model_config(message_shape="merge")
    joined = run(counting.count(config, "m", request, request.messages))
    assert (joined.additive, [part.tokens for part in joined.weights]) == (False, [4, 3, 3])
    assert joined.prompt.messages == (TokenCount(2, True), TokenCount(3, True), TokenCount(3))
    assert joined.sent is not None
    assert joined.sent.sources == [(0, 1), (2,)]
    plain = run(counting.count(config, "m", request, request.messages[1:]))
    assert (plain.additive, plain.sent, plain.weights) == (False, None, plain.prompt.messages)


def test_a_model_that_counts_whole_prompts_is_asked_once_and_shares_go_by_an_estimate() -> None:
    class Whole(NeighbourProfile):
        asked = 0

        async def count_prompt(self, messages: Any, request: Any) -> PromptCount:
            self.asked += 1
            return await super().count_prompt(messages, request)

    profile = Whole()
    counting = PromptCounting(profiles(words=profile, approximate=WordProfile()), {})
    request = chat_request([{"role": "assistant", "content": "d"}, *PAIR])
    counted = run(counting.count(model_config(message_shape="strict"), "m", request, request.messages))
    assert (profile.asked, counted.alone) == (1, None)
    assert [part.tokens for part in counted.weights] == [3, 2, 3]
    assert counted.prompt.template.tokens == PRIMER + 3  # with `(continued)`


def test_a_count_is_spread_by_weight_and_adds_up() -> None:
    parts = (TokenCount(10), TokenCount(3, True), TokenCount(4), TokenCount(1))
    prompt = PromptCount(parts, TokenCount(5), TokenCount(6), TokenCount(7))
    weights = [TokenCount(tokens) for tokens in (1, 1, 1, 9, 0, 0)]
    told = spread(prompt, [(0, 2, 1), (3,), (), (4, 5)], weights)
    assert told.messages == tuple(TokenCount(tokens, True) for tokens in (3, 4, 3, 3, 0, 1))
    assert (told.template, told.total, told.approximate) == (TokenCount(11), prompt.total, True)
    exact = spread(PromptCount(parts[:1], *parts[2:], TokenCount(0)), [(0, 1)], weights[:2])
    assert (exact.exact_total, exact.approximate) == (True, False)
