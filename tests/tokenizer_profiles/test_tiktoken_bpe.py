from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import tiktoken
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer_profiles import ProfileDataMissing, ProfileRegistry
from tokenizer_profiles import tiktoken_bpe as module
from tokenizer_profiles.tiktoken_bpe import CL100K_BASE, O200K_BASE, WHITESPACE_STEP, BytePairEncoding, BytePairTokenizer

ENCODINGS = {"o200k_base": O200K_BASE, "cl100k_base": CL100K_BASE}
TOKENIZERS = {name: BytePairTokenizer(encoding) for name, encoding in ENCODINGS.items()}
PLAIN: dict[str, tiktoken.Encoding] = {}


def plain(name: str) -> tiktoken.Encoding:
    """tiktoken itself, with its own definition of the encoding and its special tokens."""
    if name not in PLAIN:
        directory = next(path.parent for path in module._places(ENCODINGS[name]) if path.is_file())
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("TIKTOKEN_CACHE_DIR", str(directory))
            PLAIN[name] = tiktoken.get_encoding(name)
    return PLAIN[name]


both = pytest.mark.parametrize("name", ENCODINGS)


@both
@settings(deadline=None, max_examples=150)
@given(text=st.text(max_size=300) | st.text("aB1 \n\t.<|>", max_size=200))
def test_text_counts_as_tiktoken_counts_it(name: str, text: str) -> None:
    assert TOKENIZERS[name].count(text) == len(plain(name).encode(text, disallowed_special=()))


@both
def test_text_of_special_tokens_is_plain_text(name: str) -> None:
    text = "<|endoftext|> <|im_start|>system <|endofprompt|>"
    assert TOKENIZERS[name].count(text) == len(plain(name).encode_ordinary(text)) > 10


@both
def test_a_lone_surrogate_does_not_raise(name: str) -> None:
    assert TOKENIZERS[name].count("cut \ud83d here") >= 3
    assert TOKENIZERS[name].count("\udc4d" * 1000) >= 1


@both
@pytest.mark.parametrize("text", [" ", "\t", "\n", "\u3000", "\u00a0", " \n", "\r\n"])
def test_a_run_of_a_million_spaces_is_counted(name: str, text: str) -> None:
    size = 1_100_000 // len(text)
    assert 0 < TOKENIZERS[name].count(f"before{text * size}after") <= 3 * len(text) * size


@both
def test_a_million_spaces_cost_what_the_longest_merges_make(name: str) -> None:
    tokens = TOKENIZERS[name].count(" " * 1_048_576)
    assert tokens == 2 * len(plain(name).encode_ordinary(" " * 524_288))


@pytest.mark.parametrize("letter", ["a", "^", "_", "你好世界"])
def test_a_run_of_a_million_letters_is_counted(letter: str) -> None:
    assert TOKENIZERS["o200k_base"].count(letter * (1_000_000 // len(letter))) > 10_000


@both
@settings(deadline=None, max_examples=25)
@given(
    pieces=st.lists(
        st.tuples(st.sampled_from(" \t\u3000\u00a0"), st.integers(1, 200_000), st.text("ab.!1\n\r", min_size=1, max_size=4)),
        max_size=2,
    ),
    start=st.text("ab.!1\n\r", max_size=4),
    at_end=st.booleans(),
)
def test_splitting_whitespace_keeps_the_count(name: str, pieces: list[tuple[str, int, str]], start: str, at_end: bool) -> None:
    text = (start + "".join(blank * size + after for blank, size, after in pieces))[: -1 if at_end else None]
    encode = plain(name).encode_ordinary
    split = list(module.split_whitespace(text, WHITESPACE_STEP))
    assert "".join(split) == text
    assert sum(len(encode(piece)) for piece in split) == len(encode(text))


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
    with pytest.raises(ProfileDataMissing, match="install litellm"):  # a file with other content does not count
        BytePairTokenizer(O200K_BASE).load()
    monkeypatch.delenv("TIKTOKEN_CACHE_DIR")
    tokenizer = BytePairTokenizer(O200K_BASE)
    assert not tokenizer.data_present
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
