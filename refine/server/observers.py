"""What watches the guard: metrics, the record of every outcome, and the page at `/` that shows it."""

from __future__ import annotations

import asyncio
import inspect
import math
import os
import time
from bisect import bisect_left
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from importlib.util import find_spec
from itertools import accumulate
from pathlib import Path
from types import MappingProxyType
from typing import Any

from prometheus_client import CollectorRegistry, Gauge, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString
from starlette.routing import BaseRoute

from graphs import Outcome, Policy
from judges.catalogue.names import imported, is_reference
from judges.errors import ConfigurationError
from judges.verdict import Usage, Verdict
from refine.page.routes import Event, OneTimeLink, TryQuestion, attempts_of, page_routes
from refine.process import see_modules_here
from refine.promise import PromiseWatch
from refine.record import DatabaseRecord, Origin, Recorder, open_record
from refine.record.rows import Redact
from refine.server.access import ServedGuard
from refine.server.assembly import secret_of
from refine.server.config import ServerSettings
from refine.server.dialects import CHAT
from refine.server.dialects.protocol import Json
from refine.server.errors import ApiError
from refine.server.service import ServedRequest, Service
from refine.server.upstream import UpstreamGenerator

CONTENT_TYPE = b"text/plain; version=0.0.4; charset=utf-8"
_SECONDS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300)


