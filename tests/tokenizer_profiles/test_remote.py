from __future__ import annotations

import asyncio

import pytest

from tests.tokenizer_profiles.samples import Chat, count, remote_profile
from tests.tokenizer_profiles.toy_server import ToyCounter, ToyServer
from tokenizer_profiles import ProfileNeedsServer, ProfileRegistry, PromptCount, remote

HELLO: Chat = [{"role": "user", "content": "Hello"}]
SPEAKERS = [
    ("/tokenize", "count", "messages"),
    ("/v1/responses/input_tokens", "input_tokens", "input"),
    ("/v1/messages/count_tokens", "input_tokens", "messages"),
    ("/v1beta/models/m:countTokens", "totalTokens", "generateContentRequest"),
]


def test_there_is_nothing_to_load() -> None:
    profile = remote_profile(ToyServer(away=True))
    profile.load()
    assert profile.loaded
    asyncio.run(profile.aclose())


def test_a_server_that_is_away_is_replaced_by_an_estimate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "SEARCH_AGAIN_S", 0.0)
    toy = ToyServer(away=True)
    profile = remote_profile(toy)
    counted = count(profile, [{"role": "user", "content": "Hello world"}])
    estimate = ProfileRegistry.with_builtins().resolve("approximate", "m")
    assert counted == asyncio.run(estimate.count_prompt([{"role": "user", "content": "Hello world"}], {}))
    assert counted.template.approximate
    assert all(part.approximate for part in counted.messages)
    assert profile.last_failure is not None
    assert profile.last_failure.startswith("GET /props failed: ConnectionError; POST /tokenize failed: ConnectionError; ")
    toy.away = False
    assert not count(profile, [{"role": "user", "content": "Hello world"}]).approximate
    assert profile.last_failure is None


def test_an_address_where_nothing_counts_is_not_asked_with_every_prompt() -> None:
    toy = ToyServer(away=True)
    profile = remote_profile(toy)
    first = count(profile, HELLO)
    asked = len(toy.asked)
    assert count(profile, HELLO) == first
    assert len(toy.asked) == asked > 0
    assert profile.last_failure is not None


def test_concurrent_first_prompts_learn_once() -> None:
    toy = ToyServer()
    profile = remote_profile(toy)

    async def several() -> list[PromptCount]:
        return await asyncio.gather(*(profile.count_prompt([{"role": "user", "content": "Hi"}], {}) for _ in range(5)))

    assert len({counted.total for counted in asyncio.run(several())}) == 1
    assert toy.asked.count("/props") == 1


def test_it_wants_a_server() -> None:
    with pytest.raises(ProfileNeedsServer, match="vLLM"):
        ProfileRegistry.with_builtins().resolve("remote", "m")


@pytest.mark.parametrize(("path", "key", "holder"), SPEAKERS)
def test_what_the_server_is_is_found_by_asking_once(path: str, key: str, holder: str) -> None:
    toy = ToyCounter(path, key)
    profile = remote_profile(toy)
    counted = count(profile, HELLO)
    assert profile.last_failure is None
    assert counted.template.approximate == ("count_tokens" in path)
    assert len(toy.asked) == 6
    assert holder in toy.asked[-1][1]
    toy.asked.clear()
    assert count(profile, HELLO) == counted
    assert toy.asked == []
    count(profile, [*HELLO, *HELLO])
    assert [asked for asked, _ in toy.asked] == [path]


def test_the_first_questions_hold_nothing_of_the_chat() -> None:
    toy = ToyCounter("/nothing", "x")
    assert count(remote_profile(toy), [{"role": "user", "content": "a secret"}]).template.approximate
    assert len(toy.asked) == 5
    assert "secret" not in str(toy.asked)


def test_a_refused_chat_is_estimated_and_the_server_stays_known() -> None:
    toy = ToyCounter("/tokenize", "count", refuses="forbidden")
    profile = remote_profile(toy)
    assert not count(profile, HELLO).template.approximate
    assert count(profile, [{"role": "user", "content": "forbidden"}]).template.approximate
    assert profile.last_failure == "POST /tokenize failed: PermissionError"
    toy.asked.clear()
    assert not count(profile, HELLO).template.approximate
    assert [path for path, _ in toy.asked] == ["/tokenize", "/tokenize"]


def test_another_kind_of_server_at_the_same_address_is_found() -> None:
    toy = ToyCounter("/tokenize", "count")
    profile = remote_profile(toy)
    count(profile, HELLO)
    toy.away = True
    for _ in range(2):
        assert count(profile, [*HELLO, *HELLO]).template.approximate
    toy.away, toy.path, toy.key = False, "/v1/responses/input_tokens", "input_tokens"
    assert not count(profile, [*HELLO, *HELLO]).template.approximate


def test_llama_cpp_wins_where_several_answer() -> None:
    class Both(ToyServer):
        async def ask(self, method: str, path: str, body: bytes) -> bytes:
            if path.startswith("/v1"):
                return b'{"input_tokens": 99}'
            return await super().ask(method, path, body)

    assert count(remote_profile(Both()), HELLO).total == 1 + len("<user\nHello>") + 11


def test_a_cancelled_count_does_not_cancel_the_search_of_others() -> None:
    toy = ToyCounter("/tokenize", "count")
    profile = remote_profile(toy)

    async def both() -> PromptCount:
        first = asyncio.create_task(profile.count_prompt(HELLO, {}))
        second = asyncio.create_task(profile.count_prompt(HELLO, {}))
        await asyncio.sleep(0)
        first.cancel()
        return await second

    assert not asyncio.run(both()).template.approximate
    assert len(toy.asked) == 6
