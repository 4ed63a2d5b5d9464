from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from tests.tokenizer_profiles.toy_server import ToyCounter, letters
from tokenizer_profiles import Message, PromptCount, RemoteUnavailable, Request, TokenCount
from tokenizer_profiles.heuristic import ScriptEstimator
from tokenizer_profiles.images import TileRule
from tokenizer_profiles.message_counter import ChatRules
from tokenizer_profiles.openai_chat import OpenAIChatProfile
from tokenizer_profiles.remote_whole import PromptFormat, Question, WholeCounting, apportioned

Chat = list[dict[str, Any]]
CHAT: Chat = [{"role": "user", "content": "Hello there"}, {"role": "assistant", "content": "yes " * 40}]


def question(model: str, messages: Sequence[Message], request: Request) -> Question:
    texts = [str(message["content"]) for message in messages]
    rest = [{"content": request["extra"]}] if "extra" in request else []
    return Question("/count", {"m": model, "t": texts}, rest, exact="odd" not in request)


FORM = PromptFormat(question, "n")


def counting(toy: ToyCounter, form: PromptFormat = FORM) -> WholeCounting:
    return WholeCounting(toy.ask, form, "mm", OpenAIChatProfile("e", ScriptEstimator(), ChatRules(), TileRule(85, 170)))


def count(counter: WholeCounting, messages: Chat, **request: object) -> PromptCount:
    return asyncio.run(counter.count(messages, request))


def test_the_total_is_the_servers_and_exact_and_its_parts_are_estimates() -> None:
    counted = count(counting(ToyCounter("/count", "n")), CHAT)
    assert counted.total == 2 + letters(CHAT) - len("userassistant")
    assert not counted.template.approximate
    assert not counted.approximate
    assert all(part.approximate for part in counted.messages)
    assert counted.messages[1].tokens > 2 * counted.messages[0].tokens > 0


def test_the_same_prompt_is_asked_for_once_and_a_longer_one_once_more() -> None:
    toy = ToyCounter("/count", "n")
    counter = counting(toy)
    first = count(counter, CHAT)
    assert count(counter, [*CHAT]) == first
    assert len(toy.asked) == 1
    assert count(counter, [*CHAT, {"role": "user", "content": "more"}]).total == first.total + 4
    assert len(toy.asked) == 2


def test_a_probe_forgets_what_another_server_may_have_said() -> None:
    toy = ToyCounter("/count", "n")
    counter = counting(toy)
    count(counter, CHAT)
    asyncio.run(counter.probe())
    count(counter, CHAT)
    assert [len(body["t"]) for _, body in toy.asked] == [2, 1, 2]


def test_what_the_format_has_no_place_for_is_added_and_makes_an_estimate() -> None:
    plain = count(counting(ToyCounter("/count", "n")), CHAT)
    counted = count(counting(ToyCounter("/count", "n")), CHAT, extra="seven words that stand in no format")
    assert plain.total + 7 <= counted.total <= plain.total + 20
    assert counted.template.approximate


def test_what_is_not_quite_the_chat_is_an_estimate() -> None:
    assert count(counting(ToyCounter("/count", "n")), CHAT, odd=1).template.approximate
    assert count(counting(ToyCounter("/count", "n"), PromptFormat(question, "n", exact=False)), CHAT).template.approximate


def test_long_chats_are_written_off_the_loop() -> None:
    counted = count(counting(ToyCounter("/count", "n")), [{"role": "user", "content": "x" * 200_000}])
    assert counted.total == 200_002


@pytest.mark.parametrize("answer", [b'{"n": "5"}', b'{"n": true}', b'{"n": 0}', b'{"n": -3}', b"{}", b'{"n": 2.5}'])
def test_an_answer_without_a_number_is_a_failure(answer: bytes) -> None:
    async def ask(method: str, path: str, body: bytes) -> bytes:
        return answer

    counter = WholeCounting(ask, FORM, "mm", OpenAIChatProfile("e", ScriptEstimator(), ChatRules(), TileRule(85, 170)))
    with pytest.raises(RemoteUnavailable, match="without a number of tokens"):
        asyncio.run(counter.probe())
    with pytest.raises(RemoteUnavailable):
        count(counter, CHAT)


def test_shares_add_up_and_what_costs_nothing_is_not_approximate() -> None:
    estimate = PromptCount((TokenCount(5, True), TokenCount(9, True)), TokenCount(0), TokenCount(4, True), TokenCount(3, True))
    for total in range(1, 100):
        shares = apportioned(total, estimate, exact=True)
        assert shares.total == total
        assert shares.tools == TokenCount(0)
        assert not shares.template.approximate
        assert apportioned(total, estimate, exact=False).template.approximate