class Metrics:
    """What Prometheus reads; an observer of the service.

    Args:
        record: Returns how many outcomes the record lost, and how many wait to be written.
        promises: Who watches the promise of a guard's certificate, by the guard's name.
    """

    def __init__(
        self,
        record: Callable[[], tuple[int, int]] = lambda: (0, 0),
        promises: Mapping[str, PromiseWatch] = MappingProxyType({}),
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
        self.registry.register(_RecordCollector(record))
        self.registry.register(_PromiseCollector(promises))

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
        self.registry.register(_SumsCollector(name, text, labels, sums))
        return sums

    def _histogram(self, name: str, text: str, label: str) -> _Durations:
        durations = _Durations(name, text, label)
        self.registry.register(durations)
        return durations


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


class _SumsCollector(Collector):
    """Reads sums whenever the metrics are read.

    Args:
        name: Name of the metric.
        text: What it is.
        labels: Names of the labels.
        sums: The sums.
    """

    def __init__(self, name: str, text: str, labels: Sequence[str], sums: _Sums) -> None:
        self._described = name, text, labels
        self._sums = sums

    def collect(self) -> Iterator[Metric]:
        name, text, labels = self._described
        family = CounterMetricFamily(name, text, labels=labels)
        for values, total in list(self._sums.items()):
            family.add_metric(values, total, created=self._sums.begun[values])
        yield family


class _Durations(Collector):
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

    def collect(self) -> Iterator[Metric]:
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


class _RecordCollector(Collector):
    """Asks the record whenever the metrics are read."""

    def __init__(self, record: Callable[[], tuple[int, int]]) -> None:
        self._record = record

    def collect(self) -> Iterator[Metric]:
        lost, queued = self._record()
        yield CounterMetricFamily("refine_record_lost", "Outcomes that the record lost", value=lost)
        yield GaugeMetricFamily("refine_record_queue", "Outcomes that wait to be written", value=queued)


class _PromiseCollector(Collector):
    """Asks where promises stand whenever the metrics are read."""

    def __init__(self, promises: Mapping[str, PromiseWatch]) -> None:
        self._promises = promises

    def collect(self) -> Iterator[Metric]:
        texts = {
            "holds": "Whether the certificate's promise stands",
            "threshold": "Rating or score accepted under the certificate; 0 once it is withdrawn",
            "evidence": "Evidence against the promise; an alarm is due at 1 / delta",
            "audits": "Labelled answers that the certificate covers",
            "bad_audits": "Bad ones among them",
            "uncovered": "Whether answers go on of which nothing is promised any more",
        }
        figures = {
            name: GaugeMetricFamily(f"refine_promise_{name}", text, labels=["guard"])
            for name, text in texts.items()
        }
        for guard, watch in self._promises.items():
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


_DEFAULT_RECORD = "refine-record.db"
"""Where the command records if nothing else is set: a file where it was called."""


def choose_record(settings: ServerSettings) -> tuple[ServerSettings, str]:
    """Return settings with the record that the command keeps if nothing else is set, and a line about it.

    What forbids it is no error, since nobody asked for it: the line says then that there is no record, and why.
    """
    if settings.record is not None:
        return settings, "" if settings.record else "nothing is recorded"
    file = Path(_DEFAULT_RECORD).absolute()
    if find_spec("sqlalchemy") is None:
        return settings, "nothing is recorded, since SQLAlchemy is missing; install the extra: selfrefine[record]"
    if not os.access(file if file.exists() else file.parent, os.W_OK):
        return settings, f"nothing is recorded, since {file.parent} cannot be written to; name a place by --record"
    texts = "with texts" if settings.record_texts else "without texts, which record_texts adds"
    line = f"outcomes are recorded in {file}, {texts}; --record names another place, --no-record keeps none"
    return settings.model_copy(update={"record": str(file)}), line


def open_guard_record(settings: ServerSettings) -> Recorder | None:
    """Return the record that settings name; None where there is to be none.

    Raises:
        ConfigurationError: If it cannot be used.
    """
    special = settings.record_texts or settings.record_keep_days is not None
    if settings.record_redact and not settings.record_texts:
        raise ConfigurationError(
            "record_redact is for recorded texts: set record_texts = true too, or leave it out"
        )
    if not settings.record:
        if special:
            raise ConfigurationError("record_texts and record_keep_days are for a record: set record too")
        return None
    redact = [_redaction(reference) for reference in settings.record_redact]
    try:
        return _check_file(_open(settings, settings.record, redact, special=special))
    except ConfigurationError as error:
        raise ConfigurationError(f"record: {error}") from None


def _open(settings: ServerSettings, place: str, redact: Sequence[Redact], *, special: bool) -> Recorder:
    record = open_record(place)
    if not special:
        return record
    if not isinstance(record, DatabaseRecord):
        raise ConfigurationError(
            "record_texts and record_keep_days are for a database; a file of JSON lines holds the texts always"
        )
    url = place if ":" in place else f"sqlite:///{place}"
    return DatabaseRecord(
        url,
        texts=settings.record_texts,
        redact=redact,
        keep_days=settings.record_keep_days,
    )


def _redaction(reference: str) -> Redact:
    """Return the function that a `record_redact` names."""
    see_modules_here()
    if not is_reference(reference):
        raise ConfigurationError(f"record_redact = {reference!r}: name a function as module:function")
    function = imported(reference)
    if not callable(function) or inspect.iscoroutinefunction(function):
        raise ConfigurationError(f"record_redact = {reference!r} is no function from a text to a text")
    redaction: Redact = function
    return redaction


def _check_file(record: Recorder) -> Recorder:
    """Return a record; one in a file that is there already must be one that this version can go on with."""
    file = record.file if isinstance(record, DatabaseRecord) else None
    if file is not None and file.exists() and file.stat().st_size:
        record.check()  # type: ignore[attr-defined]  # it is a database, as the line above says
    return record


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
        known = self._origins.get(name)
        if known is None or (policy is guard.loop.policy and known[0] is not policy):
            known = self._origins[name] = policy, _origin(guard, policy)  # the promise moved its policy
        return known[1] if policy is known[0] else _origin(guard, policy)

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


def make_page(
    settings: ServerSettings,
    service: Service,
    record: Recorder | None,
    link: OneTimeLink,
    promises: Mapping[str, PromiseWatch] = MappingProxyType({}),
) -> list[BaseRoute]:
    """Return the routes of the page; none where it is off, or there is no database to show.

    One that shows texts wants its key, or the link, from everybody: a proxy on this machine may not say that it is
    one.

    Raises:
        ConfigurationError: If its key cannot be used.
    """
    if not settings.page or not isinstance(record, DatabaseRecord):
        return []
    key = None if settings.page_key is None else secret_of(settings.page_key, "page_key").get_secret_value()
    try_out = None if all(guard.upstream is None for guard in service.guards) else _TryOut(service)
    try:
        wanted = link if key is None and settings.record_texts else None
        return page_routes(
            record,
            status=lambda: _status(service, settings.trace_url, promises),
            try_out=try_out,
            key=key,
            link=wanted,
            on_label=partial(_look_at, promises),
        )
    except ConfigurationError as error:
        raise ConfigurationError(f"page_key: {error}") from None


def _look_at(promises: Mapping[str, PromiseWatch]) -> None:
    for watch in promises.values():
        watch.look()


def _standing_of(watch: PromiseWatch | None) -> Json:
    standing = None if watch is None else watch.standing
    return (
        {}
        if standing is None
        else {"promise": str(standing), "promise_state": standing.state, "uncovered": standing.is_uncovered}
    )


def _status(service: Service, trace_url: str | None, promises: Mapping[str, PromiseWatch]) -> Json:
    guards = [
        {
            "name": guard.name,
            "judge": guard.judge.name,
            "upstream": "" if guard.upstream is None else guard.upstream.origin,
            "success_rating": guard.loop.policy.success_rating,
            "success_score": guard.loop.policy.success_score,
            "max_attempts": guard.loop.policy.max_attempts,
            **_standing_of(promises.get(guard.name)),
        }
        for guard in service.guards
    ]
    return {
        "name": "refine serve",
        "guards": guards,
        "in_flight": service.admission.in_flight,
        "draining": service.draining,
        "trace_url": trace_url,
    }


class _TryOut:
    """Answers the questions of the page's try box, with the operator's key."""

    def __init__(self, service: Service) -> None:
        self._service = service

    def __call__(self, question: TryQuestion) -> AsyncIterator[Event]:
        try:
            guard = self._service.guards.choose(question.guard or None, question.model)
        except ApiError as error:
            raise ConfigurationError(str(error)) from None
        body: dict[str, Any] = {"messages": [{"role": "user", "content": question.question}]}
        if question.model:
            body["model"] = question.model
        upstream = guard.required_upstream
        headers = {"content-type": "application/json", **upstream.credentials({}, CHAT.KEY_HEADER)}
        generator = UpstreamGenerator(
            upstream, CHAT, CHAT.read_request(body), length=1, headers=headers, models=guard.attempt_models
        )
        return attempts_of(guard.loop.with_generator(generator), question.question)
