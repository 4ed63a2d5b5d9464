"""Stand-ins for counting servers: one for llama.cpp whose tokens are single characters, with switches for what real servers do
differently, and one for those that count whole prompts."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

# Parts of chats that such servers are asked about.
PNG = {"type": "image_url", "image_url": {"url": "data:image/png;base64,aGk="}}
LINK = {"type": "image_url", "image_url": "https://example.test/x.png"}
SOUND = {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}}
PDF = {"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk=", "filename": "a.pdf"}}
CALL = {"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}

SPECIAL = {"<s>": 1, "<turn>": 2, "</turn>": 3}
_FIRST_CHARACTER = 10  # ids of characters begin behind those of special tokens
_SPLIT = re.compile(r"(<s>|</?turn>)")


@dataclass
class ToyServer:
    """Renders `<turn>role\\ntext</turn>` and adds BOS to what it tokenises."""

    adds_bos: bool = True
    merges_over_special: bool = False  # a space after a special token vanishes, as with rstrip
    knows_special: bool = True
    renders_names_of_calls: bool = True
    shouts: bool = False  # the template changes the text
    loses_ids: bool = False
    away: bool = False
    refuses_marks: bool = False
    model: str = "toy"
    asked: list[str] = field(default_factory=list)

    async def ask(self, method: str, path: str, body: bytes) -> bytes:
        """See `Ask`."""
        self.asked.append(path)
        if self.away:
            raise ConnectionError("away")
        request = json.loads(body) if body else {}
        answers = {"/props": self.props, "/apply-template": self.template, "/tokenize": self.tokenize}
        return json.dumps(answers[path](request)).encode()

    def props(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """GET /props."""
        return {
            "chat_template": "{{ '<turn>' + role }} <not-special> {{ '</turn>' }}",
            "bos_token": "<s>",
            "model_path": self.model,
        }

    def template(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """POST /apply-template."""
        if self.refuses_marks and re.search("[\ue000-\uf8ff]", json.dumps(request, ensure_ascii=False)):
            raise ValueError("strange characters")
        text = "".join(f"<turn>tools\n{tool['name']}</turn>" for tool in request.get("tools", ()))
        text += "".join(f"<turn>{message['role']}\n{self._content(message)}</turn>" for message in request["messages"])
        return {"prompt": text + ("<turn>assistant\n" if request.get("add_generation_prompt", True) else "")}

    def tokenize(self, request: Mapping[str, Any]) -> dict[str, Any]:
        """POST /tokenize."""
        content = request["content"]
        tokens: list[int] = []
        for item in [content] if isinstance(content, str) else content:
            tokens += self._tokens(item, request["parse_special"]) if isinstance(item, str) else [item]
        if self.loses_ids and not isinstance(content, str):
            tokens = tokens[:-1]
        bos = [SPECIAL["<s>"]] if self.adds_bos and request["add_special"] else []
        return {"tokens": bos + tokens}

    def _content(self, message: Mapping[str, Any]) -> str:
        text = str(message.get("content") or "")
        if self.renders_names_of_calls:
            text += "".join(call["function"]["name"] for call in message.get("tool_calls", ()))
        return text.upper() + str(len(text)) if self.shouts else text

    def _tokens(self, text: str, parse_special: bool) -> list[int]:
        if not parse_special or not self.knows_special:
            return [_FIRST_CHARACTER + ord(character) for character in text]
        if self.merges_over_special:
            text = re.sub(r"(</?turn>\w+\n)\s+", r"\1", text)
        pieces = _SPLIT.split(text)
        tokens: list[int] = []
        for piece in pieces:
            tokens += [SPECIAL[piece]] if piece in SPECIAL else [_FIRST_CHARACTER + ord(character) for character in piece]
        return tokens


@dataclass
class ToyCounter:
    """A stand-in for a server that tells the tokens of a whole prompt: one for each letter of the body's leaves.

    `path` is the only one it knows, `key` that of its number.
    """

    path: str
    key: str
    away: bool = False
    refuses: str = "\0"  # a text in whose presence it refuses
    asked: list[tuple[str, Any]] = field(default_factory=list)

    async def ask(self, method: str, path: str, body: bytes) -> bytes:
        """See `Ask`."""
        if self.away:
            raise ConnectionError("away")
        request = json.loads(body) if body else {}
        self.asked.append((path, request))
        if path != self.path or method != "POST":
            raise FileNotFoundError(path)
        if self.refuses in body.decode():
            raise PermissionError("refused")
        return json.dumps({self.key: letters(request), "more": [1]}).encode()


def letters(value: Any) -> int:
    """The characters of all texts in a JSON value that are no keys."""
    if isinstance(value, dict):
        return sum(map(letters, value.values()))
    if isinstance(value, list):
        return sum(map(letters, value))
    return len(value) if isinstance(value, str) else 0
