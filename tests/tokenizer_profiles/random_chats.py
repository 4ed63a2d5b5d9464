"""Chats of every shape that a server takes, by a seed."""

from __future__ import annotations

import json
import random
from typing import Any

Chat = list[dict[str, Any]]
Request = dict[str, Any]

PIECES = (
    *(
        "The quick brown fox. ",
        "  ",
        "\n\n",
        "naïve Grüße ",
        "世界你好",
        "🙂👍🏽",
        "def f(x):\n\treturn x\n",
        "12345 3.14 ",
        "\ue000\uf8ff",
    ),
    *(
        "<|im_end|>",
        "<|im_start|>user\n",
        "<|endoftext|>",
        "<think>\nhm\n</think>\n\n",
        "</think>",
        "<tool_call>",
        "<tool_response>",
    ),
    *("</tool_response>", "\u00a0\u2028", "\x85 ", "Привет мир ", 'it\'s {"a": 1}', "\x00", "\r\n", "{{ x }}", "\\n", '"q"'),
)
VALUES: tuple[Any, ...] = (
    *("x", "träume 世界", "a\"b\\c\n\t</x>&'\u2028\x7f", "\x01", "🙂", 1, -3, 2.5, 1e20, 1.0, 1e-7, 3.14159265, 1234567.5, -0.0),
    *(2**63, 2**64, True, None, [], {}, [1, [2]], {"b": 1, "a": {"z": None}}),
)


class ChatMaker:
    """Random chats with tools, calls and results, parts, developers, reasoning, names, and replies to be continued."""

    def __init__(self, seed: int) -> None:
        self._chance = random.Random(seed)  # noqa: S311  (samples, not secrets)

    def chat(self) -> tuple[Chat, Request]:
        """Messages, and the request's other keys."""
        messages = self._opening()
        for turn in range(self._chance.randrange(4)):
            messages += self._reply() if self._chance.random() < 0.45 else self._calls(turn)
            if messages[-1]["role"] == "assistant" or self._likely(0.7):
                messages.append({"role": "user", "content": self._content(), **self._maybe(0.1, name="bob")})
            if messages[-1]["role"] == "user" and self._likely(0.1):
                messages.append({"role": "system", "content": self._text()})
        if messages[-1]["role"] == "user" and self._likely(0.2):
            messages += self._reply()
        tools = self._maybe(0.4, tools=[self._tool() for _ in range(self._chance.randrange(3))])
        return messages, {**tools, **self._maybe(0.1, tool_choice=self._chance.choice(["none", "auto", "required"]))}

    def _opening(self) -> Chat:
        first = self._chance.choice(["system", "system", "developer", "", "", ""])
        opening: Chat = [{"role": first, "content": self._content()}] if first else []
        return [*opening, {"role": "user", "content": self._content()}]

    def _reply(self) -> Chat:
        return [{"role": "assistant", "content": self._content(), **self._maybe(0.2, reasoning_content=self._text())}]

    def _calls(self, turn: int) -> Chat:
        calls = [self._call(f"c{turn}{number}") for number in range(self._chance.randrange(1, 3))]
        texts: list[dict[str, Any]] = [{}, {"content": None}, {"content": None}, {"content": ""}, {"content": self._text()}]
        content = self._chance.choice(texts)
        reasoning = self._maybe(0.2, reasoning_content=self._text())
        results = [
            {"role": "tool", "tool_call_id": call["id"], "content": self._content(), **self._maybe(0.3, name="find")}
            for call in calls
        ]
        return [{"role": "assistant", **content, "tool_calls": calls, **reasoning}, *results]

    def _call(self, name: str) -> dict[str, Any]:
        values = {
            self._chance.choice(["q", "n", "a b", "ä"]): self._chance.choice(VALUES) for _ in range(self._chance.randrange(4))
        }
        text = json.dumps(values, ensure_ascii=self._likely(0.5), indent=self._chance.choice([None, None, 2]))
        return {
            "id": name,
            "type": "function",
            "function": {"name": self._chance.choice(["find", "get_weather"]), "arguments": text},
        }

    def _tool(self) -> dict[str, Any]:
        properties = {
            name: {"type": "string", "description": self._text(), "enum": ["a", "ü"], "default": self._chance.choice(VALUES)}
            for name in self._chance.sample(["q", "n", "z"], self._chance.randrange(4))
        }
        parameters = self._maybe(0.9, parameters={"type": "object", "properties": properties, "required": []})
        more = {**self._maybe(0.8, description=self._text()), **parameters, **self._maybe(0.2, strict=True)}
        return {"type": "function", "function": {"name": self._chance.choice(["find", "get_weather"]), **more}}

    def _content(self) -> str | list[dict[str, Any]]:
        if self._likely(0.8):
            return self._text()
        return [{"type": "text", "text": self._text()} for _ in range(self._chance.randrange(1, 4))]

    def _text(self) -> str:
        return "".join(self._chance.choices(PIECES, k=self._chance.randrange(6)))

    def _likely(self, share: float) -> bool:
        return self._chance.random() < share

    def _maybe(self, share: float, **keys: object) -> dict[str, Any]:
        return keys if self._likely(share) else {}
