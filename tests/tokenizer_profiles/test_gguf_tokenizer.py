from __future__ import annotations

import random
import sys
import unicodedata
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from sentencepiece import SentencePieceProcessor
from tokenizers import Tokenizer

from tests.tokenizer_profiles.llama_servers import RunningServer, running
from tests.tokenizer_profiles.tiny_gguf import (
    BYTE,
    CONTROL,
    NORMAL,
    UNKNOWN,
    UNUSED,
    USER_DEFINED,
    TinyModel,
    TinyVocabulary,
    write,
)
from tokenizer_profiles.errors import ProfileDataMissing
from tokenizer_profiles.gguf_metadata import read_metadata
from tokenizer_profiles.gguf_splits import SPLITTINGS
from tokenizer_profiles.gguf_tokenizer import adds_bos, build_tokenizer, special_token

PIECES = (
    *(
        "The quick ",
        " ",
        "  ",
        "\n\n",
        "\r\n",
        "\t",
        "naïve ",
        "世界",
        "カタ",
        "ひら",
        "한국",
        "🙂👍🏽",
        "def f(x):\n\t",
        "12345 3.14",
        "1234567",
    ),
    *(
        "Привет мир ",
        "'s",
        "'LL ",
        "'ve",
        " don't",
        "\u0301e",
        "!!",
        "$+<=>",
        "a1b2",
        "CamelCase",
        "ABC",
        "aBC",
        "ÀÉ",
        "ßΣς",
        "/",
        "//\n",
    ),
    *("\u00a0", "\u2028", "\u3000", "、。", "٣٤", "Ⅷ²", "ไทย", "हिन्दी", "^~`|", "_x", "#include\n", "\x85", "\x00", "«»", "ǅ"),
)
BLOCKS = ((0x20, 0x7F), (0x80, 0x250), (0x300, 0x530), (0x590, 0xE80), (0x1E00, 0x2700), (0x3000, 0x3100), (0x4E00, 0xA000))
SPECIAL = {"<|end|>": CONTROL, "<|im_start|>": NORMAL, "<tool>": USER_DEFINED, "<unk>": UNKNOWN, "<gone>": UNUSED}
END = "<|end|>"
MISTRAL_3 = "mistral_instruct_tokenizer_240323.model.v3"


def assigned(chance: random.Random) -> str:
    """A character that every version of Unicode in use knows."""
    while True:
        character = chr(chance.randrange(*chance.choice(BLOCKS)))
        if unicodedata.ucd_3_2_0.category(character) != "Cn":
            return character


def random_texts(count: int, seed: int) -> list[str]:
    chance = random.Random(seed)  # noqa: S311  (samples, not secrets)
    lengths = [chance.randrange(1, 25) for _ in range(count)]
    return ["".join(chance.choice(PIECES) if chance.random() < 0.7 else assigned(chance) for _ in range(n)) for n in lengths]


@pytest.fixture(scope="module")
def vocabulary() -> TinyVocabulary:
    return TinyVocabulary.learned_from(random_texts(2000, seed=1), SPECIAL)


