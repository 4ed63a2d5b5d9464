"""llama.cpp's counting endpoints over a given `ask`. Knows their JSON and nothing of chats, caches or the gateway."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tokenizer_profiles.errors import RemoteUnavailable
from tokenizer_profiles.kinds import Ask
from tokenizer_profiles.remote_base import answer_of, encoded


class LlamaServer:
    """Speaks to one server; every failure is a RemoteUnavailable."""

    def __init__(self, ask: Ask) -> None:
        self._ask = ask

    async def props(self) -> Mapping[str, Any]:
        """GET /props: `chat_template`, `bos_token`, `eos_token` and more."""
        return await answer_of(self._ask, "GET", "/props")

    async def render(self, body: Mapping[str, Any]) -> str:
        """POST /apply-template: the prompt that the chat endpoint would make of this body."""
        answer = await answer_of(self._ask, "POST", "/apply-template", encoded(body))
        prompt = answer.get("prompt")
        if not isinstance(prompt, str):
            raise RemoteUnavailable("/apply-template answered without a prompt")
        return prompt

    async def tokenize(
        self, content: str | Sequence[str | int], *, add_special: bool = False, parse_special: bool = True
    ) -> list[int]:
        """POST /tokenize: token ids of a text, or of texts and ids one behind the other."""
        body = {"content": content, "add_special": add_special, "parse_special": parse_special}
        tokens = (await answer_of(self._ask, "POST", "/tokenize", encoded(body))).get("tokens")
        if not isinstance(tokens, list) or not all(type(token) is int for token in tokens):
            raise RemoteUnavailable("/tokenize answered without a list of token ids")
        return tokens
