"""/metrics is what Prometheus reads: exact text, behind the guards, with what the guards have counted."""

from __future__ import annotations

import asyncio
import hashlib
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from gateway.errors import ClientCancelled, ProviderTimeout
from gateway.secret import Secret
from gateway.settings import AuthSettings, ClientKey, Settings
from gateway.telemetry import Histogram, Telemetry
from gateway.web.asgi import respond
from gateway.web.guards import Guards
from gateway.web.metrics import CONTENT_TYPE, exposition
from tests.support.rooms import Connection, application_of, ask, fetch, open_rooms, post_scope, run

HOSTILE = 'a "quoted" \\ name\nwith {curly="x"} 1 # ü'


def parsed(text: str) -> list[Sample]:
    return [sample for family in text_string_to_metric_families(text) for sample in family.samples]


def samples(telemetry: Telemetry) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample by its name and labels, as Prometheus' own parser reads it."""
    found = parsed(exposition(telemetry).decode())
    return {(one.name, tuple(sorted(one.labels.items()))): one.value for one in found}


def test_the_text_is_what_the_format_says() -> None:
    telemetry = Telemetry("0.1")
    telemetry.ended("/v1/models", "", 0.25)
    lines = exposition(telemetry).decode().splitlines()
    assert "# TYPE sluicegate_requests_total counter" in lines
    assert "# HELP sluicegate_inflight_requests Requests under way." in lines
    assert 'sluicegate_build_info{version="0.1"} 1' in lines
    assert "sluicegate_inflight_requests 0" in lines
    assert 'sluicegate_requests_total{route="/v1/models",outcome="completed",code=""} 1' in lines
    assert 'sluicegate_request_duration_seconds_bucket{route="/v1/models",le="0.1"} 0' in lines
    assert 'sluicegate_request_duration_seconds_bucket{route="/v1/models",le="0.25"} 1' in lines
    assert 'sluicegate_request_duration_seconds_bucket{route="/v1/models",le="300"} 1' in lines
    assert 'sluicegate_request_duration_seconds_bucket{route="/v1/models",le="+Inf"} 1' in lines
    assert 'sluicegate_request_duration_seconds_sum{route="/v1/models"} 0.25' in lines
    assert 'sluicegate_request_duration_seconds_count{route="/v1/models"} 1' in lines
    assert exposition(telemetry).endswith(b"\n")


@pytest.mark.parametrize("name", [HOSTILE, "", "\\n", '"', "\n", "\\", '\\"', "a,b=c"])
def test_any_name_survives_the_escaping(name: str) -> None:
    telemetry = Telemetry()
    telemetry.requests.add(name, "completed", "")
    telemetry.request_duration.observe(1, name)
    found = samples(telemetry)
    assert found["sluicegate_requests_total", (("code", ""), ("outcome", "completed"), ("route", name))] == 1
    assert found["sluicegate_request_duration_seconds_count", (("route", name),)] == 1


def test_a_text_for_people_stays_on_its_line() -> None:
    telemetry = Telemetry()
    telemetry.inflight.text = 'two\nlines, a \\ and "quotes"'
    (family,) = [one for one in text_string_to_metric_families(exposition(telemetry).decode()) if "inflight" in one.name]
    assert family.documentation == 'two\nlines, a \\ and "quotes"'


def test_a_lone_surrogate_costs_no_scrape() -> None:
    telemetry = Telemetry()
    telemetry.requests.add("\ud800", "completed", "")
    assert b'route="?"' in exposition(telemetry)


def test_buckets_add_up() -> None:
    telemetry = Telemetry()
    for seconds in (0.001, 0.005, 0.3, 9, 10_000):
        telemetry.request_duration.observe(seconds, "r")
    found = samples(telemetry)
    bounds = ("0.005", "0.25", "0.5", "10", "300", "+Inf")
    name = "sluicegate_request_duration_seconds_bucket"
    assert [found[name, (("le", bound), ("route", "r"))] for bound in bounds] == [2, 2, 3, 4, 4, 5]
    assert found["sluicegate_request_duration_seconds_sum", (("route", "r"),)] == pytest.approx(10_009.306)


def test_every_metric_is_read_back_with_its_kind() -> None:
    telemetry = Telemetry()
    for metric in telemetry.all():
        labels = [f"{name}-value" for name in metric.labels]
        if isinstance(metric, Histogram):
            metric.observe(3, *labels)
        else:
            metric.add(*labels)
    kinds = {one.name: one.type for one in text_string_to_metric_families(exposition(telemetry).decode())}
    assert kinds == {metric.name.removesuffix("_total"): metric.kind for metric in telemetry.all()}


def test_every_sample_of_a_worker_bears_its_name() -> None:
    telemetry = Telemetry(worker="4711")
    telemetry.ended("/v1/models", "", 0.25)
    found = parsed(exposition(telemetry).decode())
    assert len(found) > 20
    assert {one.labels.get("worker") for one in found} == {"4711"}


def test_the_endpoint_tells_its_format() -> None:
    answer = run(ask(open_rooms(), "GET", "/metrics"))
    assert (answer.status_code, answer.headers["content-type"]) == (200, CONTENT_TYPE)
    assert "sluicegate_inflight_requests" in answer.text


def test_a_host_that_is_not_served_gets_no_numbers() -> None:
    answer = run(ask(open_rooms(), "GET", "/metrics", headers={"host": "evil.example"}))
    assert (answer.status_code, answer.json()["error"]["code"]) == (421, "HOST_NOT_ALLOWED")


