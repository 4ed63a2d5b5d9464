"""Against a real model: a growing chat never overflows, and the gateway's count is the server's own, exactly.

The server is llama.cpp with SmolLM2 and a context of 512 tokens. The gateway asks it for everything: the limit, the template, the
tokens; or it counts by itself, with the vocabulary and the template in the model's file.
"""

from __future__ import annotations

import random
import socket
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from tests.house.tree import ROOT
from tests.scenarios.loopback.chats import message
from tests.scenarios.loopback.running_gateway import RunningGateway, write_config
from tests.tokenizer_profiles.smollm2_server import model_path

N_CTX = 512
MODEL = """\
model = "smollm2"
provider = "fake"
tokenizer = "{tokenizer}"
cut_step = 0.5
"""
SERVE = ROOT / "examples" / "local_model" / "serve.py"
REPLY_TOKENS = 8
TOPICS = ["the river", "a bridge of stone", "boats and their cargo", "mills along the water", "floods in spring"]
EDGES = ["", " ", "\n", "  \n\n", "\t"]
TEXTS = [
    "Name three rivers.",
    "Où coule la Loire ? Ça dépend…",
    "日本の川は短い。",
    "Реки текут к морю",
    "🌊🛶 e\u0301 ﬁ ½ \u200b",
    "def flow(x):\n    return x ** 2  # m³/s\n",
    '{"river": "Rhine", "km": 1233, "tags": []}',
    "<|im_end|>",
    "before <|im_end|>\n<|im_start|>system\nafter",
    "<|endoftext|> and <|im_start|>",
    "    indented\n\n\n\nlines   ",
    "0 1 22 333 4444 55555",
    "don't can't we'll",
    "x" * 60,
]


def free_port() -> int:
    """A loopback port that nobody uses at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def model_url() -> Iterator[str]:
    """The local model's address."""
    command = [sys.executable, str(SERVE), "--port", str(free_port()), "--n-ctx", str(N_CTX), "--end-with-stdin"]
    process = subprocess.Popen(  # noqa: S603  # our own script
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait(10)
        process.stdin.close()
        process.stdout.close()


@pytest.fixture(scope="module", params=["remote", "gguf"])
def before_model(
    model_url: str, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[RunningGateway]:
    """A gateway in front of the local model."""
    folder = tmp_path_factory.mktemp("local-model")
    tokenizer = "remote" if request.param == "remote" else f"gguf:{model_path()}"
    write_config(folder, model_url, models={"smollm2": MODEL.format(tokenizer=tokenizer)})
    with RunningGateway(folder) as running:
        running.http.timeout = 120
        yield running
    running.require_clean_log()


def test_the_limit_is_asked_from_the_server(before_model: RunningGateway) -> None:
    with before_model.openai() as client:
        assert client.models.retrieve("smollm2").to_dict()["context_length"] == N_CTX


def said(client: Any, messages: list[dict[str, Any]], chat_id: str, *, stream: bool) -> str:
    """The reply, plain or streamed. The gateway's headers and the server's usage agree."""
    options = {"stream": True, "stream_options": {"include_usage": True}} if stream else {}
    raw = client.chat.completions.with_raw_response.create(
        model="smollm2",
        messages=messages,
        max_tokens=REPLY_TOKENS,
        temperature=0,
        extra_body={"contextShift": {"chatId": chat_id}},
        **options,
    )
    told = int(raw.headers["x-context-prompt-tokens"])
    assert told + REPLY_TOKENS <= N_CTX
    if not stream:
        reply = raw.parse()
        assert reply.usage.prompt_tokens == told
        return str(reply.choices[0].message.content)
    with raw.parse() as chunks:
        seen = list(chunks)
    assert [chunk.usage.prompt_tokens for chunk in seen if chunk.usage] == [told]
    return "".join(chunk.choices[0].delta.content or "" for chunk in seen if chunk.choices)


def test_a_chat_of_three_times_the_context_never_overflows(before_model: RunningGateway, chat_id: str) -> None:
    messages: list[dict[str, Any]] = [{"role": "system", "content": "You answer in one short sentence."}]
    left_out, before, turn = [], 0, 0
    with before_model.openai(timeout=120) as client:
        while before <= 3 * N_CTX:
            turn += 1
            question = f"Turn {turn}: tell me about {TOPICS[turn % len(TOPICS)]}. " + "It is long ago, it is far away. " * 16
            messages.append({"role": "user", "content": question})
            reply = said(client, messages, chat_id, stream=bool(turn % 2))
            audit = before_model.audit(chat_id)
            assert audit is not None
            assert (audit["status"], audit["budget"]["contextLimit"]) == ("completed", N_CTX)
            assert audit["providerMessages"][0] == messages[0]
            assert audit["providerMessages"][-1] == messages[-1]
            before = audit["budget"]["promptTokensBefore"]
            left_out.append(len(messages) - len(audit["providerMessages"]))
            messages.append({"role": "assistant", "content": reply})
    assert left_out[0] == 0
    assert left_out == sorted(left_out)
    assert left_out[-1] > len(messages) / 2
    refused = before_model.post({"model": "smollm2", "messages": [message("user", 2 * N_CTX)]})
    assert refused.json()["error"]["code"] == "TOKEN_BUDGET_EXCEEDED"


def random_chat(chance: random.Random) -> list[dict[str, Any]]:
    """A short chat with what tends to be counted wrong."""

    def text() -> str:
        return chance.choice(EDGES) + " ".join(chance.choices(TEXTS, k=chance.randint(1, 2))) + chance.choice(EDGES)

    messages = [{"role": "system", "content": text()}] if chance.random() < 0.4 else []
    for _ in range(chance.randint(0, 2)):
        messages.append({"role": "user", "content": text()})
        messages.append({"role": "assistant", "content": "" if chance.random() < 0.3 else text()})
    messages.append({"role": "user", "content": text()})
    pinned = chance.randrange(len(messages))
    return [{**item, "meta": {"pinned": True}} if number == pinned else item for number, item in enumerate(messages)]


def test_the_count_is_the_servers_own_on_thirty_random_chats(before_model: RunningGateway) -> None:
    chance = random.Random(1130)  # noqa: S311  # the same chats every time
    wrong = []
    with before_model.openai(timeout=120) as client:
        for _ in range(30):
            messages = random_chat(chance)
            raw = client.chat.completions.with_raw_response.create(model="smollm2", messages=messages, max_tokens=1)
            usage = raw.parse().usage
            assert usage is not None
            told = (raw.headers["x-context-prompt-tokens"], raw.headers["x-context-approximate"])
            if told != (str(usage.prompt_tokens), "false"):
                wrong.append((told, usage.prompt_tokens, messages))
    assert wrong == []
