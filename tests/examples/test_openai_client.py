"""The client example: against a stand-in for the gateway it shows the reply, the stream, the headers and the audit."""

from __future__ import annotations

import functools
import http.server
import json
import threading
from collections.abc import Iterator

import pytest
from openai import OpenAI

from examples import openai_client

REPLY = {"id": "1", "object": "chat.completion", "created": 1, "model": "m", "choices": []}
MESSAGE = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "Nile"}}
PIECE = {"index": 0, "finish_reason": None, "delta": {"content": "Rhine"}}


class StandIn(http.server.BaseHTTPRequestHandler):
    """Answers as the gateway would."""

    def do_POST(self) -> None:
        """A chat completion, streamed or not."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if request["model"] == "unknown":
            self.answer(
                404, "application/json", json.dumps({"error": {"message": "no model unknown", "code": "MODEL_NOT_FOUND"}})
            )
        elif request.get("stream"):
            chunk = json.dumps({**REPLY, "object": "chat.completion.chunk", "choices": [PIECE]})
            self.answer(200, "text/event-stream", f"data: {chunk}\n\ndata: [DONE]\n\n")
        else:
            self.answer(200, "application/json", json.dumps({**REPLY, "choices": [MESSAGE]}))

    def do_GET(self) -> None:
        """The audit."""
        self.answer(200, "application/json", json.dumps({"audit": {"path": self.path}}))

    def answer(self, status: int, kind: str, body: str) -> None:
        """One answer with the gateway's headers."""
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(body)))
        self.send_header("x-context-prompt-tokens", "11")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002  the name is the base class's
        """Quiet."""


@pytest.fixture
def url() -> Iterator[str]:
    """The stand-in's address."""
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), StandIn) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_address[1]}"
        server.shutdown()
        thread.join()


def test_it_shows_the_reply_the_stream_the_headers_and_the_audit(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert openai_client.main(["--url", url]) == 0
    shown = capsys.readouterr().out
    assert "Reply: Nile" in shown
    assert "Streamed: Rhine" in shown
    assert shown.count("x-context-prompt-tokens: 11") == 2
    assert "/api/v2/chats/openai-client-example/context-audit?view=summary" in shown


def test_a_refusal_is_shown_in_one_line(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert openai_client.main(["--url", url, "--model", "unknown"]) == 1
    assert "refused with 404" in capsys.readouterr().err


def test_a_missing_gateway_is_said_clearly(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_client, "OpenAI", functools.partial(OpenAI, max_retries=0))
    assert openai_client.main(["--url", "http://127.0.0.1:9"]) == 1
    assert "make run" in capsys.readouterr().err