@pytest.mark.parametrize(
    ("headers", "status"),
    [({}, 401), ({"authorization": "Bearer wrong"}, 401), ({"authorization": "Bearer sg-1"}, 200), ({"api-key": "sg-1"}, 200)],
)
def test_where_keys_are_configured_a_scraper_needs_one(headers: dict[str, str], status: int) -> None:
    key = ClientKey("team", Secret(hashlib.sha256(b"sg-1").hexdigest()))
    rooms = open_rooms(settings=Settings(auth=AuthSettings(keys=(key,))))
    answer = run(ask(rooms, "GET", "/metrics", headers=headers))
    assert answer.status_code == status
    assert ("sluicegate_build_info" in answer.text) == (status == 200)


async def told_after(*requests: tuple[str, str]) -> list[Sample]:
    """What the endpoint tells after some requests to the whole application."""
    rooms = open_rooms()
    await rooms.store.open()
    app = application_of(rooms)
    for method, path in requests:
        await fetch(app, method, path)
    return parsed((await fetch(app, "GET", "/metrics")).text)


@pytest.mark.parametrize(
    ("method", "path", "labels"),
    [
        ("GET", "/v1/models", ("/v1/models", "completed", "")),
        ("GET", "//v1/models/m?x=1", ("/v1/models/{id:path}", "completed", "")),
        ("GET", "/v1/models/unknown", ("/v1/models/{id:path}", "failed", "MODEL_NOT_FOUND")),
        ("PUT", "/api/v2/context-preview", ("/api/v2/context-preview", "failed", "METHOD_NOT_ALLOWED")),
        ("GET", "/api/v2/chats/secret-chat/context-audit", ("/api/v2/chats/{id}/context-audit", "failed", "CHAT_NOT_FOUND")),
        ("POST", "/v1/chat/completions", ("/v1/chat/completions", "failed", "INVALID_REQUEST")),
        ("GET", "/secret-path", ("other", "failed", "NOT_FOUND")),
    ],
)
def test_a_request_is_counted_by_its_route_and_how_it_ended(method: str, path: str, labels: tuple[str, ...]) -> None:
    told = run(told_after((method, path)))
    expected = dict(zip(("route", "outcome", "code"), labels, strict=True))
    assert [(one.labels, one.value) for one in told if one.name == "sluicegate_requests_total"] == [(expected, 1)]
    durations = [one for one in told if one.name == "sluicegate_request_duration_seconds_count"]
    assert [(one.labels, one.value) for one in durations] == [({"route": labels[0]}, 1)]


def test_probes_and_scrapes_are_not_counted() -> None:
    told = run(told_after(*(("GET", path) for path in ("/healthz", "/readyz", "/metrics", "//metrics/"))))
    assert {one.value for one in told if one.name.startswith(("sluicegate_request", "sluicegate_inflight"))} == {0}


class Inside:
    """An application behind the guards that looks at what is under way, then answers or raises."""

    def __init__(self, telemetry: Telemetry, *, status: int = 0, raised: BaseException | None = None, code: str = "") -> None:
        self.telemetry = telemetry
        self.status = status
        self.raised = raised
        self.code = code
        self.inflight: float = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self.inflight = self.telemetry.inflight.values[()]
        if self.code:
            scope["state"]["code"] = self.code
        if self.status:
            await respond(send, self.status, b"{}")
        if self.raised is not None:
            raise self.raised


@pytest.mark.parametrize(
    ("inside", "labels"),
    [
        ({"status": 200}, ("completed", "")),
        ({"status": 400, "code": "TOKEN_BUDGET_EXCEEDED"}, ("failed", "TOKEN_BUDGET_EXCEEDED")),
        ({"status": 200, "code": "PROVIDER_STREAM_ERROR"}, ("failed", "PROVIDER_STREAM_ERROR")),
        ({"status": 200, "code": "CLIENT_CANCELLED"}, ("cancelled", "CLIENT_CANCELLED")),
        ({"status": 418}, ("failed", "HTTP_418")),
        ({"raised": ClientCancelled("left")}, ("cancelled", "CLIENT_CANCELLED")),
        ({"raised": ProviderTimeout("slow")}, ("failed", "PROVIDER_TIMEOUT")),
        ({"status": 200, "raised": ZeroDivisionError()}, ("failed", "INTERNAL")),
    ],
)
def test_however_a_request_ends_it_is_counted_once(inside: dict[str, Any], labels: tuple[str, str]) -> None:
    telemetry, connection = Telemetry(), Connection()
    app = Inside(telemetry, **inside)
    run(Guards(app, open_rooms(), "127.0.0.1", telemetry)(post_scope(host="localhost"), connection.receive, connection.send))
    assert telemetry.requests.values == {("other", *labels): 1}
    assert (app.inflight, telemetry.inflight.values) == (1, {(): 0})


def test_a_request_that_the_end_of_the_grace_breaks_off_is_counted_too() -> None:
    telemetry, connection = Telemetry(), Connection()
    guards = Guards(Inside(telemetry, raised=asyncio.CancelledError()), open_rooms(), "127.0.0.1", telemetry)
    with pytest.raises(asyncio.CancelledError):
        run(guards(post_scope(host="localhost"), connection.receive, connection.send))
    assert telemetry.requests.values == {("other", "failed", "SHUTTING_DOWN"): 1}
    assert telemetry.inflight.values == {(): 0}
