"""GET /metrics: the numbers of this process in Prometheus' text format 0.0.4. Knows no metric by name.

Behind the guards like any other path: the Host must be one that is served and, where client keys are configured, a key must come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate

from starlette.requests import Request
from starlette.responses import Response

from gateway.telemetry import Counter, Histogram, Labels, Telemetry

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def show_metrics(request: Request) -> Response:
    """The endpoint."""
    telemetry: Telemetry = request.scope["state"]["telemetry"]
    return Response(exposition(telemetry), headers={"content-type": CONTENT_TYPE})


def exposition(telemetry: Telemetry) -> bytes:
    """Every metric as text; each sample of a worker bears its name, so that its counters are nobody else's."""
    worker = (("worker", telemetry.worker),) if telemetry.worker else ()
    lines = (line for metric in telemetry.all() for line in _described(metric, worker))
    return "".join(f"{line}\n" for line in lines).encode("utf-8", "replace")


def _described(metric: Counter | Histogram, worker: Iterable[tuple[str, str]]) -> Iterator[str]:
    yield f"# HELP {metric.name} {_escaped(metric.text)}"
    yield f"# TYPE {metric.name} {metric.kind}"
    for name, names, values, number in _samples(metric):
        pairs = [*zip(names, values, strict=True), *worker]
        labels = ",".join(f'{label}="{_quoted(value)}"' for label, value in pairs)
        yield f"{name}{{{labels}}} {_number(number)}" if labels else f"{name} {_number(number)}"


def _samples(metric: Counter | Histogram) -> Iterator[tuple[str, Labels, Labels, float]]:
    """Name, names of labels, their values, number."""
    if isinstance(metric, Counter):
        for values, number in metric.values.items():
            yield metric.name, metric.labels, values, number
        return
    bounds = [*map(_number, metric.bounds), "+Inf"]
    for values, counts in metric.counts.items():
        up_to = list(accumulate(counts))
        for bound, count in zip(bounds, up_to, strict=True):
            yield f"{metric.name}_bucket", (*metric.labels, "le"), (*values, bound), count
        yield f"{metric.name}_sum", metric.labels, values, metric.sums[values]
        yield f"{metric.name}_count", metric.labels, values, up_to[-1]


def _number(value: float) -> str:
    return repr(int(value)) if float(value).is_integer() else repr(float(value))


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace("\n", r"\n")


def _quoted(value: str) -> str:
    return _escaped(value).replace('"', r"\"")
