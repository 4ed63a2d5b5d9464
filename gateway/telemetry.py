"""Every metric of the product in one file: its name, its labels, and what moves it.

Knows no HTTP, no text format and no other part of the gateway; everything happens in the event loop's thread. Labels hold what
the configuration or our own lists name, never a chat id, a key or a name that a client chose, so their number is bounded. The
one exception, the upstream's model in what overflows taught, is cut short and capped.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from itertools import islice
from typing import ClassVar, Protocol

import msgspec

MOST_LESSONS = 200  # shown at once
MOST_CHARACTERS = 128  # of a model's name

_SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)
_SHORT_SECONDS = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 10)
_TOKENS = (256, 1024, 2048, 4096, 8192, 16384, 32768, 65536, 131072, 262144, 524288, 1048576)
_RATIOS = (0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.999, 1, 1.001, 1.01, 1.02, 1.05, 1.1, 1.25, 1.5, 2)

Labels = tuple[str, ...]


class Left(Protocol):
    """A block that was left out: why, and how many tokens it had."""

    @property
    def reason(self) -> str: ...
    @property
    def tokens(self) -> int: ...


class Fitted(Protocol):
    """What is told of a prompt. `configured` names the model as it is configured: `_default` for the file of all other names."""

    @property
    def provider(self) -> str: ...
    @property
    def configured(self) -> str: ...
    @property
    def strategy(self) -> str: ...
    @property
    def prompt_tokens(self) -> int: ...
    @property
    def prompt_tokens_before(self) -> int: ...
    @property
    def excluded(self) -> Sequence[Left]: ...
    @property
    def truncated(self) -> Sequence[object]: ...


class Learned(Protocol):
    """What overflows taught: a context limit in tokens or None, and their count ÷ ours."""

    @property
    def context_limit(self) -> int | None: ...
    @property
    def factor(self) -> Fraction: ...


class Lesson(Protocol):
    """What was learned of an upstream's model. One model may have several lessons, one for each key."""

    @property
    def provider(self) -> str: ...
    @property
    def model(self) -> str: ...
    @property
    def learned(self) -> Learned: ...


class Metric:
    """What all kinds have: the name, a text for people, the names of the labels."""

    kind: ClassVar[str]

    def __init__(self, name: str, text: str, *labels: str) -> None:
        self.name = name
        self.text = text
        self.labels = labels


class Counter(Metric):
    """Only grows while the process lives."""

    kind = "counter"

    def __init__(self, name: str, text: str, *labels: str) -> None:
        super().__init__(name, text, *labels)
        self.values: dict[Labels, float] = {} if labels else {(): 0}

    def add(self, *labels: str, amount: float = 1) -> None:
        """So many more."""
        self.values[labels] = self.values.get(labels, 0) + amount

    def become(self, values: Mapping[Labels, float]) -> None:
        """Takes over numbers that are kept elsewhere: these and no others."""
        self.values = dict(values)


class Gauge(Counter):
    """Goes up and down."""

    kind = "gauge"


class Histogram(Metric):
    """How many values lie up to each bound, and their sum."""

    kind = "histogram"

    def __init__(self, name: str, text: str, *labels: str, bounds: Sequence[float]) -> None:
        super().__init__(name, text, *labels)
        self.bounds = tuple(bounds)
        self.counts: dict[Labels, list[int]] = {}  # of each bucket by itself, of the one beyond all bounds last
        self.sums: dict[Labels, float] = {}

    def observe(self, value: float, *labels: str) -> None:
        """One value."""
        counts = self.counts.get(labels)
        if counts is None:
            counts = self.counts[labels] = [0] * (len(self.bounds) + 1)
            self.sums[labels] = 0.0
        counts[bisect_left(self.bounds, value)] += 1
        self.sums[labels] += value


class _Usage(msgspec.Struct):
    prompt_tokens: int = 0


_usage = msgspec.json.Decoder(_Usage)


