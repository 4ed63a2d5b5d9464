"""Real llama.cpp servers for a test: any model file, any template."""

from __future__ import annotations

import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

_SCRIPT = Path(__file__).with_name("smollm2_server.py")


class Refused(Exception):
    """An answer other than 200; the message is the server's."""


class RunningServer:
    """A llama.cpp server on a loopback port."""

    def __init__(self, port: int) -> None:
        self._port = port

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """A JSON object for a JSON object. Raises Refused."""
        with closing(http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)) as connection:
            connection.request("POST", path, json.dumps(body), {"content-type": "application/json"})
            response = connection.getresponse()
            answer: dict[str, Any] = json.loads(response.read())
        if response.status != 200:
            raise Refused(answer["error"]["message"])
        return answer

    def tokens(self, text: str) -> list[int]:
        """The tokens of a text, special tokens parsed."""
        return list(self.post("/tokenize", {"content": text, "parse_special": True})["tokens"])

    def prompt_tokens(self, messages: list[dict[str, Any]], request: dict[str, Any]) -> int:
        """The tokens of a chat as the server counts them. Raises Refused."""
        return int(self.post("/v1/chat/completions/input_tokens", {"messages": messages, **request})["input_tokens"])


@contextmanager
def running(*options: dict[str, Any]) -> Iterator[list[RunningServer]]:
    """One server for each of the options that smollm2_server.py takes."""
    command = [sys.executable, str(_SCRIPT), *map(json.dumps, options)]
    process = subprocess.Popen(  # noqa: S603  (our own script)
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield [RunningServer(int(process.stdout.readline())) for _ in options]
    finally:
        process.stdin.close()
        process.kill()  # a graceful end takes a tenth of a second a server
        process.wait()
        process.stdout.close()
