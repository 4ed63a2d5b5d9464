"""What fitting costs: 100, 1,000 and 10,000 messages, half of them to go, against langchain's trim_messages and litellm's.

Cold counts every text, warm knows them all. langchain runs warm: with the same counter as ours, with one cached by text, and with
known numbers, against which ours gets blocks with known numbers. CPU time, in turns, medians; the yardstick of cold is the bare
tokenizer over the same texts. Before that, random chats with tools are cut by all three, and every result is checked. `--check`
ends with 1 when one of ours is not valid or a floor is missed.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import os
import random
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import tiktoken

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from trimmers import (
    Chat,
    Langchain,
    chat_of,
    chat_with_tools,
    flaw,
    litellm,
    litellm_tokens,
    ours,
    ready_blocks,
    ready_count,
)

from gateway.shifting import shift_context
from tokenizer_profiles import AdditiveProfile, ProfileRegistry

SIZES = (100, 1_000, 10_000)
CUT_STEP = 0.125
MOST_OF_BARE, MOST_OF_COLD, MOST_GROWTH, LEAST_AGAINST_LANGCHAIN = 2.0, 0.2, 2.0, 5.0
Encode = Callable[[str], list[int]]


@dataclass(frozen=True)
class Cost:
    """CPU seconds: the bare tokenizer, ours cold, warm and with known numbers, langchain's with each of its counters."""

    bare: float
    cold: float
    warm: float
    known: float
    langchain_same: float
    langchain_by_text: float
    langchain_known: float


def cpu(work: Callable[[], object]) -> float:
    """CPU seconds of one call."""
    start = time.process_time()
    work()
    return time.process_time() - start


def bare_tokenizer() -> Encode:
    """tiktoken's own o200k, from the rank files that litellm ships."""
    package = importlib.util.find_spec("litellm")
    if package is None or package.origin is None:
        raise SystemExit("litellm is not installed; its rank files are needed")
    os.environ["TIKTOKEN_CACHE_DIR"] = str(Path(package.origin).parent / "litellm_core_utils" / "tokenizers")
    return tiktoken.get_encoding("o200k_base").encode_ordinary


def new_profile() -> AdditiveProfile:
    """A counter for gpt-4o that has seen nothing yet."""
    profile = ProfileRegistry.with_builtins().resolve("o200k_base")
    if not isinstance(profile, AdditiveProfile):
        raise SystemExit("o200k_base counts message by message")
    profile.load()
    return profile


def cost_of(size: int, seed: int, encode: Encode) -> Cost:
    """One chat of so many messages."""
    chat, budget, profile = chat_of(size, seed), size * 40, new_profile()
    trim, times = ours(profile, budget, CUT_STEP), max(1, 4_000 // size)
    settle()
    bare = cpu(lambda: [encode(message["content"]) for message in chat])
    cold = cpu(lambda: trim(chat))
    warm = repeated(lambda: trim(chat), times)
    blocks, peer = ready_blocks(chat, profile), Langchain(chat, profile)
    settle()
    others = (
        lambda: shift_context(blocks, ready_count, budget, CUT_STEP),
        lambda: peer.trim(budget, peer.same_counter),
        lambda: peer.trim(budget, peer.by_text),
        lambda: peer.trim(budget, peer.known),
    )
    return Cost(bare, cold, warm, *(repeated(work, times) for work in others))


def settle() -> None:
    """From here on no collection looks at what is there already, such as the modules of the peers."""
    gc.collect()
    gc.freeze()


def repeated(work: Callable[[], object], times: int) -> float:
    """CPU seconds of one call, of several after one that does not count."""
    work()
    return cpu(lambda: [work() for _ in range(times)]) / times


def speed(rounds: int, encode: Encode) -> int:
    """Prints the costs; the number of floors missed."""
    missed, each = 0, []
    for size in SIZES:
        costs = [cost_of(size, seed, encode) for seed in range(rounds)]
        cold = statistics.median(one.cold / one.bare for one in costs)
        warm = statistics.median(one.warm / one.cold for one in costs)
        same = statistics.median(one.langchain_same / one.warm for one in costs)
        by_text = statistics.median(one.langchain_by_text / one.warm for one in costs)
        known = statistics.median(one.langchain_known / one.known for one in costs)
        each.append(statistics.median(one.warm for one in costs) / size * 1e6)
        print(f"{size} messages: cold {cold:.2f} times the tokenizer, warm {warm:.3f} of cold, {each[-1]:.2f} µs a message")
        print(
            f"  langchain: the same counter {same:.1f} times ours, by text {by_text:.1f} times, numbers known {known:.1f} times"
        )
        missed += size == SIZES[-1] and (cold > MOST_OF_BARE) + (warm > MOST_OF_COLD)
        missed += size >= SIZES[1] and same < LEAST_AGAINST_LANGCHAIN
    growth = each[-1] / each[0]
    print(f"a message costs {growth:.2f} times as much among {SIZES[-1]} as among {SIZES[0]} (at most {MOST_GROWTH})")
    print(f"floors: cold {MOST_OF_BARE}, warm {MOST_OF_COLD}, langchain with the same counter {LEAST_AGAINST_LANGCHAIN}")
    return missed + (growth > MOST_GROWTH)


def litellm_speed(seconds: float) -> None:
    """litellm at growing sizes, as long as the next is likely to end within so many seconds: its work grows as the square."""
    litellm(400)(chat_of(10, 0))  # imports it
    for size in SIZES:
        chat, trim = chat_of(size, 0), ours(new_profile(), size * 40, CUT_STEP)
        warm = repeated(partial(trim, chat), 3)
        taken = cpu(partial(litellm(size * 40), chat))
        print(f"litellm, {size} messages: {taken:.2f} s, {taken / warm:,.0f} times our warm")
        if taken * 100 > seconds:
            print(f"  not run with more: ten times as many would take about {taken * 100:.0f} s")
            return


def validity(number: int) -> int:
    """Cuts random chats with tools by all three; the number of results of ours that are not valid."""
    chance, profile = random.Random(5), new_profile()
    flaws: dict[str, Counter[str]] = {"shift_context": Counter(), "langchain": Counter(), "litellm": Counter()}
    for _ in range(number):
        chat = chat_with_tools(chance)
        least = profile([chat[0], chat[-1]])
        budget = least + int((profile(chat) - least) * chance.random())
        results: dict[str, Chat] = {
            "shift_context": ours(profile, budget, CUT_STEP)(chat),
            "langchain": Langchain(chat, profile).kept(budget),
            "litellm": litellm(budget)(chat),
        }
        for name, kept in results.items():
            tokens = litellm_tokens(kept) if name == "litellm" else profile(kept)  # each by its own counter
            found = flaw(chat, kept, tokens, budget)
            if found:
                flaws[name][found] += 1
    for name, found_flaws in flaws.items():
        told = ", ".join(f"{count} {what}" for what, count in found_flaws.most_common())
        print(f"{name}: {number - found_flaws.total()} of {number} results valid{'; ' * bool(told)}{told}")
    return flaws["shift_context"].total()


def main() -> int:
    """Measures and prints everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chats", type=int, default=300)
    parser.add_argument("--litellm-seconds", type=float, default=20.0, help="run litellm only where it takes about that long")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    encode = bare_tokenizer()
    invalid = validity(options.chats)
    missed = speed(options.rounds, encode)
    litellm_speed(options.litellm_seconds)
    print(f"{invalid} results of ours are not valid, {missed} floors missed")
    return 1 if options.check and (invalid or missed) else 0


if __name__ == "__main__":
    raise SystemExit(main())
