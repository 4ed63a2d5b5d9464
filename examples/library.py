"""The core without the gateway: a chat that outgrows its window, fitted turn by turn, and what that does to the prompt's start.

.venv/bin/python examples/library.py
.venv/bin/python examples/library.py --model qwen2.5-7b-instruct --budget 2000 --turns 200
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from typing import Any

from gateway.shifting import shift_context
from tokenizer_profiles import AdditiveProfile, Message, ProfileRegistry

SUBJECTS = ("sluices", "canals", "tides", "locks", "dykes", "mills")


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="gpt-4o", help="whose tokenizer counts (default gpt-4o)")
    parser.add_argument("--budget", type=int, default=400, help="tokens of a prompt (default 400)")
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--cut-step", type=float, default=0.25, help="share of the budget that leaves at once (default 0.25)")
    return parser.parse_args(arguments)


def growing_chat(turns: int) -> Iterator[list[dict[str, Any]]]:
    """The messages of each request of a chat, the first of them pinned by a mark of ours."""
    chat: list[dict[str, Any]] = [
        {"role": "system", "content": "You know everything about water."},
        {"role": "user", "content": "My name is Ada.", "meta": {"pinned": True}},
    ]
    for turn in range(turns):
        subject = SUBJECTS[turn % len(SUBJECTS)]
        chat.append({"role": "user", "content": f"Question {turn}: what should I know about {subject}?"})
        yield list(chat)
        chat.append({"role": "assistant", "content": f"Answer {turn}: {subject} keep water where people want it."})


def main(arguments: list[str]) -> int:
    """Fits every request and tells what left."""
    options = parse(arguments)
    profile = ProfileRegistry.with_builtins().resolve("auto", options.model)
    if not isinstance(profile, AdditiveProfile):
        print(f"{profile.name} counts whole prompts only; see docs/reference/counting.md", file=sys.stderr)
        return 1
    primer = profile([])  # belongs to no message: it comes off the budget, so that a message weighs what its leaving frees

    def count(messages: Sequence[Message]) -> int:
        return sum(profile.count_message(message).tokens for message in messages)

    left_out = 0
    for chat in growing_chat(options.turns):
        result = shift_context(chat, count, options.budget - primer, options.cut_step)
        tokens = result.prompt_tokens + primer
        if not result.fits:
            print(f"{tokens} tokens must stay and don't fit {options.budget}", file=sys.stderr)
            return 1
        moved = len(result.excluded) != left_out
        left_out = len(result.excluded)
        remark = f", {left_out} messages left out, the start has changed" if moved else ""
        print(f"{len(chat):>3} messages: {tokens} of {options.budget} tokens{remark}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
