"""What watches each request of the guard: metrics for Prometheus, a line of the log, its outcome in the record."""

from __future__ import annotations

import asyncio
import logging
import math
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Gauge, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from graphs import Outcome, Policy
from judges.runtime.faults import logging_safely
from judges.verdict import Usage, Verdict
from refine.logs import log_line
from refine.promise_watch import PromiseWatch
from refine.record import DatabaseRecord, Origin, Recorder
from refine.server.guards import ServedGuard
from refine.server.service import ServedRequest

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """What Prometheus reads; an observer of the service.

    Args:
        counts: Returns how many outcomes the record lost, and how many wait to be written.
        promises: Who watches the promise of a guard's certificate, by the guard's name.
    """

    def __init__(
        self,
        counts: Callable[[], tuple[int, int]],
        promises: Mapping[str, PromiseWatch],
    ) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("refine_requests", "Requests served", "guard", "outcome")
        self.attempts = self._counter("refine_attempts", "Answers generated", "guard", "result")
        self.ratings = self._counter("refine_ratings", "Ratings given", "judge", "rating")
        self.tokens = self._counter("refine_tokens", "Tokens consumed", "guard", "role", "kind")
        self.cost = self._counter("refine_cost_dollars", "US dollars spent, where prices are known", "guard")
        self.request_s = self._histogram("refine_request_duration_seconds", "From request to answer", "guard")
        self.first_text_s = self._histogram(
            "refine_first_text_seconds", "From request to the first text of an answer", "guard"
        )
        self.generate_s = self._histogram("refine_generate_duration_seconds", "One call of the upstream", "guard")
        self.judge_s = self._histogram("refine_judge_duration_seconds", "One verdict", "judge")
        self.key_requests = self._counter("refine_key_requests", "Requests served, by name of the key", "key")
        self.key_tokens = self._counter("refine_key_tokens", "Tokens consumed, by name of the key", "key", "kind")
        self.key_cost = self._counter("refine_key_cost_dollars", "US dollars spent, by name of the key", "key")
        self.in_flight = Gauge("refine_in_flight", "Requests being answered", registry=self.registry)
        self.watch(partial(_read_record, counts))
        self.watch(partial(_read_promises, promises))

    def watch(self, read: Callable[[], Iterator[Metric]]) -> None:
        """Have `read` yield further metrics whenever all are read."""
        self.registry.register(_Watched(read))

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def __call__(self, served: ServedRequest) -> None:
        """Count one request."""
        guard = served.guard or "none"
        self.requests[guard, _outcome_of(served)] += 1
        self.request_s.add(served.seconds, guard)
        if served.caller:
            self._count_key(served.caller, served.usage)
        if served.records and served.first_text_s is not None:
            self.first_text_s.add(served.first_text_s, guard)
        for record in served.records:
            self._count(guard, record.outcome)
        for verdict in served.verdicts:
            self._count_verdict(guard, verdict)

    def _count_key(self, key: str, usage: Usage) -> None:
        self.key_requests[key,] += 1
        if usage.tokens:
            self.key_tokens[key, "input"] += usage.input_tokens
            self.key_tokens[key, "output"] += usage.output_tokens
        if usage.cost:
            self.key_cost[key,] += usage.cost

    def _count(self, guard: str, outcome: Outcome) -> None:
        for attempt in outcome.attempts:
            self.generate_s.add(attempt.latency_s, guard)
            self._count_usage(guard, "generator", attempt.usage)
            released = attempt.number == outcome.released
            result = "released" if released else "rejected"
            self.attempts[guard, result] += 1
            if attempt.verdict is not None:
                self._count_verdict(guard, attempt.verdict)
        if outcome.question_verdict is not None:
            self._count_verdict(guard, outcome.question_verdict)
        if outcome.usage.cost:
            self.cost[guard,] += outcome.usage.cost

    def _count_verdict(self, guard: str, verdict: Verdict) -> None:
        judge = verdict.judge or "none"
        rating = str(verdict.rating) if verdict.rating is not None else verdict.unscored or "none"
        self.judge_s.add(verdict.latency_s, judge)
        self.ratings[judge, rating] += 1
        self._count_usage(guard, "judge", verdict.usage)

    def _count_usage(self, guard: str, role: str, usage: Usage) -> None:
        if usage.input_tokens or usage.output_tokens:
            self.tokens[guard, role, "input"] += usage.input_tokens
            self.tokens[guard, role, "output"] += usage.output_tokens

    def _counter(self, name: str, text: str, *labels: str) -> _Sums:
        sums = _Sums()
        self.watch(partial(_read_sums, name, text, labels, sums))
        return sums

    def _histogram(self, name: str, text: str, label: str) -> _Durations:
        durations = _Durations(name, text, label)
        self.watch(durations.read)
        return durations


