from __future__ import annotations

import base64
import time
from collections.abc import Callable
from functools import cache
from importlib.util import find_spec
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer

from tests.tokenizer_profiles.offline_tokenizers import offline_folder
from tests.tokenizer_profiles.text_corpus import PROSE, corpus
from tokenizer_profiles.heuristic import estimate_tokens
from tokenizer_profiles.tiktoken_bpe import CL100K_BASE, O200K_BASE, BytePairTokenizer

Counters = Callable[[str], Callable[[str], int]]
ENCODINGS = {"o200k": O200K_BASE, "cl100k": CL100K_BASE}
CORPUS = corpus()
SAFETY_MARGIN = 0.05  # of the context limit, which a gateway keeps free by default when it counts like this
LLAMA_PATTERN = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def llama() -> Callable[[str], int]:
    spec = find_spec("llama_models")
    assert spec is not None
    assert spec.origin is not None
    lines = (Path(spec.origin).parent / "llama3" / "tokenizer.model").read_bytes().split(b"\n")
    ranks = {base64.b64decode(token): int(rank) for token, rank in (line.split() for line in lines if line)}
    encoding = tiktoken.Encoding("llama3", pat_str=LLAMA_PATTERN, mergeable_ranks=ranks, special_tokens={})
    return lambda text: len(encoding.encode_ordinary(text))


@pytest.fixture(scope="module")
def real_counter(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Callable[[str], int]]:
    """The counters of real tokenizers by name, each loaded once."""

    @cache
    def counter(name: str) -> Callable[[str], int]:
        if name in ENCODINGS:
            return BytePairTokenizer(ENCODINGS[name]).count
        if name == "llama3":
            return llama()
        tokenizer = Tokenizer.from_file(str(offline_folder(name, tmp_path_factory) / "tokenizer.json"))
        return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)

    return counter


@pytest.mark.parametrize("name", ["o200k", "cl100k", "llama3", "qwen-2.5", "deepseek-v3", "glm-4"])
def test_the_estimate_is_never_below_a_real_count_by_more_than_the_safety_margin(real_counter: Counters, name: str) -> None:
    ratios = {kind: estimate_tokens(text) / real_counter(name)(text) for kind, text in CORPUS.items()}
    assert {kind: ratio for kind, ratio in ratios.items() if ratio < 1 - SAFETY_MARGIN} == {}


@pytest.mark.parametrize("name", ["o200k", "cl100k", "llama3"])
def test_english_prose_is_not_much_too_high(real_counter: Counters, name: str) -> None:
    assert estimate_tokens(PROSE * 4) <= 1.3 * real_counter(name)(PROSE * 4)


@settings(deadline=None, max_examples=200)
@given(st.text(max_size=200))
def test_every_word_costs_a_token(text: str) -> None:
    assert estimate_tokens(text) >= len(text.split())


@settings(deadline=None, max_examples=100)
@given(st.text(st.characters(exclude_characters=" "), min_size=1, max_size=20))
def test_every_text_costs_something(text: str) -> None:
    assert estimate_tokens(text) >= 1


def test_nothing_costs_nothing() -> None:
    assert estimate_tokens("") == 0


@pytest.mark.parametrize("word", ["is.", "for(", "the ", "return;"])
def test_common_words_alone_are_not_too_cheap(real_counter: Counters, word: str) -> None:
    assert estimate_tokens(word * 300) >= 0.99 * real_counter("o200k")(word * 300)


@pytest.mark.parametrize("text", ["\0" * 999, "\ud83d" * 999, "\udc4d\ud83d" * 500, "<|im_start|><|endoftext|>" * 200])
def test_odd_characters_are_not_too_cheap(real_counter: Counters, text: str) -> None:
    assert estimate_tokens(text) >= real_counter("cl100k")(text)


@pytest.mark.parametrize("sample", ["a", " ", "a1B2", "中", "\n", "!", " \n\t", "\0", "\ud83d", "QUJD", "zaliwa "])
def test_time_grows_in_line_with_the_text(sample: str) -> None:
    def seconds(size: int) -> float:
        text = sample * (size // len(sample))
        start = time.process_time()
        estimate_tokens(text)
        return time.process_time() - start

    assert seconds(400_000) < 3 * 4 * min(seconds(100_000) for _ in range(2)) + 0.05
