from __future__ import annotations

import asyncio
import random
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from hashlib import sha1
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tokenizer_profiles.text_corpus import corpus
from tokenizer_profiles import ProfileDataMissing, ProfileRegistry
from tokenizer_profiles import tiktoken_bpe as module
from tokenizer_profiles.tiktoken_bpe import (
    CL100K_BASE,
    O200K_BASE,
    P50K_BASE,
    R50K_BASE,
    WHITESPACE_STEP,
    BytePairEncoding,
    BytePairTokenizer,
)

ENCODINGS = {"o200k_base": O200K_BASE, "cl100k_base": CL100K_BASE, "p50k_base": P50K_BASE, "r50k_base": R50K_BASE}
TOKENIZERS = {name: BytePairTokenizer(encoding) for name, encoding in ENCODINGS.items()}
PLAIN: dict[str, tiktoken.Encoding] = {}


def plain(name: str) -> tiktoken.Encoding:
    """tiktoken itself, with its own definition of the encoding and its special tokens."""
    if name not in PLAIN:
        with pytest.MonkeyPatch.context() as patch, TemporaryDirectory() as directory:
            patch.setenv("TIKTOKEN_CACHE_DIR", directory)
            address = f"https://openaipublic.blob.core.windows.net/encodings/{name}.tiktoken"
            cached = Path(directory, sha1(address.encode()).hexdigest())  # noqa: S324  (a name, not a secret)
            cached.write_bytes(module._rank_file(ENCODINGS[name]))
            PLAIN[name] = tiktoken.get_encoding(name)
    return PLAIN[name]


every = pytest.mark.parametrize("name", ENCODINGS)
every_pattern = pytest.mark.parametrize("name", ["o200k_base", "cl100k_base", "p50k_base"])  # r50k_base has that of p50k_base


@pytest.mark.parametrize(("name", "size"), [("r50k_base", 50_257), ("p50k_base", 50_281), ("cl100k_base", 100_277)])
def test_the_vocabulary_has_its_published_size(name: str, size: int) -> None:
    """tiktoken refuses rank files of another content, so that these are its own."""
    assert plain(name).n_vocab == size


@every
@settings(deadline=None, max_examples=60)
@given(text=st.text(max_size=300) | st.text("aB1 \n\t.<|>", max_size=200))
def test_text_counts_as_tiktoken_counts_it(name: str, text: str) -> None:
    assert TOKENIZERS[name].count(text) == len(plain(name).encode(text, disallowed_special=()))


@every
def test_text_of_special_tokens_is_plain_text(name: str) -> None:
    text = "<|endoftext|> <|im_start|>system <|endofprompt|>"
    assert TOKENIZERS[name].count(text) == len(plain(name).encode_ordinary(text)) > 10


@every
def test_texts_of_every_kind_count_as_tiktoken_counts_them(name: str) -> None:
    for kind, text in corpus().items():
        assert TOKENIZERS[name].count(text) == len(plain(name).encode_ordinary(text)), kind


@every
def test_a_lone_surrogate_does_not_raise(name: str) -> None:
    assert TOKENIZERS[name].count("cut \ud83d here") >= 3
    assert TOKENIZERS[name].count("\udc4d" * 1000) >= 1


@every_pattern
@pytest.mark.parametrize("text", [" ", "\t", "\n", "\u3000", "\u00a0", " \n", "\r\n"])
def test_a_run_of_a_million_spaces_is_counted(name: str, text: str) -> None:
    size = 1_000_000 // len(text)
    assert 0 < TOKENIZERS[name].count(f"before{text * size}after") <= 3 * len(text) * size


@every_pattern
def test_a_million_spaces_cost_what_the_longest_merges_make(name: str) -> None:
    tokens = TOKENIZERS[name].count(" " * 1_048_576)
    assert tokens == 2 * len(plain(name).encode_ordinary(" " * 524_288))


MADE = random.Random(3)  # noqa: S311  (samples, not secrets)
LONG = {
    "letter": "a" * 1_000_000,
    "letters": "".join(MADE.choices("abcdefghij", k=1_000_000)),
    "signs": "^" * 1_000_000,
    "chinese": "你好世界" * 250_000,
    "mixed whitespace": " \n\t\u3000\r\n" * 160_000,
    "zeros": "\0" * 1_000_000,
    "surrogates": "\ud83d" * 1_000_000,
    "special": "<|endoftext|>" * 77_000,
    "base64": "".join(MADE.choices("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", k=4_000_000)),
}


@pytest.mark.parametrize("kind", LONG)
def test_a_long_hostile_text_blocks_nobody(registry: ProfileRegistry, kind: str) -> None:
    profile = registry.resolve("o200k_base")
    profile.load()

    async def longest_wait() -> float:
        counting = asyncio.create_task(profile.count_prompt([{"role": "user", "content": LONG[kind]}], {}))
        longest, before = 0.0, time.perf_counter()
        while not counting.done():
            await asyncio.sleep(0.001)
            longest, before = max(longest, time.perf_counter() - before), time.perf_counter()
        assert (await counting).total > 10_000
        return longest

    start = time.perf_counter()
    waited = asyncio.run(longest_wait())
    assert waited < 0.25 + (time.perf_counter() - start) / 2


