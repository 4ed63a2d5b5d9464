"""Two gateways behind nginx that share one PostgreSQL database: a client can't tell which of them it talks to."""

from __future__ import annotations

import json
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.scenarios.loopback import chats, replies
from tests.scenarios.loopback.errors import checked_answer
from tests.scenarios.loopback.raw_client import RawClient
from tests.scenarios.loopback.upstream import Script, Step, Upstream
from tests.scenarios.loopback.waiting import until
from tests.support.nginx_server import NginxServer, free_port
from tests.support.postgresql_server import running
from tests.support.two_machines import KEYS, MAX_BODY_BYTES, Front, TwoMachines, two_machines

SHORT = [{"role": "user", "content": "Name three rivers."}]
BUDGET = 200 - 50  # the small model's
PROMISED_S = 3.0  # the contract says one second; the rest is for a busy machine
ASKED_TO_END = (0, -signal.SIGTERM, 128 + signal.SIGTERM)
OVERFLOW = {"error": {"code": 400, "message": "", "type": "exceed_context_size_error", "n_prompt_tokens": 120, "n_ctx": 128}}


@pytest.fixture(scope="module")
def machines(upstream: Upstream, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoMachines]:
    """Both gateways; a test that ends one starts it again."""
    with two_machines(tmp_path_factory.mktemp("machines"), upstream.url, running().new_url(tcp=True)) as both:
        yield both


@pytest.fixture
def front(machines: TwoMachines) -> Front:
    """Their common address."""
    return machines.front


def request(script: Script, chat_id: str, **fields: Any) -> dict[str, Any]:
    """A request in a chat."""
    return {"model": script.model, "messages": SHORT, "contextShift": {"chatId": chat_id}, **fields}


def about_the_prompt(response: httpx.Response) -> dict[str, str]:
    """What the headers say of the prompt, less the generation's own name."""
    named = {name: value for name, value in response.headers.items() if name.startswith("x-context-")}
    assert named.pop("x-context-generation-id")
    return named


def both_served(machines: TwoMachines, number: int) -> None:
    """Both gateways had a part in the last requests, so many; nginx writes its log a moment after an answer."""
    until(lambda: len({line.split(" ", 1)[1] for line in machines.nginx.served()[-number:]}) == 2, "both gateways have served")


def test_the_same_chat_through_either_has_the_same_cut_and_one_audit(
    machines: TwoMachines, upstream: Upstream, chat_id: str
) -> None:
    script = upstream.script(replies.plain())
    told = chats.conversation(6)
    answers = [machines.front.post(request(script, chat_id, messages=told)) for _ in range(4)]
    both_served(machines, 4)
    first, *others = map(about_the_prompt, answers)
    assert others == [first] * 3
    assert int(first["x-context-excluded"]) > 0
    assert [call.json["messages"] for call in script.calls] == [chats.without_oldest(told, BUDGET)] * 4
    assert len({call.body for call in script.calls}) == 1
    one, two = (gateway.ended_audit(chat_id) for gateway in machines.gateways)
    assert one == two
    assert one["generationId"] == answers[-1].headers["x-context-generation-id"]
    for gateway in machines.gateways:
        listed = gateway.http.get("/api/v2/chats", params={"limit": 200}).json()["chats"]
        assert [chat["generationId"] for chat in listed if chat["id"] == chat_id] == [one["generationId"]]