class Telemetry:
    """The numbers of one process. `worker` names it where several share an address, else it is empty."""

    def __init__(self, version: str = "", worker: str = "") -> None:
        self.worker = worker
        self.before_reading: Callable[[], object] = lambda: None  # brings up to date what is counted elsewhere
        self.build_info = Gauge("sluicegate_build_info", "1, with the version that runs.", "version")
        self.build_info.add(version)
        self._of_requests()
        self._of_prompts()
        self._of_overflows()
        self.config_reloads = Counter(
            "sluicegate_config_reloads_total", "Changed configurations that were taken up (ok) or refused (failed).", "result"
        )
        self.configuration_broken = Gauge(
            "sluicegate_configuration_broken", "1 while the configuration on disk is broken and an older one is in force."
        )
        self.configuration(reloads=0, failures=0, broken=False)

    def _of_requests(self) -> None:
        self.requests = Counter(
            "sluicegate_requests_total", "Requests that have ended; probes and scrapes don't count.", "route", "outcome", "code"
        )
        self.request_duration = Histogram(
            "sluicegate_request_duration_seconds", "From a request to the end of its answer.", "route", bounds=_SECONDS
        )
        self.inflight = Gauge("sluicegate_inflight_requests", "Requests under way.")
        self.generations = Counter(
            "sluicegate_generations_total",
            "Generations that have ended, by the end that their audit tells.",
            *("provider", "model", "strategy", "outcome", "code"),
        )
        self.time_to_first_chunk = Histogram(
            "sluicegate_time_to_first_chunk_seconds",
            "From a request to the first chunk of its stream.",
            *("provider", "model"),
            bounds=_SECONDS,
        )

    def _of_prompts(self) -> None:
        self.shift_duration = Histogram(
            "sluicegate_shift_duration_seconds", "Counting and fitting a prompt.", "strategy", bounds=_SHORT_SECONDS
        )
        self.prompt_tokens = Histogram(
            "sluicegate_prompt_tokens", "Tokens of a prompt as it was sent or refused.", "model", bounds=_TOKENS
        )
        self.excluded_blocks = Counter("sluicegate_excluded_blocks_total", "Blocks that were left out.", "reason")
        self.excluded_tokens = Counter("sluicegate_excluded_tokens_total", "Tokens that were left out.", "reason")
        self.truncated_blocks = Counter("sluicegate_truncated_blocks_total", "Blocks that were summarized or shortened.")
        self.budget_exceeded = Counter(
            "sluicegate_budget_exceeded_total", "Requests refused because what must stay doesn't fit.", "model"
        )
        self.count_error = Histogram(
            "sluicegate_token_count_error_ratio", "Our count of a prompt by the provider's.", "model", bounds=_RATIOS
        )

    def _of_overflows(self) -> None:
        self.overflows = Counter(
            "sluicegate_overflows_total",
            "Prompts that fitted by our count and overflowed at the provider.",
            *("provider", "model", "outcome"),
        )
        self.learned_limit = Gauge(
            "sluicegate_learned_context_limit_tokens", "Context limit that overflows taught.", "provider", "model"
        )
        self.learned_factor = Gauge(
            "sluicegate_learned_counting_factor", "Their count by ours that overflows taught.", "provider", "model"
        )

    def all(self) -> list[Counter | Histogram]:
        """Every metric, brought up to date."""
        self.before_reading()
        return [value for value in vars(self).values() if isinstance(value, Counter | Histogram)]

    def ended(self, route: str, code: str, seconds: float) -> None:
        """A request has ended; `code` is the stable one of its error, empty when there was none."""
        self.requests.add(route, _outcome(code), code)
        self.request_duration.observe(seconds, route)

    def fitted(self, prompt: Fitted, seconds: float) -> None:
        """A prompt has been counted and fitted, in so many seconds."""
        self.shift_duration.observe(seconds, prompt.strategy)
        self.prompt_tokens.observe(prompt.prompt_tokens, prompt.configured)
        for block in prompt.excluded:
            self.excluded_blocks.add(block.reason)
            self.excluded_tokens.add(block.reason, amount=block.tokens)
        if prompt.prompt_tokens != prompt.prompt_tokens_before:  # else nothing was shortened: no need to look through the blocks
            self.truncated_blocks.add(amount=len(prompt.truncated))

    def first_chunk(self, prompt: Fitted, seconds: float) -> None:
        """The first chunk of a stream is there, so many seconds after the request."""
        self.time_to_first_chunk.observe(seconds, prompt.provider, prompt.configured)

    def generated(self, prompt: Fitted, code: str, usage: bytes | None) -> None:
        """A generation has ended: `code` as in `ended`, the provider's usage object as raw JSON."""
        self.generations.add(prompt.provider, prompt.configured, prompt.strategy, _outcome(code), code)
        if code == "TOKEN_BUDGET_EXCEEDED":
            self.budget_exceeded.add(prompt.configured)
        theirs = _prompt_tokens(usage)
        if theirs > 0:
            self.count_error.observe(prompt.prompt_tokens / theirs, prompt.configured)

    def overflowed(self, prompt: Fitted, *, recovered: bool) -> None:
        """The provider said that a prompt is too long, and whether the shorter one was accepted."""
        self.overflows.add(prompt.provider, prompt.configured, "recovered" if recovered else "failed")

    def learned(self, lessons: Iterable[Lesson]) -> None:
        """All that overflows have taught up to now; of several keys for one model the lowest limit and the highest factor."""
        limits: dict[Labels, float] = {}
        factors: dict[Labels, float] = {}
        for lesson in lessons:
            labels = (lesson.provider, lesson.model[:MOST_CHARACTERS])
            if lesson.learned.context_limit is not None:
                limits[labels] = min(lesson.learned.context_limit, limits.get(labels, lesson.learned.context_limit))
            factors[labels] = max(float(lesson.learned.factor), factors.get(labels, 1))
        self.learned_limit.become(dict(islice(limits.items(), MOST_LESSONS)))
        self.learned_factor.become(dict(islice(factors.items(), MOST_LESSONS)))

    def configuration(self, *, reloads: int, failures: int, broken: bool) -> None:
        """How often the configuration was taken up and refused, and whether the one on disk is broken now."""
        self.config_reloads.become({("ok",): reloads, ("failed",): failures})
        self.configuration_broken.become({(): int(broken)})


def _outcome(code: str) -> str:
    if not code:
        return "completed"
    return "cancelled" if code == "CLIENT_CANCELLED" else "failed"


def _prompt_tokens(usage: bytes | None) -> int:
    try:
        return _usage.decode(usage).prompt_tokens if usage else 0
    except msgspec.MsgspecError:
        return 0
