"""What a scraper of the running gateway sees: how requests ended, the configuration's health, nothing that a client wrote."""

from __future__ import annotations

from pathlib import Path

import httpx
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from gateway import __version__
from tests.scenarios.loopback import replies
from tests.scenarios.loopback.raw_client import RawClient
from tests.scenarios.loopback.running_gateway import RunningGateway, write_config
from tests.scenarios.loopback.upstream import Upstream
from tests.scenarios.loopback.waiting import until

CHAT = "/v1/chat/completions"
SHORT = [{"role": "user", "content": "Name three rivers."}]
SOON_S = 15.0


def scraped(gateway: RunningGateway) -> list[Sample]:
    """Every sample, as Prometheus' own parser reads it."""
    answer = gateway.http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    return [sample for family in text_string_to_metric_families(answer.text) for sample in family.samples]


def number(gateway: RunningGateway, name: str, **labels: str) -> float:
    """The sum of the samples of this name that bear these labels."""
    found = [one for one in scraped(gateway) if one.name == f"sluicegate_{name}" and labels.items() <= one.labels.items()]
    return sum(one.value for one in found)


def test_answers_are_counted_when_they_have_ended(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    def completed() -> float:
        return number(gateway, "requests_total", route=CHAT, outcome="completed", code="")

    gate = upstream.gate()
    plain, stream = (
        upstream.script(replies.plain()),
        upstream.script(replies.STREAM_HEAD, replies.piece("a"), gate, replies.FINISH),
    )
    before, inflight = completed(), number(gateway, "inflight_requests")
    gateway.post({"model": plain.model, "messages": SHORT})
    until(lambda: completed() == before + 1, "the plain answer counts")
    with RawClient(gateway.url) as client:
        client.post({"model": stream.model, "messages": SHORT, "stream": True, "contextShift": {"chatId": chat_id}})
        client.read_until(b"data:")
        assert number(gateway, "inflight_requests") == inflight + 1
        assert completed() == before + 1
        gate.open()
        client.read_until(b"[DONE]")
    until(lambda: completed() == before + 2, "the stream counts")
    assert number(gateway, "inflight_requests") == inflight
    assert number(gateway, "request_duration_seconds_count", route=CHAT) >= 2


def test_errors_are_counted_by_their_code(gateway: RunningGateway) -> None:
    before = number(gateway, "requests_total", route=CHAT, outcome="failed", code="INVALID_REQUEST")
    assert gateway.post({"model": "small", "messages": []}).status_code == 400
    after = number(gateway, "requests_total", route=CHAT, outcome="failed", code="INVALID_REQUEST")
    assert after == before + 1


def test_nothing_that_a_client_wrote_is_told(gateway: RunningGateway, upstream: Upstream, chat_id: str) -> None:
    script = upstream.script(replies.plain("secret-answer"))
    body = {"model": script.model, "messages": [{"role": "user", "content": "secret-text"}], "contextShift": {"chatId": chat_id}}
    gateway.post(body, Authorization="Bearer secret-key", X_Session_Id="secret-session")
    gateway.post({**body, "model": "secret-model"})
    gateway.http.get(f"/v1/secret-path/{chat_id}")
    gateway.audit(chat_id)
    text = gateway.http.get("/metrics").text
    assert "/api/v2/chats/{id}/context-audit" in text
    assert [word for word in ("secret", chat_id, script.model, upstream.url, "sk-of-the-gateway") if word in text] == []


def test_a_single_process_tells_its_version_and_no_worker(gateway: RunningGateway) -> None:
    assert number(gateway, "build_info", version=__version__) == 1
    assert not [one for one in scraped(gateway) if "worker" in one.labels]


def test_the_configurations_fate_is_told(upstream: Upstream, tmp_path: Path) -> None:
    config = write_config(tmp_path, upstream.url)
    model = config / "models" / "small.toml"
    good = model.read_text()
    with RunningGateway(tmp_path) as gateway:
        assert number(gateway, "configuration_broken") == number(gateway, "config_reloads_total") == 0
        model.write_text(good.replace("= 200", '= "many"'))
        until(lambda: number(gateway, "configuration_broken") == 1, "the complaint", SOON_S)
        assert number(gateway, "config_reloads_total", result="failed") == 1
        model.write_text(good.replace("= 200", "= 300"))
        until(lambda: number(gateway, "configuration_broken") == 0, "the recovery", SOON_S)
        assert number(gateway, "config_reloads_total", result="ok") == 1


def test_each_of_several_workers_tells_its_own_numbers_under_its_own_name(upstream: Upstream, tmp_path: Path) -> None:
    write_config(tmp_path, upstream.url)
    seen: dict[str, float] = {}
    with RunningGateway(tmp_path, "--workers", "2") as gateway:
        gateway.http.headers["connection"] = "close"  # so that both have work

        def both() -> bool:
            assert gateway.http.get("/v1/models").status_code == 200
            samples = scraped(gateway)
            (worker,) = {one.labels["worker"] for one in samples}
            seen[worker] = sum(one.value for one in samples if one.name == "sluicegate_requests_total")
            return len(seen) == 2

        until(both, "both workers answered")
        asked = 0

        def all_counted() -> bool:
            nonlocal asked
            asked += both()
            return asked >= 10

        until(all_counted, "more answers")
    assert all(count > 0 for count in seen.values())


def test_a_scraper_of_another_host_is_refused(gateway: RunningGateway) -> None:
    answer = httpx.get(f"{gateway.url}/metrics", headers={"host": "10.1.2.3:8787"}, trust_env=False)
    assert (answer.status_code, answer.json()["error"]["code"]) == (421, "HOST_NOT_ALLOWED")


def test_a_generation_tells_how_it_was_fitted_and_how_well_it_was_counted(gateway: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.stream())
    before = {name: number(gateway, name, model="small") for name in ("prompt_tokens_count", "prompt_tokens_sum")}
    with RawClient(gateway.url) as client:
        client.post({"model": script.model, "messages": SHORT, "stream": True})
        client.read_until(b"[DONE]")
    ended = {"provider": "fake", "model": "small", "strategy": "truncate", "outcome": "completed", "code": ""}
    assert number(gateway, "generations_total", **ended) >= 1
    assert number(gateway, "prompt_tokens_count", model="small") == before["prompt_tokens_count"] + 1
    ours = number(gateway, "prompt_tokens_sum", model="small") - before["prompt_tokens_sum"]
    assert ours > 0
    assert number(gateway, "token_count_error_ratio_count", model="small") >= 1
    assert number(gateway, "time_to_first_chunk_seconds_count", provider="fake", model="small") >= 1
    assert number(gateway, "shift_duration_seconds_count", strategy="truncate") >= 1


def test_a_long_chat_tells_what_was_left_out(gateway: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.plain())
    before = number(gateway, "excluded_tokens_total", reason="context-shift")
    long = [{"role": "user", "content": "word " * 40}, {"role": "assistant", "content": "word " * 40}] * 4
    headers = gateway.post({"model": script.model, "messages": [*long, *SHORT]}).headers
    assert int(headers["x-context-excluded-tokens"]) > 0
    after = number(gateway, "excluded_tokens_total", reason="context-shift")
    assert after - before == int(headers["x-context-excluded-tokens"])


def test_what_cannot_fit_is_counted_apart(gateway: RunningGateway) -> None:
    before = number(gateway, "budget_exceeded_total", model="small")
    assert gateway.post({"model": "small", "messages": [{"role": "user", "content": "word " * 500}]}).status_code == 400
    assert number(gateway, "budget_exceeded_total", model="small") == before + 1
    assert number(gateway, "requests_total", route=CHAT, outcome="failed", code="TOKEN_BUDGET_EXCEEDED") >= 1


def test_a_stream_that_breaks_is_no_success(gateway: RunningGateway, upstream: Upstream) -> None:
    script = upstream.script(replies.STREAM_HEAD, replies.piece("a"), replies.END)
    before = number(gateway, "requests_total", route=CHAT, outcome="failed", code="PROVIDER_STREAM_TRUNCATED")
    with RawClient(gateway.url) as client:
        client.post({"model": script.model, "messages": SHORT, "stream": True})
        client.read_until(b"[DONE]")

    def failed() -> float:
        return number(gateway, "requests_total", route=CHAT, outcome="failed", code="PROVIDER_STREAM_TRUNCATED")

    until(lambda: failed() == before + 1, "the broken stream counts")
    assert number(gateway, "generations_total", outcome="failed", code="PROVIDER_STREAM_TRUNCATED", model="small") >= 1
