"""Which sentences are chosen from many texts: telling ones, new ones, none twice, never more than the room."""

from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from gateway.shifting.excerpts import Passage, beginnings, chosen_excerpts, excerpts_of, word_worths
from gateway.shifting.sentences import sentences_of


def told(texts: list[str], room: float, weights: list[float] | None = None) -> list[str]:
    passages = [Passage(text, 0.25, weight) for text, weight in zip(texts, weights or [1.0] * len(texts), strict=True)]
    excerpts = excerpts_of(passages, sentences_of)
    return [excerpts[i].text for i in chosen_excerpts(excerpts, word_worths(excerpts), room)]


def filler(size: int, seed: int = 1) -> list[str]:
    words = ["the", "and", "then", "we", "talk", "about", "it", "again", "more", "of", "that", "today"]
    pick = random.Random(seed)  # noqa: S311
    return [" ".join(pick.choices(words, k=9)).capitalize() + "." for _ in range(size)]


def test_facts_stay_and_filler_leaves() -> None:
    texts = filler(30)
    texts[20] += " Bertha keeps the key 4711 in Oslo."
    assert "Bertha keeps the key 4711 in Oslo." in told(texts, 30)


def test_of_equal_facts_the_newest_stay_in_their_order() -> None:
    texts = [f"Locker {i} has code {1000 + i}." for i in range(100)]
    found = told(texts, 50)
    assert found == texts[-len(found) :]
    assert len(found) >= 4


def test_an_old_text_that_tells_much_stays_beside_new_ones_that_tell_nothing() -> None:
    texts = ["Ship 17 left Bergen for Lisbon with 300 crates of cod.", *["Ok, fine."] * 30]
    assert texts[0] in told(texts, 30)


def test_the_same_sentence_is_told_once_and_the_newer_one_counts() -> None:
    excerpts = excerpts_of([Passage(text, 0.25) for text in ("Red fox.", "Blue hen.", "Red fox.")], sentences_of)
    chosen = [excerpts[i] for i in chosen_excerpts(excerpts, word_worths(excerpts), 100)]
    assert [(found.passage, found.text) for found in chosen] == [(1, "Blue hen."), (2, "Red fox.")]


def test_beginnings_are_cut_at_a_space_else_between_characters() -> None:
    family = "\U0001f469\u200d\U0001f469\u200d\U0001f467"
    excerpts = excerpts_of([Passage(text, 0.25) for text in ("word " * 99, "x" + family * 99, "short one")], sentences_of)
    words, families, short = beginnings(excerpts, 10)
    assert words.text == "word " * 8 + "…"
    assert words.words == ("word",)
    assert families.text.removeprefix("x").removesuffix(" …") == family * 7
    assert short is excerpts[2]
    assert all(excerpt.cost <= 10 for excerpt in (words, families, short))
    assert beginnings(excerpts, 0) == []


def test_passages_of_less_weight_come_after_others() -> None:
    texts = ["Alpha beta gamma delta.", "Kappa lambda sigma omega."]
    assert told(texts, 8, [1.0, 0.1]) == texts[:1]
    assert told(texts, 8, [0.1, 1.0]) == texts[1:]


def test_all_passages_have_a_say_before_one_has_two() -> None:
    talkative = " ".join(f"{letter}aa {letter}bb {letter}cc." for letter in "QRSTUVWXYZ")
    found = told([talkative, "Sole fact here.", talkative.replace("bb", "dd")], 24)
    assert "Sole fact here." in found


def test_a_sentence_without_words_tells_nothing() -> None:
    assert told(["?! … \U0001f600. --", "..."], 100) == []
    assert told([], 100) == []


def test_scripts_without_spaces_are_told_too() -> None:
    assert told(["我们谈论天气。钥匙在北京。", "我们谈论天气。"], 100) != []
    assert told(["我们谈论天气。", "钥匙在北京的柜子里。", "我们谈论天气吗。"], 4) == ["钥匙在北京的柜子里。"]


def test_of_a_very_long_text_the_start_and_the_end_are_read() -> None:
    text = "First fact. " + "Word " * 20_000 + ". Last fact."
    assert told([text], 1000) == ["First fact.", "Last fact."]


def test_of_very_many_long_texts_the_start_and_the_end_of_each_are_read() -> None:
    read: list[str] = []

    def split(text: str) -> list[str]:
        read.append(text)
        return sentences_of(text)

    texts = [f"First {i}. " + "Word " * 2000 + f". Last {i}." for i in range(3000)]
    found = {excerpt.text for excerpt in excerpts_of([Passage(text, 0.25) for text in texts], split)}
    assert found >= {f"{end} {i}." for i in range(3000) for end in ("First", "Last")}
    assert sum(map(len, read)) <= 3000 * 1024


@given(st.lists(st.text(st.sampled_from("ab1 .好。\n")), max_size=6), st.floats(-5, 40))
def test_never_more_than_the_room_and_the_same_each_time(texts: list[str], room: float) -> None:
    excerpts = excerpts_of([Passage(text, 0.5) for text in texts], sentences_of)
    chosen = chosen_excerpts(excerpts, word_worths(excerpts), room)
    assert sum(excerpts[i].cost for i in chosen) <= max(room, 0)
    assert chosen == sorted(set(chosen))
    assert chosen == chosen_excerpts(excerpts, word_worths(excerpts), room)
