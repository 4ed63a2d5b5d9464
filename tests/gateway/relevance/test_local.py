"""Word vectors from an installed package; shared letters where it is missing."""

from __future__ import annotations

import asyncio
import logging
import sys
from pathlib import Path

import pytest

from gateway.relevance.base import Scores
from gateway.relevance.letters import letter_scores
from gateway.relevance.local import LocalRelevance, WordVectors
from tokenizer_profiles.errors import ProfileDataMissing

LORE = [
    "The harbour town lives from salt and fish.",
    "A winged fire-breathing beast sleeps under the peak and guards its gold.",
    "The king has two daughters and no sons.",
]


@pytest.fixture(scope="module")
def local() -> LocalRelevance:
    return LocalRelevance()


def scored(scorer: LocalRelevance, query: str, texts: list[str]) -> Scores:
    return asyncio.run(scorer.scores(query, texts))


@pytest.mark.parametrize(
    ("query", "nearest"),
    [
        ("a monster with wings", 1),
        ("Where can I buy something from the sea?", 0),
        ("Who inherits the throne?", 2),
    ],
)
def test_what_means_the_same_is_near_though_no_word_is_shared(local: LocalRelevance, query: str, nearest: int) -> None:
    found = scored(local, query, LORE)
    assert max(found.values) == found.values[nearest]
    assert all(0 <= value <= 1 for value in found.values)
    assert found.remarks == ()


def test_a_vector_is_the_mean_of_the_tokens_rows() -> None:
    water, fish, both, empty = WordVectors().vectors(["water", "fish", "water fish", ""])
    assert len(both) == 256
    assert both == pytest.approx([(one + other) / 2 for one, other in zip(water, fish, strict=True)])
    assert water != pytest.approx(fish, abs=0.01)
    assert empty == [0.0] * 256


def test_odd_texts_get_a_number(local: LocalRelevance) -> None:
    texts = ["", "\ud800", "\x00", "<s></s>", "x" * 100_000, "🐉" * 50]
    found = scored(local, "dragon", texts)
    assert found.values[0] == 0
    assert all(0 <= value <= 1 for value in found.values)
    assert scored(local, "", ["dragon"]).values == [0]
    assert scored(local, "dragon", []).values == []


def test_the_package_is_not_imported(local: LocalRelevance) -> None:
    before = list(logging.getLogger().handlers)
    scored(local, "dragon", LORE)
    assert "wordllama" not in sys.modules
    assert logging.getLogger().handlers == before


def test_without_the_package_letters_decide_and_a_remark_says_what_to_install(caplog: pytest.LogCaptureFixture) -> None:
    scorer = LocalRelevance("no_such_package")
    for _ in range(2):
        found = scored(scorer, "salt and fish", LORE)
        assert found.values == letter_scores("salt and fish", LORE)
        (told,) = found.remarks
        assert (told.stage, told.level, told.code) == ("recall", "warning", "recall-vectors-missing")
        assert "install sluicegate[recall]" in told.message
    assert len(caplog.records) == 1


def package(folder: Path, monkeypatch: pytest.MonkeyPatch, weights: bytes, tokenizer: bytes) -> str:
    for name, content in (
        ("weights/l2_supercat_256.safetensors", weights),
        ("tokenizers/l2_supercat_tokenizer_config.json", tokenizer),
    ):
        path = folder / "odd_words" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    monkeypatch.syspath_prepend(str(folder))
    return "odd_words"


def test_a_damaged_package_is_a_missing_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tokenizer = b'{"version":"1.0","added_tokens":[],"model":{"type":"WordLevel","vocab":{"a":0},"unk_token":"a"}}'
    name = package(tmp_path, monkeypatch, b"damaged", tokenizer)
    with pytest.raises(ProfileDataMissing, match="no word vectors that can be read"):
        WordVectors(name)
    (told,) = scored(LocalRelevance(name), "salt", LORE).remarks
    assert str(tmp_path) not in told.message


def test_without_the_reader_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "safetensors", None)
    with pytest.raises(ProfileDataMissing, match=r"install sluicegate\[recall\]"):
        WordVectors()
