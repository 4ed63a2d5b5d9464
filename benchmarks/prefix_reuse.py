"""How much of a prompt the provider has seen already: a chat that grows to three times its window, fitted turn by turn.

Provider prompt caches and KV caches serve the start that a prompt shares with the one before. Measured once the chat is over
budget: the share of prompt tokens in that start, and how full the budget is; of shift_context with two sizes of step, as the
gateway calls it and with plain messages and a counter, of langchain's trim_messages and of litellm's. Then llama.cpp says of a
smaller chat how many tokens it really took from its cache. `--check` ends with 1 when a floor is missed.

A counter that adds something to every list, such as the reply's primer, makes groups look heavier than they are: cuts come out
too small and are mended turn by turn. It is shown beside the advised way and has no floor.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from counters import llama_server
from shifting import Encode, bare_tokenizer, new_profile
from trimmers import Chat, Langchain, Trim, gateway, litellm, ours, plain_sum, text

from tokenizer_profiles import AdditiveProfile

BUDGET, GROWTH = 8_000, 3
SLOW_REQUESTS = 30  # of litellm, the last ones
SERVED_BUDGET, SERVED_REQUESTS = 400, 16
LEAST_REUSE = {0.125: 0.80, 0.25: 0.88}
LEAST_FILL = 0.90  # of the default step
DEFAULT_STEP = 0.125
Ask = Callable[[str, str, bytes], bytes]


def growing(budget: int, words: int, profile: AdditiveProfile, seed: int) -> Iterator[Chat]:
    """The requests of a chat with messages of about so many words, each a turn longer, up to GROWTH times the budget."""
    chance = random.Random(seed)
    chat: Chat = [{"role": "system", "content": text(chance, words)}]
    while profile(chat) < GROWTH * budget:
        chat.append({"role": "user", "content": text(chance, words)})
        yield list(chat)
        chat.append({"role": "assistant", "content": text(chance, words)})


@dataclass
class Reuse:
    """What one way of fitting came to over all requests beyond the budget. Tokens."""

    requests: int = 0
    sent: int = 0
    shared: int = 0
    fills: list[float] = field(default_factory=list)

    @property
    def share(self) -> float:
        """The share of tokens that stood at the start of the prompt before."""
        return self.shared / self.sent

    @property
    def fill(self) -> float:
        """How full the budget was, on average."""
        return sum(self.fills) / len(self.fills)


def rendered(chat: Chat, encode: Encode) -> list[int]:
    """The tokens of a prompt in order, whatever stands around the messages taken as one token a message."""
    return [token for message in chat for token in (-1, *encode(message["role"]), *encode(message["content"]))]


def common_start(first: list[int], second: list[int]) -> int:
    """How many tokens two prompts begin with alike."""
    for place, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return place
    return min(len(first), len(second))


def measure(requests: list[Chat], trim: Trim, profile: AdditiveProfile, encode: Encode) -> Reuse:
    """Every prompt against the one before it."""
    found, before = Reuse(), list[int]()
    for chat in requests:
        kept = trim(chat)
        tokens = rendered(kept, encode)
        if profile(chat) > BUDGET:
            found.requests += 1
            found.sent += len(tokens)
            found.shared += common_start(before, tokens)
            found.fills.append(profile(kept) / BUDGET)
        before = tokens
    return found


def trims(budget: int, profile: AdditiveProfile) -> dict[str, Trim]:
    """The ways of fitting, by name."""
    return {
        **{f"gateway, cut_step {step}": gateway(profile, budget, step) for step in LEAST_REUSE},
        **{f"library, cut_step {step}": plain_sum(profile, budget, step) for step in LEAST_REUSE},
        **{f"library, a primer in every weight, cut_step {step}": ours(profile, budget, step) for step in LEAST_REUSE},
        "langchain": lambda chat: Langchain(chat, profile).kept(budget),
        "litellm": litellm(budget),
    }


def compare(profile: AdditiveProfile, encode: Encode) -> int:
    """Prints the shares; the number of floors missed."""
    requests = list(growing(BUDGET, 75, profile, 3))
    print(f"{len(requests)} requests of a chat that grows to {GROWTH} times its {BUDGET} tokens; once it is over:")
    found = {}
    for name, trim in trims(BUDGET, profile).items():
        found[name] = reuse = measure(requests[-SLOW_REQUESTS:] if name == "litellm" else requests, trim, profile, encode)
        print(f"  {name}: {reuse.share:.1%} of {reuse.sent} tokens in {reuse.requests} prompts stood there before, ", end="")
        print(f"{reuse.fill:.1%} of the budget in use")
    floors = ", ".join(f"{least:.0%} with {step}" for step, least in LEAST_REUSE.items())
    print(f"  floors: {floors}, and {LEAST_FILL:.0%} of the budget in use with {DEFAULT_STEP}")
    missed = 0
    for way in ("gateway", "library"):
        missed += sum(found[f"{way}, cut_step {step}"].share < least for step, least in LEAST_REUSE.items())
        missed += found[f"{way}, cut_step {DEFAULT_STEP}"].fill < LEAST_FILL
    return missed


def served(profile: AdditiveProfile, encode: Encode, seconds: float) -> None:
    """llama.cpp's own cached tokens against those expected; each way of fitting on a new server, for at most so long."""
    requests = [chat for chat in growing(SERVED_BUDGET, 3, profile, 4) if profile(chat) > SERVED_BUDGET][: SERVED_REQUESTS + 1]
    print(f"llama.cpp with SmolLM2, the first requests of a chat beyond {SERVED_BUDGET} tokens:")
    for name, trim in trims(SERVED_BUDGET, profile).items():
        if name.startswith("library"):  # the same cuts as the gateway's, or the bad example
            continue
        with llama_server() as ask:
            print(f"  {name}: {asked(ask, requests, trim, encode, seconds)}")


def asked(ask: Ask, requests: list[Chat], trim: Trim, encode: Encode, seconds: float) -> str:
    """What the server says of one way of fitting."""
    end, before = time.monotonic() + seconds, list[int]()
    counted, sent, cached, expected, prompt_ms = 0, 0, 0, 0.0, 0.0
    for number, chat in enumerate(requests):
        kept = trim(chat)
        tokens = rendered(kept, encode)
        body = {"messages": kept, "max_tokens": 1, "temperature": 0, "cache_prompt": True}
        answer = json.loads(ask("POST", "/v1/chat/completions", json.dumps(body).encode()))
        if number:  # the first has nothing before it
            size = answer["usage"]["prompt_tokens"]
            counted, sent = counted + 1, sent + size
            cached += answer["usage"]["prompt_tokens_details"]["cached_tokens"]
            expected += common_start(before, tokens) / len(tokens) * size
            prompt_ms += answer["timings"]["prompt_ms"]
        before = tokens
        if number and time.monotonic() > end:
            break
    shares = f"{cached / sent:.1%} from its cache, {expected / sent:.1%} expected"
    return f"{shares}, {prompt_ms / counted:.0f} ms a prompt ({counted} requests)"


def main() -> int:
    """Measures and prints everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--server-seconds", type=float, default=15.0, help="for each way of fitting; 0 leaves llama.cpp out")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    encode, profile = cache(bare_tokenizer()), new_profile()
    missed = compare(profile, encode)
    if options.server_seconds > 0:
        served(profile, encode, options.server_seconds)
    print(f"{missed} floors missed")
    return 1 if options.check and missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
