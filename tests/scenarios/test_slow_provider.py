"""A provider that takes too long: before its first word, between two words, or to accept a connection at all."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.errors import checked_answer, checked_error
from tests.scenarios.loopback.running_gateway import RunningGateway, write_config
from tests.scenarios.loopback.upstream import Script, Upstream

SHORT = [{"role": "user", "content": "Name three rivers."}]
IMPATIENT = "[timeouts]\nconnect_s = 0.5\nfirst_token_s = 0.5\nidle_s = 0.5\ntotal_s = 1.5"
PROMISED_S = 3.0


@pytest.fixture(scope="module")
def impatient(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway that waits half a second at most."""
    folder = tmp_path_factory.mktemp("impatient")
    write_config(folder, upstream.url, more=IMPATIENT)
    with RunningGateway(folder) as running:
        yield running
    running.require_clean_log()


def request(script: Script, chat_id: str, **fields: Any) -> dict[str, Any]:
    """A request in a chat."""
    return {"model": script.model, "messages": SHORT, "contextShift": {"chatId": chat_id}, **fields}


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("head", [b"", replies.STREAM_HEAD + replies.chunked(b": thinking\n\n")], ids=["silent", "comments"])
def test_no_first_word_in_time_is_a_timeout(
    impatient: RunningGateway, upstream: Upstream, chat_id: str, stream: bool, head: bytes
) -> None:
    script = upstream.script(head, upstream.gate())
    response = impatient.post(request(script, chat_id, stream=stream))
    error = checked_answer(response.status_code, response.headers, response.json())
    assert (response.status_code, error["code"]) == (504, "PROVIDER_TIMEOUT")
    assert script.arrival().gone.wait(PROMISED_S)
    audit = impatient.ended_audit(chat_id)
    assert (audit["status"], audit["errorCode"]) == ("failed", "PROVIDER_TIMEOUT")


@pytest.mark.parametrize("pause", ["a gate", "a trickle"])
def test_a_stream_that_stops_or_never_ends_is_broken_off(
    impatient: RunningGateway, upstream: Upstream, chat_id: str, pause: str
) -> None:
    rest = [upstream.gate()] if pause == "a gate" else [replies.piece("and "), 0.1] * 100
    script = upstream.script(replies.STREAM_HEAD, replies.piece("The Nile"), *rest)
    answer = impatient.post(request(script, chat_id, stream=True))
    assert answer.status_code == 200
    *_, broken, done = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    assert (checked_error(json.loads(broken))["code"], done) == ("PROVIDER_TIMEOUT", "[DONE]")
    assert script.arrival().gone.wait(PROMISED_S)
    assert impatient.ended_audit(chat_id)["errorCode"] == "PROVIDER_TIMEOUT"


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        write_config(tmp_path, f"http://127.0.0.1:{nobody.getsockname()[1]}/v1")
        with RunningGateway(tmp_path) as gateway:
            response = gateway.post({"model": "small", "messages": SHORT})
    error = checked_answer(response.status_code, response.headers, response.json())
    assert (response.status_code, error["code"]) == (502, "PROVIDER_UNREACHABLE")
    assert "127.0.0.1" not in response.text
