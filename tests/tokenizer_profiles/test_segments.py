from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from tests.tokenizer_profiles.toy_server import ToyServer
from tokenizer_profiles import RemoteUnavailable
from tokenizer_profiles.llama_server import LlamaServer
from tokenizer_profiles.segments import Measure, SegmentCounter, Vocabulary, learn
from tokenizer_profiles.text_memo import TextMemo


def learned(toy: ToyServer) -> tuple[Vocabulary, SegmentCounter]:
    async def work() -> tuple[Vocabulary, SegmentCounter]:
        server = LlamaServer(toy.ask)
        vocabulary = await learn(server, await server.props())
        return vocabulary, SegmentCounter(server, vocabulary, TextMemo())

    return asyncio.run(work())


def test_special_tokens_bos_and_primer_are_found() -> None:
    vocabulary, _ = learned(ToyServer())
    assert vocabulary.special is not None
    assert vocabulary.special.split("<s>a<turn>b</turn>c<not-special>") == [
        "",
        "<s>",
        "a",
        "<turn>",
        "b",
        "</turn>",
        "c<not-special>",
    ]
    assert vocabulary.separator == 1
    assert vocabulary.added == 1
    assert vocabulary.primer == "<turn>assistant\n"


def test_a_server_without_bos_adds_nothing() -> None:
    assert learned(ToyServer(adds_bos=False))[0].added == 0


def test_a_prompt_is_measured_by_its_segments() -> None:
    _, counter = learned(ToyServer())
    (measure,) = asyncio.run(counter.measure("<turn>abc</turn><turn></turn>d"))
    assert measure.total == 1 + 3 + 1 + 1 + 1 + 1
    assert [measure.before(offset) for offset in (0, 6, 9, 16, 30)] == [0, 1, 4, 5, 8]


def test_only_new_texts_are_asked_and_all_at_once() -> None:
    toy = ToyServer()
    _, counter = learned(toy)
    toy.asked.clear()
    first, second = asyncio.run(counter.measure("<turn>abc</turn>", "<turn>abc</turn>de"))
    assert (first.total, second.total) == (5, 7)
    assert toy.asked == ["/tokenize"]
    asyncio.run(counter.measure("<turn>abc</turn>"))
    assert toy.asked == ["/tokenize"]


@pytest.mark.parametrize("toy", [ToyServer(merges_over_special=True), ToyServer(knows_special=False)])
def test_a_server_that_cannot_be_cut_is_asked_for_whole_prompts(toy: ToyServer) -> None:
    vocabulary, counter = learned(toy)
    assert vocabulary.special is None
    prompt = "<turn>user\n  abc</turn>"
    (measure,) = asyncio.run(counter.measure(prompt))
    assert measure.total == len(toy._tokens(prompt, parse_special=True))


def test_an_answer_that_lost_a_separator_is_not_trusted() -> None:
    toy = ToyServer()
    _, counter = learned(toy)
    toy.loses_ids = True
    with pytest.raises(RemoteUnavailable, match="apart"):
        asyncio.run(counter.measure("<turn>abc"))


def test_inside_a_segment_tokens_are_shared_by_characters() -> None:
    measure = Measure((0, 10, 20), (0, 5, 6))
    assert [measure.before(offset) for offset in (0, 4, 10, 19, 20, 99)] == [0, 2, 5, 5, 6, 6]
    assert Measure((0, 0), (0, 0)).before(0) == 0


def test_a_template_that_is_no_prefix_of_itself_has_no_primer() -> None:
    class Odd(ToyServer):
        def template(self, request: object) -> dict[str, str]:
            assert isinstance(request, dict)
            return {"prompt": "<turn>x" if request.get("add_generation_prompt", True) else "<turn>y"}

    vocabulary, _ = learned(Odd())
    assert replace(vocabulary, special=None).primer == ""


def test_special_tokens_stand_at_every_second_place() -> None:
    assert Measure((0, 2, 5, 9), (0, 2, 3, 7)).special() == [(2, 5, 2)]
    assert Measure((0, 0, 3, 3), (0, 0, 1, 1)).special() == [(0, 3, 0)]
    assert Measure((0, 7), (0, 4)).special() == []


def test_measures_of_texts_add_up() -> None:
    both = Measure((0, 2, 5), (0, 2, 3)).followed_by(Measure((0, 4, 9), (0, 1, 7)))
    assert both == Measure((0, 2, 5, 9, 14), (0, 2, 3, 4, 10))
    assert Measure((0,), (0,)).followed_by(both) == both