class _Watched(Collector):
    """Reads metrics whenever Prometheus' registry asks for them."""

    def __init__(self, read: Callable[[], Iterator[Metric]]) -> None:
        self._read = read

    def collect(self) -> Iterator[Metric]:
        return self._read()


class _Sums(dict[tuple[str, ...], float]):
    """Sums by values of labels, from 0 on, added to by one thread.

    A counter of Prometheus' own takes several times as long for each.

    Attributes:
        begun: When each sum began.
    """

    def __init__(self) -> None:
        super().__init__()
        self.begun: dict[tuple[str, ...], float] = {}

    def __missing__(self, values: tuple[str, ...]) -> float:
        self.begun[values] = time.time()
        return 0.0


def _read_sums(name: str, text: str, labels: Sequence[str], sums: _Sums) -> Iterator[Metric]:
    family = CounterMetricFamily(name, text, labels=labels)
    for values, total in list(sums.items()):
        family.add_metric(values, total, created=sums.begun[values])
    yield family


class _Durations:
    """Durations by one label, in buckets; as `_Sums` otherwise.

    Args:
        name: Name of the metric.
        text: What it is.
        label: Name of the label.
    """

    def __init__(self, name: str, text: str, label: str) -> None:
        self._described = name, text, label
        self._rows: dict[str, _DurationRow] = {}

    def add(self, seconds: float, value: str) -> None:
        """Add a duration under a value of the label."""
        row = self._rows.get(value)
        if row is None:
            row = self._rows[value] = _DurationRow()
        row.total_s += seconds
        row.counts[bisect_left(_SECONDS, seconds)] += 1

    def read(self) -> Iterator[Metric]:
        """Yield the histogram."""
        name, text, label = self._described
        family = HistogramMetricFamily(name, text, labels=[label])
        for value, row in list(self._rows.items()):
            buckets = list(zip(map(floatToGoString, (*_SECONDS, math.inf)), accumulate(row.counts), strict=True))
            family.add_metric([value], buckets, row.total_s)
            family.add_sample(f"{name}_created", {label: value}, row.begun_at)
        yield family


@dataclass(slots=True)
class _DurationRow:
    total_s: float = 0.0
    counts: list[int] = field(default_factory=lambda: [0] * (len(_SECONDS) + 1))
    begun_at: float = field(default_factory=time.time)


def _read_record(counts: Callable[[], tuple[int, int]]) -> Iterator[Metric]:
    lost, queued = counts()
    yield CounterMetricFamily("refine_record_lost", "Outcomes that the record lost", value=lost)
    yield GaugeMetricFamily("refine_record_queue", "Outcomes that wait to be written", value=queued)


def _read_promises(promises: Mapping[str, PromiseWatch]) -> Iterator[Metric]:
    texts = {
        "holds": "Whether the certificate's promise stands",
        "threshold": "Rating or score accepted under the certificate; 0 once it is withdrawn",
        "evidence": "Evidence against the promise; an alarm is due at 1 / delta",
        "audits": "Labelled answers that the certificate covers",
        "bad_audits": "Bad ones among them",
        "uncovered": "Whether answers go on of which nothing is promised any more",
    }
    figures = {
        name: GaugeMetricFamily(f"refine_promise_{name}", text, labels=["guard"]) for name, text in texts.items()
    }
    for guard, watch in promises.items():
        if (standing := watch.standing) is not None:
            values = (
                float(not standing.is_withdrawn),
                standing.threshold or 0.0,
                standing.evidence,
                standing.audits,
                standing.bad,
                float(standing.is_uncovered),
            )
            for figure, value in zip(figures.values(), values, strict=True):
                figure.add_metric([guard], value)
    yield from figures.values()


def _outcome_of(served: ServedRequest) -> str:
    """Return how a request ended, as one of a few words: a stop reason, `passed_through`, `left`, an error."""
    if served.status is not None and served.records:
        return served.records[0].outcome.stop_reason
    return "passed_through" if served.ended == "judged" else served.ended


ACCESS_LOG = logging.getLogger("refine.access")
_LEFT = 499
"""What servers write for a client that left before it was answered."""


