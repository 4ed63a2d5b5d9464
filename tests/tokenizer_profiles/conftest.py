"""Shared by these tests: the built-in registry, and one real llama.cpp server for the whole session."""

from __future__ import annotations

import asyncio
import http.client
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tokenizer_profiles import ProfileRegistry


class LocalServer:
    """A llama.cpp server on a loopback port; `ask` has the shape that the remote profile takes."""

    def __init__(self, port: int) -> None:
        self.port = port
        self.asked: list[str] = []

    async def ask(self, method: str, path: str, body: bytes) -> bytes:
        """The body of a good answer; any other raises."""
        self.asked.append(path)
        return await asyncio.to_thread(self._request, method, path, body)

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """A JSON object for a JSON object."""
        answer: dict[str, Any] = json.loads(self._request("POST", path, json.dumps(body).encode()))
        return answer

    def _request(self, method: str, path: str, body: bytes) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.request(method, path, body or None, {"content-type": "application/json"})
            response = connection.getresponse()
            answer = response.read()
        finally:
            connection.close()
        if response.status != 200:
            raise ConnectionError(f"{response.status} {answer[:200]!r}")
        return answer


@pytest.fixture(scope="session")
def registry() -> ProfileRegistry:
    """One registry, so that each vocabulary is read once."""
    return ProfileRegistry.with_builtins()


@pytest.fixture(scope="session")
def local_server() -> Iterator[LocalServer]:
    """SmolLM2 behind llama.cpp's own server, in a process of its own."""
    script = Path(__file__).with_name("smollm2_server.py")
    command = [sys.executable, str(script)]
    process = subprocess.Popen(  # noqa: S603  (our own script)
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield LocalServer(int(process.stdout.readline()))
    finally:
        process.stdin.close()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        process.stdout.close()