@pytest.fixture(scope="module")
def files(vocabulary: TinyVocabulary, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A model file for each known rule, by name."""
    folder = tmp_path_factory.mktemp("models")
    return {name: write(folder / f"{name}.gguf", vocabulary, TinyModel(pre=name)) for name in SPLITTINGS}


@pytest.fixture(scope="module")
def servers(files: dict[str, Path]) -> Iterator[dict[str, RunningServer]]:
    with running(*({"model": str(path), "n_ctx": 256} for path in files.values())) as started:
        yield dict(zip(files, started, strict=True))


def tokenizer_of(path: Path) -> Tokenizer:
    tokenizer: Tokenizer = build_tokenizer(read_metadata(path))
    return tokenizer


def tokens(tokenizer: Tokenizer, text: str) -> list[int]:
    return list(tokenizer.encode(text, add_special_tokens=False).ids)


@pytest.mark.parametrize("name", SPLITTINGS)
def test_texts_are_split_as_the_server_splits_them(
    name: str, files: dict[str, Path], servers: dict[str, RunningServer], vocabulary: TinyVocabulary
) -> None:
    texts = random_texts(120, seed=2)
    tokenizer = tokenizer_of(files[name])
    there = servers[name].tokens(END.join(texts))
    here = tokens(tokenizer, END.join(texts))
    assert [vocabulary.tokens[token] for token in here] == [vocabulary.tokens[token] for token in there]


@pytest.mark.parametrize("name", SPLITTINGS)
def test_bos_is_added_where_the_server_adds_it(name: str, files: dict[str, Path], servers: dict[str, RunningServer]) -> None:
    added = servers[name].post("/tokenize", {"content": "x", "add_special": True})["tokens"]
    assert adds_bos(read_metadata(files[name])) == (len(added) == 2)


@pytest.mark.parametrize("token", [*SPECIAL, "<|endoftext|>"])
def test_the_text_of_a_special_token_is_parsed_as_the_server_parses_it(
    token: str, files: dict[str, Path], servers: dict[str, RunningServer]
) -> None:
    text = f"a{token}{token} b{token[:-1]}"
    assert tokens(tokenizer_of(files["smollm"]), text) == servers["smollm"].tokens(text)


def test_a_wrong_rule_would_be_seen(files: dict[str, Path]) -> None:
    names = {rule.expressions: name for name, rule in SPLITTINGS.items()}
    text = END.join(random_texts(120, seed=2))
    assert len({tuple(tokens(tokenizer_of(files[name]), text)) for name in names.values()}) == len(names)


# Vocabularies of pieces: those of Mistral, from sentencepiece's own files.


def pieces_of(name: str) -> TinyVocabulary:
    package = find_spec("mistral_common")
    assert package is not None
    assert package.origin is not None
    model = SentencePieceProcessor(model_file=str(Path(package.origin).parent / "data" / name))
    numbers = range(model.vocab_size())
    types = [
        UNKNOWN if model.is_unknown(n) else CONTROL if model.is_control(n) else BYTE if model.is_byte(n) else NORMAL
        for n in numbers
    ]
    return TinyVocabulary([model.id_to_piece(n) for n in numbers], types, scores=[model.get_score(n) for n in numbers])


@pytest.fixture(scope="module")
def piece_files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder, first, third = tmp_path_factory.mktemp("pieces"), pieces_of("tokenizer.model.v1"), pieces_of(MISTRAL_3)
    ids: dict[str, int | bool] = {"tokenizer.ggml.bos_token_id": 1, "tokenizer.ggml.eos_token_id": 2}
    types = [
        USER_DEFINED if token in ("\n\n", "<0x0A>", "the") else kind
        for token, kind in zip(third.tokens, third.types, strict=True)
    ]
    models = {
        "mistral-1": (first, TinyModel(model="llama", extra=ids)),
        "mistral-3": (third, TinyModel(model="llama", extra={**ids, "tokenizer.ggml.add_bos_token": False})),
        "no-prefix": (first, TinyModel(model="llama", extra={**ids, "tokenizer.ggml.add_space_prefix": False})),
        "user-defined": (replace(third, types=types), TinyModel(model="llama", extra=ids)),
    }
    return {name: write(folder / f"{name}.gguf", *made) for name, made in models.items()}


@pytest.fixture(scope="module")
def piece_servers(piece_files: dict[str, Path]) -> Iterator[dict[str, RunningServer]]:
    with running(*({"model": str(path), "n_ctx": 256} for path in piece_files.values())) as started:
        yield dict(zip(piece_files, started, strict=True))


@pytest.mark.parametrize("name", ["mistral-1", "mistral-3", "no-prefix", "user-defined"])
def test_pieces_are_merged_as_the_server_merges_them(
    name: str, piece_files: dict[str, Path], piece_servers: dict[str, RunningServer]
) -> None:
    awkward = [
        "",
        " ",
        " x",
        "  ",
        "a" * 60,
        " " * 37,
        "   x    y",
        "\n\n\n",
        "▁a ▁ b",
        "<0x0A>",
        "<0x",
        "[INST] hi [/INST]  x",
        "the  the",
    ]
    tokenizer = tokenizer_of(piece_files[name])
    text = "</s>".join([*awkward, *random_texts(400, seed=4)])
    assert tokens(tokenizer, text) == piece_servers[name].tokens(text)
    added = piece_servers[name].post("/tokenize", {"content": "x", "add_special": True})["tokens"]
    bos = adds_bos(read_metadata(piece_files[name]))
    assert [1] * bos + tokens(tokenizer, "x") == added


def test_pieces_without_scores_are_said() -> None:
    metadata = {"tokenizer.ggml.model": "llama", "tokenizer.ggml.tokens": ["a", "b"], "tokenizer.ggml.scores": [0.0]}
    with pytest.raises(ProfileDataMissing, match="2 pieces have 1 scores"):
        build_tokenizer(metadata)


@pytest.mark.parametrize("model", ["bert", "t5", "rwkv", None])
def test_other_kinds_of_vocabulary_are_not_guessed(model: str | None) -> None:
    with pytest.raises(ProfileDataMissing, match="use the profile remote or approximate"):
        build_tokenizer({"tokenizer.ggml.model": model, "tokenizer.ggml.pre": "smollm"})


@pytest.mark.parametrize("name", ["Phi-3 Mini 4k", "phi3"])
def test_tokens_that_swallow_spaces_are_not_guessed(name: str) -> None:
    with pytest.raises(ProfileDataMissing, match="swallow spaces"):
        build_tokenizer({"tokenizer.ggml.model": "llama", "general.name": name})


def test_an_unknown_rule_is_not_guessed() -> None:
    with pytest.raises(ProfileDataMissing, match="the pre-tokenizer 'gpt-7' is not known here"):
        build_tokenizer({"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-7"})


def test_a_file_without_a_rule_has_the_default_one(vocabulary: TinyVocabulary, files: dict[str, Path], tmp_path: Path) -> None:
    text = END.join(random_texts(100, seed=5))
    unnamed = write(tmp_path / "unnamed.gguf", vocabulary, TinyModel())
    assert tokens(tokenizer_of(unnamed), text) == tokens(tokenizer_of(files["default"]), text)


@pytest.mark.parametrize("merge", ["a b", "ab", "x z", "z x"])
def test_merges_of_unknown_tokens_are_said(merge: str) -> None:
    tokens = ["a", "b", "x", "xz", ""]
    metadata = {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.tokens": tokens, "tokenizer.ggml.merges": [merge]}
    with pytest.raises(ProfileDataMissing, match="does not hold the merge"):
        build_tokenizer(metadata)


@pytest.mark.parametrize(
    ("metadata", "bos", "eos"),
    [
        ({"tokenizer.ggml.model": "llama"}, "t1", "t2"),
        ({"tokenizer.ggml.model": "gpt2"}, "t11", "t11"),
        ({"tokenizer.ggml.bos_token_id": 5, "tokenizer.ggml.eos_token_id": 0}, "t5", "t0"),
        ({"tokenizer.ggml.bos_token_id": 12, "tokenizer.ggml.eos_token_id": 2**32 - 1}, "", ""),
    ],
)
def test_bos_and_eos_have_numbers_in_the_file_or_by_default(metadata: dict[str, Any], bos: str, eos: str) -> None:
    known = {**metadata, "tokenizer.ggml.tokens": [f"t{number}" for number in range(12)]}
    assert (special_token(known, "bos"), special_token(known, "eos")) == (bos, eos)


def test_the_package_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(ProfileDataMissing, match=r"install sluicegate\[gguf\]"):
        build_tokenizer({"tokenizer.ggml.model": "gpt2"})
