"""What fitting costs: 100, 1,000 and 10,000 messages, half of them to go, against the bare tokenizer over the same texts.

Cold counts every text, warm knows them all. CPU time, in turns, medians; only ratios are told.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import random
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tiktoken

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from gateway.shifting import shift_context
from tokenizer_profiles import ProfileRegistry

SIZES = (100, 1_000, 10_000)
WORDS = ("token", "window", "keeps", "oldest", "gateway", "reply", "seven", "rivers", "carry", "stone", "budget", "exactly")


def chat(size: int, seed: int) -> list[dict[str, Any]]:
    """So many messages of about 80 tokens, none like another."""
    chance = random.Random(seed)
    roles = ("user", "assistant")
    return [{"role": roles[i % 2], "content": " ".join(chance.choices(WORDS, k=75)) + f" {seed} {i}"} for i in range(size)]


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def bare_tokenizer() -> Callable[[str], object]:
    """tiktoken's own o200k, from the rank files that litellm ships."""
    package = importlib.util.find_spec("litellm")
    if package is None or package.origin is None:
        raise SystemExit("litellm is not installed; its rank files are needed")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(Path(package.origin).parent / "litellm_core_utils" / "tokenizers")
    return tiktoken.get_encoding("o200k_base").encode_ordinary


def round_of(size: int, seed: int, encode: Callable[[str], object]) -> tuple[float, float, float]:
    """CPU seconds of the bare tokenizer, of a cold shift and of a warm one."""
    profile: Any = ProfileRegistry.with_builtins().resolve("o200k_base")
    profile.load()
    messages = chat(size, seed)
    budget = size * 40
    bare = cpu(lambda: [encode(message["content"]) for message in messages])
    cold = cpu(lambda: shift_context(messages, profile, budget, 0.125))
    return bare, cold, cpu(lambda: shift_context(messages, profile, budget, 0.125))


def main() -> int:
    """Measures and prints the ratios."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    encode = bare_tokenizer()
    missed = 0
    for size in SIZES:
        rounds = [round_of(size, seed, encode) for seed in range(options.rounds)]
        cold = statistics.median(c / b for b, c, _ in rounds)
        warm = statistics.median(w / c for _, c, w in rounds)
        each = statistics.median(w for _, _, w in rounds) / size * 1e6
        missed += size == SIZES[-1] and (cold > 2 or warm > 0.2)
        print(f"{size} messages: cold {cold:.2f} times the tokenizer, warm {warm:.2f} of cold, warm {each:.1f} µs a message")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