def test_a_chat_that_grows_goes_on_at_the_other_gateway(machines: TwoMachines, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(replies.plain())
    for turns in range(4, 10):
        told = chats.conversation(turns)
        gateway, other = machines.gateways if turns % 2 else machines.gateways[::-1]
        answer = gateway.post(request(script, chat_id, messages=told))
        assert script.calls[-1].json["messages"] == chats.without_oldest(told, BUDGET)
        audit = other.ended_audit(chat_id)
        assert (audit["generationId"], audit["status"]) == (answer.headers["x-context-generation-id"], "completed")


def test_a_stream_arrives_as_it_is_told(front: Front, upstream: Upstream, chat_id: str) -> None:
    gates = [upstream.gate(), upstream.gate()]
    script = upstream.script(
        replies.STREAM_HEAD, replies.piece("The Nile"), gates[0], replies.piece(" and the Po"), gates[1], replies.FINISH
    )
    with front.client() as client:
        client.post(request(script, chat_id, stream=True))
        assert client.read_until(b"The Nile").startswith(b"HTTP/1.1 200 ")
        gates[0].open()
        assert b"[DONE]" not in client.read_until(b"and the Po")
        gates[1].open()
        assert client.read_until(b"0\r\n\r\n").count(b"data: [DONE]") == 1
    assert front.ended_audit(chat_id)["status"] == "completed"


@pytest.mark.parametrize("rudely", [False, True], ids=["closing", "resetting"])
@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_a_client_that_leaves_ends_the_call_to_the_provider(
    front: Front, upstream: Upstream, chat_id: str, stream: bool, rudely: bool
) -> None:
    begun = (replies.STREAM_HEAD, replies.piece("The Nile")) if stream else ()
    script = upstream.script(*begun, upstream.gate())
    client = front.client()
    client.post(request(script, chat_id, stream=stream))
    call = script.arrival()
    if stream:
        client.read_until(b"The Nile")
    client.leave(rudely=rudely)
    assert call.gone.wait(PROMISED_S), "the connection to the provider stayed open"
    audit = front.ended_audit(chat_id)
    assert (audit["status"], audit["errorCode"]) == ("cancelled", "CLIENT_CANCELLED")


def test_a_client_that_does_not_read_holds_the_provider_back(front: Front, upstream: Upstream, chat_id: str) -> None:
    flood: list[Step] = [replies.piece("x" * 60_000)] * 400
    script = upstream.script(replies.STREAM_HEAD, *flood, replies.FINISH)
    with RawClient(front.url, receive_buffer=4096) as client:
        client.post(request(script, chat_id, stream=True))
        client.read_until(b"xxx")
        call = script.arrival()
        assert not call.played.wait(1), "nginx has taken in what nobody reads"
        client.leave(rudely=True)
        assert call.gone.wait(PROMISED_S), "the connection to the provider stayed open"
    assert front.ended_audit(chat_id)["status"] == "cancelled"


def test_what_one_gateway_learned_holds_at_the_other(machines: TwoMachines, upstream: Upstream, chat_id: str) -> None:
    learner, other = machines.gateways
    script = upstream.script(replies.answer(json.dumps(OVERFLOW).encode(), 400), then=(replies.plain(),))
    body = request(script, chat_id, messages=chats.conversation(8))
    assert learner.post(body).headers["x-context-limit"] == "128"

    def limit_at_the_other() -> int:
        time.sleep(0.1)  # it looks every five seconds
        return int(other.http.post("/api/v2/context-preview", json=body).json()["budget"]["contextLimit"])

    until(lambda: limit_at_the_other() == 128, "the other gateway has heard of it")
    answers = [machines.front.post(body) for _ in range(2)]
    assert about_the_prompt(answers[0]) == about_the_prompt(answers[1])
    assert len(script.calls) == 4


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_a_chat_deleted_through_one_is_not_brought_back_by_the_other(
    machines: TwoMachines, upstream: Upstream, chat_id: str, stream: bool
) -> None:
    busy, other = machines.gateways
    gate = upstream.gate()
    script = upstream.script(gate, replies.stream() if stream else replies.plain())
    answers: list[httpx.Response] = []
    asking = threading.Thread(target=lambda: answers.append(busy.post(request(script, chat_id, stream=stream))))
    asking.start()
    script.arrival()
    assert other.http.delete(f"/api/v2/chats/{chat_id}").status_code == 204
    gate.open()
    asking.join()
    assert [answer.status_code for answer in answers] == [200]
    assert replies.TEXT in answers[0].text
    assert [gateway.audit(chat_id) for gateway in (busy, other, busy, other)] == [None] * 4


def test_a_chat_of_one_team_is_unseen_by_another_through_either(front: Front, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(replies.plain())
    mine, theirs = ({"authorization": f"Bearer {KEYS[team]}"} for team in ("team-a", "team-b"))
    front.post(request(script, chat_id), **mine)
    assert [(front.audit(chat_id, **mine) or {}).get("tenant") for _ in range(4)] == ["team-a"] * 4
    assert [front.audit(chat_id, **theirs) for _ in range(4)] == [None] * 4
    assert [front.audit(chat_id) for _ in range(4)] == [None] * 4
    assert front.audit(chat_id, **{"api-key": KEYS["team-a"]}) is not None
    refused = front.post(request(script, chat_id), authorization="Bearer sg-of-nobody", x_sluicegate_key="sg-of-nobody")
    assert checked_answer(refused.status_code, refused.headers, refused.json())["code"] == "UNAUTHORIZED"


def test_the_host_that_clients_write_is_the_one_that_is_checked(front: Front, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(replies.plain())
    assert front.post(request(script, chat_id), host="localhost").status_code == 200
    refused = front.post(request(script, chat_id), host="evil.example")
    assert refused.status_code == 421
    assert checked_answer(421, refused.headers, refused.json())["code"] == "HOST_NOT_ALLOWED"


@pytest.mark.parametrize("name", ["a/b//c?d=%2F", "..", "\N{WATER WAVE}" * 256], ids=["slashes", "dots", "long"])
def test_every_name_of_a_chat_passes(front: Front, upstream: Upstream, chat_id: str, name: str) -> None:
    script = upstream.script(replies.plain())
    named = f"{name[: 256 - len(chat_id)]}{chat_id}"
    answer = front.post(request(script, named))
    assert (answer.status_code, answer.json()["choices"][0]["message"]["content"]) == (200, replies.TEXT)
    assert front.ended_audit(named)["generationId"] == answer.headers["x-context-generation-id"]


def test_large_bodies_pass_and_larger_ones_are_refused_by_the_gateway(front: Front, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(replies.plain())
    half = "x" * (MAX_BODY_BYTES // 2)
    assert front.post(request(script, chat_id, user=half)).status_code == 200
    assert script.sent["user"] == half
    refused = front.post(request(script, chat_id, user=half * 2))
    error = checked_answer(refused.status_code, refused.headers, refused.json())
    assert (error["code"], str(MAX_BODY_BYTES) in error["message"]) == ("PAYLOAD_TOO_LARGE", True)


def test_what_nginx_itself_refuses_looks_like_an_error_of_ours(front: Front) -> None:
    with front.client() as client:
        client.send(b"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: 40000000\r\n\r\n")
        head, _, rest = client.read_until(b"}}}").partition(b"\r\n\r\n")
    status, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    assert status.split()[1] == "413"
    assert checked_answer(413, headers, json.loads(rest))["code"] == "PAYLOAD_TOO_LARGE"
    metrics = front.http.get("/metrics")
    assert checked_answer(metrics.status_code, metrics.headers, metrics.json())["code"] == "NOT_FOUND"


def test_without_a_gateway_clients_are_told_to_try_again(tmp_path: Path) -> None:
    with NginxServer(tmp_path, [free_port(), free_port()]) as alone, httpx.Client(trust_env=False) as client:
        answer = client.post(f"{alone.url}/v1/chat/completions", json={"model": "small", "messages": SHORT})
        health = client.get(f"{alone.url}/readyz")
    assert (answer.status_code, health.status_code) == (503, 503)
    assert checked_answer(503, answer.headers, answer.json())["code"] == "SHUTTING_DOWN"


def test_a_providers_refusals_come_in_the_gateways_words_and_shut_no_gateway_out(
    machines: TwoMachines, upstream: Upstream, chat_id: str
) -> None:
    broken = upstream.script(replies.refusal(500))
    overloaded = upstream.script(replies.refusal(503, retry_after="30"))
    for script, status, code, calls in [(broken, 502, "PROVIDER_SERVER_ERROR", 4), (overloaded, 503, "PROVIDER_OVERLOADED", 8)]:
        for _ in range(4):
            answer = machines.front.post(request(script, chat_id))
            error = checked_answer(answer.status_code, answer.headers, answer.json())
            assert (answer.status_code, error["code"]) == (status, code)
            assert len(answer.headers.get_list("x-request-id")) == 1
        assert len(script.calls) == calls  # a 503 is tried at the other gateway, nothing else
    fine = upstream.script(replies.plain())
    assert [machines.front.post(request(fine, chat_id)).status_code for _ in range(4)] == [200] * 4
    both_served(machines, 4)


def test_a_killed_gateway_takes_its_own_streams_with_it_and_nothing_else(
    machines: TwoMachines, upstream: Upstream, chat_id: str
) -> None:
    dying, living = machines.gateways
    gate, later = upstream.gate(), upstream.gate()
    script = upstream.script(replies.STREAM_HEAD, replies.piece("The Nile"), gate, replies.FINISH)
    slow = upstream.script(replies.STREAM_HEAD, replies.piece("The Nile"), later, replies.FINISH)
    names = [f"{chat_id}-{number}" for number in range(3)]
    with ExitStack() as stack:
        clients = [stack.enter_context(machines.front.client()) for _ in names]
        for client, name in zip(clients[:2], names, strict=False):  # one at each gateway
            client.post(request(script, name, stream=True))
            client.read_until(b"The Nile")
        dying.signal(signal.SIGKILL)
        assert dying.ended() == -signal.SIGKILL
        gate.open()
        whole = [b"[DONE]" in client.read_until(b"[DONE]") for client in clients[:2]]
        assert sorted(whole) == [False, True]
        cut, kept = names[whole.index(False)], names[whole.index(True)]
        again = request(upstream.script(replies.plain()), chat_id)
        assert [machines.front.post(again).status_code for _ in range(6)] == [200] * 6
        completed = living.ended_audit(kept)
        assert (living.audit(cut, "summary") or {})["status"] == "prepared"
        clients[2].post(request(slow, names[2], stream=True))
        clients[2].read_until(b"The Nile")
        dying.start()
        lost = living.audit(cut, "summary") or {}
        assert (lost["status"], lost["errorCode"]) == ("failed", "GATEWAY_RESTARTED")
        assert dying.audit(kept) == completed
        assert (dying.audit(names[2], "summary") or {})["status"] == "prepared"
        later.open()
        assert b"[DONE]" in clients[2].read_until(b"[DONE]")
    assert dying.ended_audit(names[2])["status"] == "completed"


@pytest.mark.parametrize("stream", [False, True], ids=["plain", "streamed"])
def test_what_a_killed_gateway_had_not_begun_to_answer_is_answered_by_the_other(
    machines: TwoMachines, upstream: Upstream, chat_id: str, stream: bool
) -> None:
    dying, living = machines.gateways
    gate, answer = upstream.gate(), replies.stream() if stream else replies.plain()
    script = upstream.script(gate, answer)
    script.answers += [(gate, answer), (answer,)]  # the third call is the one that is made again
    names = [f"{chat_id}-{number}" for number in range(2)]
    with ExitStack() as stack:
        clients = [stack.enter_context(machines.front.client()) for _ in names]
        for number, (client, name) in enumerate(zip(clients, names, strict=True), start=1):  # one at each gateway
            client.post(request(script, name, stream=stream))
            script.arrival(number)
        dying.signal(signal.SIGKILL)
        assert dying.ended() == -signal.SIGKILL
        again = script.arrival(3)
        gate.open()
        for client in clients:
            seen = client.read_until(b"[DONE]" if stream else b'"usage"')
            assert seen.startswith(b"HTTP/1.1 200 ")
            assert replies.TEXT.encode() in seen
    assert (len(script.calls), again.json["messages"]) == (3, SHORT)
    dying.start()
    assert [living.ended_audit(name)["status"] for name in names] == ["completed"] * 2


def test_a_gateway_that_is_told_to_end_costs_no_request(machines: TwoMachines, upstream: Upstream, chat_id: str) -> None:
    leaving, _ = machines.gateways
    gate, over = upstream.gate(), threading.Event()
    slow = upstream.script(replies.STREAM_HEAD, replies.piece("The Nile"), gate, replies.FINISH)
    quick = upstream.script(replies.plain())
    seen: list[int] = []

    def keep_asking(number: int) -> None:
        with httpx.Client(trust_env=False, timeout=15) as client:
            while not over.is_set():
                answer = client.post(f"{machines.front.url}/v1/chat/completions", json=request(quick, f"{chat_id}-{number}"))
                seen.append(answer.status_code)

    askers = [threading.Thread(target=keep_asking, args=(number,)) for number in range(4)]
    with ExitStack() as stack:
        clients = [stack.enter_context(machines.front.client()) for _ in range(2)]
        for number, client in enumerate(clients):  # one at each gateway
            client.post(request(slow, f"{chat_id}-slow-{number}", stream=True))
            client.read_until(b"The Nile")
        for asker in askers:
            asker.start()
        until(lambda: len(seen) >= 40, "requests are answered")
        leaving.signal(signal.SIGTERM)
        drained = len(seen)
        until(lambda: len(seen) >= drained + 100, "requests are answered while it drains")
        assert leaving.alive
        gate.open()
        assert [b"[DONE]" in client.read_until(b"[DONE]") for client in clients] == [True, True]
        assert leaving.ended() in ASKED_TO_END
        over.set()
        for asker in askers:
            asker.join()
    leaving.start()
    assert set(seen) == {200}
    assert len(quick.calls) == len(seen)
    assert machines.front.http.get("/readyz").status_code == 200