def test_runs_that_are_not_long_enough_to_be_split_cost_no_more_than_others() -> None:
    def seconds(size: int) -> float:
        text = (" " * size + "a") * (800_000 // size)
        start = time.process_time()
        assert list(module.split_whitespace(text)) == [text]
        return time.process_time() - start

    assert seconds(400_000) < 10 * seconds(100) + 0.2


@pytest.mark.parametrize("kind", ["letter", "letters", "signs", "mixed whitespace", "base64"])
def test_time_grows_in_line_with_the_text(kind: str) -> None:
    def seconds(size: int) -> float:
        start = time.process_time()
        TOKENIZERS["o200k_base"].count(f"{size}{LONG[kind][:size]}")  # another text each time: counts are remembered
        return time.process_time() - start

    assert seconds(1_000_000) < 3 * 4 * min(seconds(250_000), seconds(250_001)) + 0.05


@every
@settings(deadline=None, max_examples=10)
@given(
    pieces=st.lists(
        st.tuples(st.sampled_from(" \t\u3000\u00a0"), st.integers(1, 140_000), st.text("ab.!1\n\r", min_size=1, max_size=4)),
        max_size=2,
    ),
    start=st.text("ab.!1\n\r", max_size=4),
    at_end=st.booleans(),
)
def test_splitting_whitespace_keeps_the_count(name: str, pieces: list[tuple[str, int, str]], start: str, at_end: bool) -> None:
    text = (start + "".join(blank * size + after for blank, size, after in pieces))[: -1 if at_end else None]
    if ENCODINGS[name].blank != O200K_BASE.blank:
        text = re.sub(r"[\r\n]", "", text)  # part of the run there, and only runs of one character are exact
    encode = plain(name).encode_ordinary
    split = list(module.split_whitespace(text, WHITESPACE_STEP, ENCODINGS[name].blank))
    assert "".join(split) == text
    assert sum(len(encode(piece)) for piece in split) == len(encode(text))


@every
@pytest.mark.parametrize("rest", [1, 3, 17, 80, 127])
def test_a_short_rest_of_a_run_is_not_cut_off(name: str, rest: int) -> None:
    for blank in " \t\u00a0":
        text = f"a{blank * (2 * WHITESPACE_STEP + rest)}b"
        split = list(module.split_whitespace(text, WHITESPACE_STEP, ENCODINGS[name].blank))
        assert len(split) > 1
        assert sum(map(TOKENIZERS[name].count, split)) == len(plain(name).encode_ordinary(text))


def test_only_long_runs_are_split() -> None:
    assert list(module.split_whitespace("a" + " " * 1000 + "b")) == ["a" + " " * 1000 + "b"]


def test_concurrent_first_counts_read_the_vocabulary_once(monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    def build(encoding: BytePairEncoding) -> object:
        built.append(encoding.name)
        return list

    monkeypatch.setattr(module, "_build", build)
    tokenizer = BytePairTokenizer(O200K_BASE)
    assert not tokenizer.loaded
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(tokenizer.count, ["abc"] * 50)) == [3] * 50
    tokenizer.load()
    assert built == ["o200k_base"]
    assert tokenizer.loaded


def test_the_cache_directory_of_tiktoken_is_looked_into(monkeypatch: pytest.MonkeyPatch) -> None:
    directory = next(path.parent for path in module._places(CL100K_BASE) if path.is_file())
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(directory))
    tokenizer = BytePairTokenizer(CL100K_BASE)
    assert tokenizer.data_present
    assert tokenizer.count("hello world") == 2


def test_missing_data_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / O200K_BASE.file_name).write_bytes(b"not the ranks")
    monkeypatch.setattr(module, "find_spec", lambda name: None)
    monkeypatch.setenv("TIKTOKEN_CACHE_DIR", str(tmp_path))
    with pytest.raises(ProfileDataMissing, match=r"install sluicegate\[litellm\]"):  # a file with other content does not count
        BytePairTokenizer(O200K_BASE).load()
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    tokenizer = BytePairTokenizer(O200K_BASE)
    assert not tokenizer.data_present
    assert O200K_BASE.file_name in tokenizer.install
    with pytest.raises(ProfileDataMissing, match=r"o200k_base"):
        tokenizer.count("x")


def test_missing_tiktoken_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tiktoken", None)
    with pytest.raises(ProfileDataMissing, match="install tiktoken"):
        BytePairTokenizer(CL100K_BASE).load()


IMPORTS = """
import sys
from tokenizer_profiles import ProfileRegistry
profile = ProfileRegistry.with_builtins().resolve("auto", "gpt-4o")
assert not profile.loaded
assert "tiktoken" not in sys.modules
profile.load()
assert profile.loaded
assert not {"litellm", "requests", "httpx", "openai"} & set(sys.modules)
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(int(status["VmRSS"].split()[0]) // 1024)
"""


def test_resolving_loads_nothing_and_loading_stays_small() -> None:
    run = subprocess.run([sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=True)  # noqa: S603  (our own text)
    assert int(run.stdout) < 100


def test_the_shared_registry_has_its_data(registry: ProfileRegistry) -> None:
    present = {line.name: line.data_present for line in registry.describe()}
    assert present["o200k_base"]
    assert present["cl100k_base"]
