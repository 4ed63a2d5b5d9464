"""The Python blocks of the documents run as they stand, and print what stands behind each `print`."""

from __future__ import annotations

import contextlib
import io
import json
import re
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import openai
import pytest

from gateway.chat import ChatRequest
from gateway.web.wire import ChatReader
from gateway.web.wire_messages import MessageReader
from tests.house import tree

BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)
PROMISE = re.compile(r"^print\(.*\)  # (.+)$", re.MULTILINE)


def run_blocks(document: str, **given: Any) -> tuple[list[str], list[str]]:
    """Runs the blocks of a document one after the other, in one namespace; what they promise to print, and what they print."""
    text = (tree.ROOT / document).read_text(encoding="utf-8")
    printed, names = io.StringIO(), dict(given)
    blocks = BLOCK.findall(text)
    assert blocks, f"{document} has no Python in it"
    with contextlib.redirect_stdout(printed):
        for block in blocks:
            exec(compile(block, document, "exec"), names)  # noqa: S102  (our own documents)
    return [promise for block in blocks for promise in PROMISE.findall(block)], printed.getvalue().splitlines()


@pytest.mark.parametrize("document", ["docs/reference/library.md", "docs/reference/counting.md"])
def test_a_reference_shows_what_really_comes_out(document: str) -> None:
    promised, printed = run_blocks(document)
    assert printed == promised
    assert promised


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[ChatRequest]:
    """What the OpenAI client was told to send, read as the gateway reads it; nothing is sent."""
    found: list[ChatRequest] = []

    def create(extra_body: dict[str, Any], **body: Any) -> None:
        found.append(ChatReader(MessageReader()).read(json.dumps({**body, **extra_body}).encode(), {}, (), None))

    def client(base_url: str, api_key: str) -> SimpleNamespace:
        return SimpleNamespace(chat=SimpleNamespace(completions=SimpleNamespace(create=create)))

    monkeypatch.setattr(openai, "OpenAI", client)
    return found


def test_the_readme_shows_requests_and_calls_that_are_understood(
    asked: list[ChatRequest], capsys: pytest.CaptureFixture[str]
) -> None:
    count_tokens: Callable[[list[dict[str, str]]], int] = lambda messages: 9_000 * len(messages)  # noqa: E731
    messages = [{"role": "user", "content": "first"}, {"role": "user", "content": "last"}]
    promised, printed = run_blocks("README.md", messages=messages, count_tokens=count_tokens)
    assert printed == promised
    (request,) = asked
    assert (request.options.chat_id, request.options.report, request.diagnostics) == ("c-1", "full", ())
    assert [message.marks.pinned for message in request.messages] == [None, True, None, None]
