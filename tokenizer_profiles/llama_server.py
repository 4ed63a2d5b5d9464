"""llama.cpp's counting endpoints over a given `ask`. Knows their JSON and nothing of chats, caches or the gateway."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tokenizer_profiles.errors import RemoteUnavailable
from tokenizer_profiles.kinds import Ask


class LlamaServer:
    """Speaks to one server; every failure is a RemoteUnavailable."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def props(self) -> Mapping[str, Any]:
        """GET /props: `chat_template`, `bos_token`, `eos_token` and more."""
        return await self._call("GET", "/props", b"")

    async def render(self, body: Mapping[str, Any]) -> str:
        """POST /apply-template: the prompt that the chat endpoint would make of this body."""
        answer = await self._call("POST", "/apply-template", _encoded(body))
        prompt = answer.get("prompt")
        if not isinstance(prompt, str):
            raise RemoteUnavailable("/apply-template answered without a prompt")
        return prompt

    async def tokenize(
        self, content: str | Sequence[str | int], *, add_special: bool = False, parse_special: bool = True
    ) -> list[int]:
        """POST /tokenize: token ids of a text, or of texts and ids one behind the other."""
        body = {"content": content, "add_special": add_special, "parse_special": parse_special}
        tokens = (await self._call("POST", "/tokenize", _encoded(body))).get("tokens")
        if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
            raise RemoteUnavailable("/tokenize answered without a list of token ids")
        return tokens

    async def _call(self, method: str, path: str, body: bytes) -> Mapping[str, Any]:
        try:
            answer = json.loads(await self._ask(method, path, body))
        except Exception as error:  # `ask` is the caller's: whatever it raises, the server has not answered
            raise RemoteUnavailable(f"{method} {path} failed: {type(error).__name__}") from error
        if not isinstance(answer, dict):
            raise RemoteUnavailable(f"{method} {path} answered something else than an object")
        return answer


def _encoded(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, ensure_ascii=False, default=dict).encode("utf-8", "surrogatepass")
