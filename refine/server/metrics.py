"""Metrics for Prometheus. Labels come from the configuration alone, never from a request or a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

from graphs import Outcome
from judges.verdict import Usage, Verdict

if TYPE_CHECKING:
    from refine.server.service import Served

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """What Prometheus reads; an observer of the service.

    Args:
        record: Returns how many outcomes the record lost, and how many wait to be written.
    """

    def __init__(self, record: Callable[[], tuple[int, int]] = lambda: (0, 0)) -> None:
        self.registry = CollectorRegistry()
        self.requests = self._counter("refine_requests", "Requests served", "guard", "outcome")
        self.attempts = self._counter("refine_attempts", "Answers generated", "guard", "result")
        self.ratings = self._counter("refine_ratings", "Ratings given", "judge", "rating")
        self.tokens = self._counter("refine_tokens", "Tokens consumed", "guard", "role", "kind")
        self.cost = self._counter("refine_cost_dollars", "US dollars spent, where prices are known", "guard")
        self.request_s = self._histogram("refine_request_duration_seconds", "From request to answer", "guard")
        self.generate_s = self._histogram("refine_generate_duration_seconds", "One call of the upstream", "guard")
        self.judge_s = self._histogram("refine_judge_duration_seconds", "One verdict", "judge")
        self.in_flight = Gauge("refine_in_flight", "Requests being answered", registry=self.registry)
        self.registry.register(_RecordCollector(record))
        self._child = cache(lambda metric, *labels: metric.labels(*labels))

    def text(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self.registry)

    def __call__(self, served: Served) -> None:
        """Count one request."""
        guard = served.guard or "none"
        self._child(self.requests, guard, _outcome_of(served)).inc()
        self._child(self.request_s, guard).observe(served.seconds)
        if served.outcome is not None:
            self._count(guard, served.outcome)

    def _count(self, guard: str, outcome: Outcome) -> None:
        for attempt in outcome.attempts:
            self._child(self.generate_s, guard).observe(attempt.latency_s)
            self._count_usage(guard, "generator", attempt.usage)
            released = attempt.number == outcome.released
            result = "released" if released else "rejected"
            self._child(self.attempts, guard, result).inc()
            if attempt.verdict is not None:
                self._count_verdict(guard, attempt.verdict)
        if outcome.usage.cost:
            self._child(self.cost, guard).inc(outcome.usage.cost)

    def _count_verdict(self, guard: str, verdict: Verdict) -> None:
        judge = verdict.judge or "none"
        rating = str(verdict.rating) if verdict.rating is not None else verdict.unscored or "none"
        self._child(self.judge_s, judge).observe(verdict.latency_s)
        self._child(self.ratings, judge, rating).inc()
        self._count_usage(guard, "judge", verdict.usage)

    def _count_usage(self, guard: str, role: str, usage: Usage) -> None:
        if usage.tokens:
            self._child(self.tokens, guard, role, "input").inc(usage.input_tokens)
            self._child(self.tokens, guard, role, "output").inc(usage.output_tokens)

    def _counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(name, text, labels, registry=self.registry)

    def _histogram(self, name: str, text: str, *labels: str) -> Histogram:
        return Histogram(name, text, labels, buckets=_SECONDS, registry=self.registry)


class _RecordCollector(Collector):
    """Asks the record whenever the metrics are read."""

    def __init__(self, record: Callable[[], tuple[int, int]]) -> None:
        self._record = record

    def collect(self) -> Iterator[Metric]:
        lost, queued = self._record()
        yield CounterMetricFamily("refine_record_lost", "Outcomes that the record lost", value=lost)
        yield GaugeMetricFamily("refine_record_queue", "Outcomes that wait to be written", value=queued)


def _outcome_of(served: Served) -> str:
    """Return how a request ended, as one of a few words: a stop reason, `passed_through`, `left`, an error."""
    if served.status is None:
        return "left"
    if served.outcome is not None:
        return served.outcome.stop_reason
    return "passed_through" if served.status < 400 else f"error_{served.status}"  # noqa: PLR2004 - HTTP's errors
