from __future__ import annotations

import base64
import json
import random
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tokenizer_profiles import AdditiveProfile, ProfileRegistry, heuristic
from tokenizer_profiles.heuristic import estimate_tokens

RANDOM = random.Random(7)  # noqa: S311  (samples, not secrets)
PROSE = (
    "The old lighthouse keeper climbed the stairs every evening, counting each step as he went. Outside, the sea was calm, and "
    "the gulls had fallen silent. He remembered how his father used to say that a storm always begins with a quiet that nobody "
    "notices. "
)
CHINESE = "昨天晚上我们沿着河边散步了很长时间，遇到了几个月没有见过的邻居。孩子们在院子里玩耍，太阳慢慢地落下地平线。"
RUSSIAN = (
    "Вчера вечером мы отправились на долгую прогулку вдоль реки, где встретили соседей, которых не видели несколько месяцев. "
)
CODE = Path(heuristic.__file__).read_text(encoding="utf-8")
SAMPLES = {
    "prose": PROSE * 4,
    "code": CODE,
    "json": json.dumps([{"id": n, "name": f"item {n}", "tags": ["a", "b"], "price": n / 7} for n in range(200)], indent=1),
    "compact json": json.dumps([{"id": n, "userName": f"item {n}", "ok": True} for n in range(200)], separators=(",", ":")),
    "base64": base64.b64encode(RANDOM.randbytes(30_000)).decode(),
    "base64 lines": base64.encodebytes(RANDOM.randbytes(30_000)).decode(),
    "hex": RANDOM.randbytes(10_000).hex(),
    "digits": "".join(RANDOM.choice("0123456789") for _ in range(20_000)),
    "numbers": " ".join(str(RANDOM.randrange(10**6)) for _ in range(3_000)),
    "newlines": "a\n" * 3_000 + "\n" * 3_000,
    "indented": "\n            x" * 1_000,
    "tabs": "\t" * 5_000,
    "chinese": CHINESE * 4,
    "japanese": "昨日の夜、私たちは川沿いを長い間散歩して、何ヶ月も会っていなかった隣人に会いました。カメラを持っていこう。" * 4,
    "korean": "어제 저녁에 우리는 강을 따라 오랫동안 산책을 하다가 몇 달 동안 보지 못했던 이웃들을 만났습니다. " * 4,
    "russian": RUSSIAN * 4,
    "german": "Die Donaudampfschifffahrtsgesellschaft hat angekündigt, dass die Fahrpläne im Frühjahr überarbeitet werden. " * 4,
    "polish": "Wczoraj wieczorem poszliśmy na długi spacer wzdłuż rzeki, gdzie spotkaliśmy sąsiadów. " * 4,
    "greek": "Χθες το βράδυ πήγαμε μια μεγάλη βόλτα κατά μήκος του ποταμού. " * 4,
    "hebrew": "אתמול בערב יצאנו לטיול ארוך לאורך הנהר, שם פגשנו שכנים. " * 4,
    "hindi": "कल शाम हम नदी के किनारे लंबी सैर पर गए, जहाँ हमें ऐसे पड़ोसी मिले। " * 4,
    "emoji": "😀😂🔥👍🎉❤️🚀✨🙏💯👩‍👩‍👧‍👦🇳🇴👍🏽" * 30,
    "capitals": PROSE.upper() * 3,
    "mixed": "".join(text[:200] for text in (PROSE, CODE, CHINESE, RUSSIAN)) * 3 + "😀 12345 " * 50,
}


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("encoding", ["o200k_base", "cl100k_base"])
def test_the_estimate_is_not_much_too_low(registry: ProfileRegistry, encoding: str, sample: str) -> None:
    profile = registry.resolve(encoding)
    assert isinstance(profile, AdditiveProfile)
    assert estimate_tokens(SAMPLES[sample]) >= 0.95 * profile.count_text(SAMPLES[sample])


def test_english_prose_is_not_much_too_high(registry: ProfileRegistry) -> None:
    profile = registry.resolve("o200k_base")
    assert isinstance(profile, AdditiveProfile)
    assert estimate_tokens(SAMPLES["prose"]) <= 1.6 * profile.count_text(SAMPLES["prose"])


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


def test_time_grows_in_line_with_the_text() -> None:
    def seconds(text: str) -> float:
        start = time.process_time()
        estimate_tokens(text)
        return time.process_time() - start

    for sample in ("a", " ", "a1B2", "中", "\n", "!"):
        small = min(seconds(sample * (100_000 // len(sample))) for _ in range(3))
        assert seconds(sample * (1_000_000 // len(sample))) < 40 * small + 0.05