def log_request(served: ServedRequest) -> None:
    """Write a line at INFO for one request served, without any text of it; an observer of the service."""
    if not ACCESS_LOG.isEnabledFor(logging.INFO):
        return
    fields = {
        name: value if type(value) is not str or value.isprintable() else _printable(value)
        for name, value in _fields(served).items()
        if value is not None and value != ""
    }
    with logging_safely():
        if structlog.is_configured():
            log_line(ACCESS_LOG, "request", fields)
        else:
            ACCESS_LOG.info("request %s", " ".join(f"{name}={_word(value)}" for name, value in fields.items()))


def _printable(value: str) -> str:
    """Return what a client sent without what could begin a line of its own, or that no log can write."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in value)


def _word(value: Any) -> Any:
    """Return a value as one word of a line, in quotes where it could pass for several fields."""
    return repr(value) if isinstance(value, str) and (" " in value or "=" in value) else value


def _fields(served: ServedRequest) -> dict[str, Any]:
    outcomes = [record.outcome for record in served.records]
    last = outcomes[0] if outcomes else None
    ratings = [attempt.rating for one in outcomes for attempt in one.attempts if attempt.number == one.released]
    verdicts = [verdict.rating for verdict in served.verdicts]
    usage, who = served.usage, served.requester
    return {
        "status": _LEFT if served.status is None else served.status,
        "method": served.method,
        "path": served.path,
        "seconds": round(served.seconds, 4),
        "key": served.caller,
        "user": who.user,
        "session": who.session,
        "thread": who.thread,
        "guard": served.guard,
        "model": served.model,
        "ended": "left" if served.status is None else last.stop_reason if last else served.ended,
        "reason": served.code or (last.detail if last else ""),
        "rating": min((rating for rating in (*ratings, *verdicts) if rating is not None), default=None),
        "attempts": sum(len(one.attempts) for one in outcomes) if outcomes else None,
        "tokens": usage.tokens or None,
        "cost": usage.cost or None,
        "request_id": served.request_id,
        "trace_id": served.trace_id,
    }


class Recording:
    """Hands every outcome to a record; an observer of the service.

    Args:
        record: The record.
        guards: The guards.
    """

    def __init__(self, record: Recorder, guards: Mapping[str, ServedGuard]) -> None:
        self._record = record
        self._blocks = getattr(record, "blocks", True)
        self._guards = guards
        self._origins = {
            name: (guard.loop.policy, _origin(guard, guard.loop.policy)) for name, guard in guards.items()
        }

    def __call__(self, served: ServedRequest) -> None:
        """Record the outcomes; in a database, also a request without one: passed through, refused, or left."""
        if served.guard and not (served.records or served.verdicts) and isinstance(self._record, DatabaseRecord):
            origin = replace(self._origins[served.guard][1], model=served.model or None)
            self._record.add(_as_outcome(served), _with_request(origin, served))
        for record in served.records:
            origin = _with_request(self._origin(served.guard, record.policy), served)
            if self._blocks:
                asyncio.get_running_loop().run_in_executor(None, self._record.add, record.outcome, origin)
            else:
                self._record.add(record.outcome, origin)

    def _origin(self, name: str, policy: Policy) -> Origin:
        guard = self._guards[name]
        cached = self._origins.get(name)
        if cached is None or (policy is guard.loop.policy and cached[0] is not policy):
            cached = self._origins[name] = policy, _origin(guard, policy)  # the promise moved its policy
        return cached[1] if policy is cached[0] else _origin(guard, policy)

    def counts(self) -> tuple[int, int]:
        """Return how many outcomes were lost, and how many wait to be written."""
        if not isinstance(self._record, DatabaseRecord):
            return 0, 0
        stats = self._record.stats()
        return stats.lost, stats.queued

    def close(self) -> None:
        """Write what waits, and close the record."""
        if isinstance(self._record, DatabaseRecord):
            self._record.close()


def _with_request(origin: Origin, served: ServedRequest) -> Origin:
    """Return an origin with what one request says of itself."""
    who = served.requester
    return replace(
        origin,
        request_id=served.request_id,
        trace_id=served.trace_id or None,
        key=who.key or served.caller,
        user=who.user,
        session=who.session,
        thread=who.thread,
    )


def _as_outcome(served: ServedRequest) -> Outcome:
    """Return a request that no answer was judged for as an outcome without attempts."""
    detail = " ".join(filter(None, (served.method, served.path, served.code)))
    fields: dict[str, Any] = {"stop_reason": served.ended, "detail": detail, "latency_s": served.seconds}
    return Outcome.model_construct(answer=None, passed=False, **fields)


def _origin(guard: ServedGuard, policy: Policy) -> Origin:
    return Origin.of(guard.name, guard.loop.judged_by, policy, generator=guard.generator)
