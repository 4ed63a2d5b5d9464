"""A provider that takes too long: before its first word, between two words, for the whole, or to accept a connection at all."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.scenarios.loopback import replies
from tests.scenarios.loopback.errors import checked_answer, checked_error
from tests.scenarios.loopback.running_gateway import RunningGateway, write_config
from tests.scenarios.loopback.upstream import Script, Step, Upstream

SHORT = [{"role": "user", "content": "Name three rivers."}]
CONNECT_S, FIRST_TOKEN_S, IDLE_S, TOTAL_S = 0.4, 1.0, 0.3, 2.5
IMPATIENT = f"[timeouts]\nconnect_s = {CONNECT_S}\nfirst_token_s = {FIRST_TOKEN_S}\nidle_s = {IDLE_S}\ntotal_s = {TOTAL_S}"
PING = replies.chunked(b":\n\n")  # llama.cpp's, while it reads the prompt
PROMISED_S = 3.0


@pytest.fixture(scope="module")
def impatient(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningGateway]:
    """A gateway that waits little, and for each thing another time."""
    folder = tmp_path_factory.mktemp("impatient")
    write_config(folder, upstream.url, more=IMPATIENT)
    with RunningGateway(folder) as running:
        yield running
    running.require_clean_log()


def request(script: Script, chat_id: str, **fields: Any) -> dict[str, Any]:
    """A request in a chat."""
    return {"model": script.model, "messages": SHORT, "contextShift": {"chatId": chat_id}, **fields}


def told(answer: httpx.Response) -> dict[str, Any]:
    """The error of an answer, plain or at the end of a stream."""
    if answer.status_code != 200:
        return checked_answer(answer.status_code, answer.headers, answer.json())
    *_, broken, done = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    assert done == "[DONE]"
    return checked_error(json.loads(broken))


def require_timeout(answer: httpx.Response, words: str, seconds: float) -> None:
    """The error says what took too long, and how long it was given."""
    error = told(answer)
    assert (error["code"], error["message"]) == ("PROVIDER_TIMEOUT", f"{words} within {seconds:g} s.")
    assert error["metadata"]["timeoutSeconds"] == seconds
    assert error["metadata"]["generationId"] == answer.headers["x-context-generation-id"]


def require_failed(gateway: RunningGateway, script: Script, chat_id: str) -> None:
    """The provider is left alone, and the audit says why."""
    assert script.arrival().gone.wait(PROMISED_S)
    audit = gateway.ended_audit(chat_id)
    assert (audit["status"], audit["errorCode"], audit["finishReason"]) == ("failed", "PROVIDER_TIMEOUT", None)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize("head", ["silent", "head alone", "comments", "a ping now and then"])
def test_no_first_word_in_time_is_a_timeout(
    impatient: RunningGateway, upstream: Upstream, chat_id: str, stream: bool, head: str
) -> None:
    begun = {"silent": [], "head alone": [replies.STREAM_HEAD], "comments": [replies.STREAM_HEAD, PING]}
    steps = begun.get(head, [replies.STREAM_HEAD, *[PING, 0.1] * 50])
    script = upstream.script(*steps, upstream.gate())
    answer = impatient.post(request(script, chat_id, stream=stream))
    assert answer.status_code == 504
    require_timeout(answer, "The provider sent no first token", FIRST_TOKEN_S)
    require_failed(impatient, script, chat_id)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_silence_in_the_middle_of_an_answer_is_a_timeout(
    impatient: RunningGateway, upstream: Upstream, chat_id: str, stream: bool
) -> None:
    begun = replies.STREAM_HEAD + replies.piece("The Nile") if stream else replies.plain()[:-20]
    script = upstream.script(begun, upstream.gate())
    answer = impatient.post(request(script, chat_id, stream=stream))
    assert answer.status_code == (200 if stream else 504)
    require_timeout(answer, "The provider fell silent in the middle of its answer", IDLE_S)
    require_failed(impatient, script, chat_id)


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_an_answer_that_never_ends_is_a_timeout(
    impatient: RunningGateway, upstream: Upstream, chat_id: str, stream: bool
) -> None:
    whole = replies.plain("x" * 200)
    trickle = [replies.piece("and "), 0.1] * 100 if stream else [step for byte in whole[-150:] for step in (bytes([byte]), 0.1)]
    script = upstream.script(replies.STREAM_HEAD if stream else whole[:-150], *trickle)
    answer = impatient.post(request(script, chat_id, stream=stream))
    assert answer.status_code == (200 if stream else 504)
    require_timeout(answer, "The provider did not finish its answer", TOTAL_S)
    require_failed(impatient, script, chat_id)


def test_pings_before_the_first_word_are_not_cut_off_by_the_silence_that_is_allowed_later(
    impatient: RunningGateway, upstream: Upstream, chat_id: str
) -> None:
    pings: list[Step] = [PING, 2 * IDLE_S]
    script = upstream.script(replies.STREAM_HEAD, *pings, replies.piece("The Nile"), replies.FINISH)
    answer = impatient.post(request(script, chat_id, stream=True))
    assert b"The Nile" in answer.content
    assert impatient.ended_audit(chat_id)["status"] == "completed"


def test_pings_between_two_words_break_the_silence(impatient: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    pings: list[Step] = [PING, IDLE_S / 3] * 6
    script = upstream.script(replies.STREAM_HEAD, replies.piece("The Nile"), *pings, replies.piece("!"), replies.FINISH)
    answer = impatient.post(request(script, chat_id, stream=True))
    assert answer.text.rstrip().endswith("[DONE]")
    assert impatient.ended_audit(chat_id)["status"] == "completed"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_a_connection_that_is_not_taken_is_a_timeout(tmp_path: Path, chat_id: str, stream: bool) -> None:
    with socket.socket() as busy, socket.socket() as first:
        busy.bind(("127.0.0.1", 0))
        busy.listen(0)
        first.connect(busy.getsockname())  # the only place in the queue
        write_config(tmp_path, f"http://127.0.0.1:{busy.getsockname()[1]}/v1", more=IMPATIENT)
        with RunningGateway(tmp_path) as gateway:
            answer = gateway.post({"model": "small", "messages": SHORT, "stream": stream, "contextShift": {"chatId": chat_id}})
            assert gateway.ended_audit(chat_id)["errorCode"] == "PROVIDER_TIMEOUT"
    assert answer.status_code == 504
    require_timeout(answer, "No connection to the provider", CONNECT_S)


def test_nobody_listens(tmp_path: Path) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        write_config(tmp_path, f"http://127.0.0.1:{nobody.getsockname()[1]}/v1")
        with RunningGateway(tmp_path) as gateway:
            response = gateway.post({"model": "small", "messages": SHORT})
    error = checked_answer(response.status_code, response.headers, response.json())
    assert (response.status_code, error["code"]) == (502, "PROVIDER_UNREACHABLE")
    assert "127.0.0.1" not in response.text
