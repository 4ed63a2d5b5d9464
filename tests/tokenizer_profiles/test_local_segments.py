from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

from tests.tokenizer_profiles.toy_tokenizer import TURNS, toy_tokenizer
from tokenizer_profiles.local_segments import LocalSegments
from tokenizer_profiles.text_memo import TextMemo

SEEN = "".join(TURNS)


def made(tokenizer: Tokenizer, seen: str = SEEN) -> LocalSegments:
    return LocalSegments(tokenizer, seen, TextMemo())


def whole(tokenizer: Tokenizer, text: str) -> int:
    return len(tokenizer.encode(text, add_special_tokens=False))


def metaspace(*, prepend: str) -> Tokenizer:
    """Words begin with a visible space, as sentencepiece has them; single characters are the rest."""
    vocabulary = {"?": 0, "▁": 1, **{text: number for number, text in enumerate("abcdefgh", 2)}}
    tokenizer = Tokenizer(models.BPE({**vocabulary, "▁a": 20, "▁b": 21}, [("▁", "a"), ("▁", "b")], unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=prepend)
    tokenizer.add_special_tokens([AddedToken(text, normalized=False) for text in TURNS])
    return tokenizer


def test_a_text_is_cut_at_the_tokens_that_were_seen() -> None:
    segments = made(toy_tokenizer(*TURNS, "<other>"))
    (measure,) = segments.measure("<s><turn>ab<other></turn>c")
    assert measure.ends == (0, 0, 3, 3, 9, 18, 25, 26)
    assert measure.sums == (0, 0, 1, 1, 2, 5, 6, 7)
    assert measure.special() == [(0, 3, 0), (3, 9, 1), (18, 25, 5)]


def test_each_text_is_tokenised_once() -> None:
    class Watched:
        def __init__(self) -> None:
            self.inner = toy_tokenizer(*TURNS)
            self.normalizer = None
            self.asked: list[list[str]] = []

        def get_added_tokens_decoder(self) -> object:
            return self.inner.get_added_tokens_decoder()

        def encode_batch_fast(self, texts: list[str], *, add_special_tokens: bool) -> object:
            self.asked.append(texts)
            return self.inner.encode_batch_fast(texts, add_special_tokens=add_special_tokens)

    watched = Watched()
    segments = made(watched)
    watched.asked.clear()
    first, second = segments.measure("<turn>one</turn>", "<turn>one</turn><turn>two</turn>")
    assert (first.total, second.total) == (5, 10)
    assert [sorted(text.rpartition(">")[2] for text in texts) for texts in watched.asked] == [["one", "two"]]
    segments.measure("<turn>two</turn>")
    assert watched.asked[1:] == [[]]


@pytest.mark.parametrize(
    "tokenizer",
    [
        toy_tokenizer(*(AddedToken(text, normalized=False, rstrip=True) for text in TURNS)),
        toy_tokenizer(*(AddedToken(text, normalized=False, lstrip=True) for text in TURNS)),
        toy_tokenizer(*(AddedToken(text, normalized=False, single_word=True) for text in TURNS)),
        toy_tokenizer(),
    ],
    ids=["takes spaces behind it", "takes spaces before it", "stands alone as a word", "plain text"],
)
def test_tokens_that_depend_on_what_is_around_them_cut_nothing(tokenizer: Tokenizer) -> None:
    segments = made(tokenizer)
    assert segments.special is None
    text = "<s><turn>a <turn> b</turn>  "
    assert segments.count(text) == whole(tokenizer, text)


def test_normalised_tokens_cut_only_where_nothing_is_normalised() -> None:
    tokenizer = toy_tokenizer(*(AddedToken(text, normalized=True) for text in TURNS))
    assert made(tokenizer).special is not None
    tokenizer.normalizer = normalizers.NFC()
    assert made(tokenizer).special is None
    assert made(tokenizer).count("<turn>\u0338") == whole(tokenizer, "<turn>\u0338")


def test_a_token_that_another_may_take_away_cuts_nothing() -> None:
    ends_as_they_begin = toy_tokenizer("<a>", "<c>", "x<")
    assert made(ends_as_they_begin, "<a><c>").special is None
    alone = made(toy_tokenizer("<a>", "<a>b", "<c>"), "<a><c>")
    assert alone.special is not None
    assert alone.special.pattern == "(<c>)"
    together = made(toy_tokenizer("<a>", "<a>b"), "<a>b")
    assert together.count("<a>b<a>c") == 3


def test_tokens_that_are_looked_for_later_must_not_overlap_at_all() -> None:
    later = AddedToken("<b>c", normalized=True)
    assert made(toy_tokenizer("<b>", later), "<b>c").special is None


@pytest.mark.parametrize("prepend", ["first", "always", "never"])
def test_what_a_tokenizer_puts_before_its_input_is_not_put_before_each_text(prepend: str) -> None:
    tokenizer = metaspace(prepend=prepend)
    segments = made(tokenizer)
    assert segments.special is not None
    for text in ("a b</turn>a<turn>b a", "<s>a", " a", "<turn> a"):
        assert segments.count(text) == whole(tokenizer, text)


def test_a_tokenizer_that_joins_over_a_boundary_is_found_out() -> None:
    class Joining:
        """Takes one token off where a digit follows a boundary."""

        normalizer = None

        def __init__(self) -> None:
            self.inner = toy_tokenizer(*TURNS)

        def get_added_tokens_decoder(self) -> object:
            return self.inner.get_added_tokens_decoder()

        def encode_batch_fast(self, texts: list[str], *, add_special_tokens: bool) -> list[list[int]]:
            found = self.inner.encode_batch_fast(texts, add_special_tokens=add_special_tokens)
            return [list(one.ids)[text.count("\n<") :] for one, text in zip(found, texts, strict=True)]

    assert made(Joining()).special is None


@settings(deadline=None, max_examples=100)
@given(st.lists(st.sampled_from([*TURNS, "<a>", "<a>b", "a", "b", " ", "\n", "<", "é"]), max_size=12).map("".join))
def test_the_parts_count_what_the_whole_counts(text: str) -> None:
    for tokenizer in (toy_tokenizer(*TURNS, "<a>", "<a>b"), metaspace(prepend="first")):
        assert made(tokenizer, SEEN + "<a>b").count(text) == whole(tokenizer, text)


@settings(deadline=None, max_examples=200)
@given(
    st.lists(st.sampled_from([*TURNS, "<a>", "<a>b", "a", "b", " a"]), max_size=14).map("".join),
    st.lists(st.integers(0, 40), max_size=4),
)
def test_a_growing_text_is_measured_as_if_it_were_new(text: str, steps: list[int]) -> None:
    for tokenizer in (toy_tokenizer(*TURNS, "<a>", "<a>b"), metaspace(prepend="first")):
        growing = made(tokenizer, SEEN + "<a>b")
        for step in steps:
            growing.measure(text[:step], text[step:])
        assert growing.measure(text) == made(tokenizer, SEEN + "<a>b").measure(text)


def test_only_the_end_of_a_growing_text_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    segments = made(toy_tokenizer(*TURNS))
    segments.measure("<turn>one</turn><turn>assistant")
    cut: list[str] = []
    monkeypatch.setattr(segments, "_cut", lambda text: cut.append(text) or [text])
    segments.measure("<turn>one</turn><turn>assistant more")
    assert cut == ["assistant more"]
