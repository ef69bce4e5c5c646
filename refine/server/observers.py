"""What watches the guard: metrics, a line a request, the record with its labels, and the page that shows it."""

from __future__ import annotations

import asyncio
import inspect
import logging
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
from typing import Any

import structlog
from prometheus_client import CollectorRegistry, Gauge, Metric, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString
from starlette.routing import BaseRoute

from graphs import Outcome, Policy
from judges.catalogue.names import imported, is_reference
from judges.errors import ConfigurationError
from judges.runtime.faults import logging_safely
from judges.verdict import Usage, Verdict
from refine.logs import log_line
from refine.page.routes import Event, OneTimeLink, TryQuestion, attempts_of, page_routes
from refine.process import see_modules_here
from refine.promise import PromiseWatch
from refine.record import DatabaseRecord, Origin, Recorder, open_record
from refine.record.rows import Redact
from refine.server.access import Caller
from refine.server.assembly import secret_of
from refine.server.config import ServerSettings
from refine.server.dialects import CHAT
from refine.server.dialects.protocol import GuardReply, Json
from refine.server.errors import ApiError
from refine.server.guards import ServedGuard
from refine.server.service import Client, Exchange, PostRoute, ServedRequest, Service, report_unexpected, respond
from refine.server.upstream import UpstreamGenerator

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


LABELS_PATH = "/v1/labels"
_LABEL_FIELDS: Mapping[str, tuple[type, ...]] = {
    "id": (str,),
    "attempt": (int,),
    "by": (str,),
    "rating": (int,),
    "up": (bool,),
    "note": (str,),
}
_WRITING_S = 2.0


class LabelRoute(PostRoute):
    """Takes a label: `{"id": refine.id of the reply, "up": false}`, or `"rating"`, with `"by"` and `"note"`.

    A label that names no attempt is about the answer that went out. Labels can end a promise, so a key must be let
    to give them (`labels = true`); without any keys this machine alone may.

    Args:
        service: What the routes share.
        record: Where labels go; None where there is no database.
        promises: Told at once, by name of the guard.
    """

    def __init__(
        self, service: Service, record: DatabaseRecord | None, promises: Mapping[str, PromiseWatch]
    ) -> None:
        super().__init__(service)
        self._record, self._promises = record, promises

    async def serve(self, exchange: Exchange, body: Json, caller: Caller, client: Client) -> GuardReply | None:
        """Save one label; see the base class."""
        if self._record is None:
            raise ApiError(404, "labels go into a record in a database; set `record`", code="no_record")
        is_allowed = caller.may_label if self._service.keys else exchange.incoming.is_local
        if not is_allowed:
            text = "labels are taken from keys with `labels = true`, and without keys from this machine alone"
            raise ApiError(403, text, code="key_wanted")
        _check_label(body)
        work = asyncio.to_thread(self._save, self._record, body, caller)
        return await respond(
            work, client, CHAT, keep_alive_s=None, catch=_refuse_label, running=self._service.running
        )

    def _save(self, record: DatabaseRecord, body: Json, caller: Caller) -> GuardReply:
        identifier = body["id"]
        outcome = record.outcome(identifier)
        if outcome is None:  # it may wait to be written
            record.flush(_WRITING_S)
            outcome = record.outcome(identifier)
        attempt = body.get("attempt", outcome and outcome["released"])
        if outcome is None or attempt is None:
            raise ApiError(404, "the record holds no such answer, or none that went out", code="unknown_answer")
        by = "/".join(name for name in (caller.name, body.get("by", "").strip() or _anonym(body)) if name)
        said: Json = {name: body[name] for name in ("rating", "up", "note") if name in body}
        record.label(identifier, attempt, by=by, **said)
        reply: Json = {"id": identifier, "attempt": attempt, "by": by, **said}
        watch = self._promises.get(outcome["refiner"] or "")
        standing = None if watch is None else watch.look()
        if standing is not None:
            reply["promise"] = {"state": standing.state, "threshold": standing.threshold, "text": str(standing)}
        return GuardReply(200, reply)


def _anonym(body: Json) -> str:
    """Return a name for whoever gives none; another label has another, as it may be another person's."""
    words = [str(body["rating"])] if "rating" in body else []
    words += ["up" if body["up"] else "down"] if "up" in body else []
    return f"somebody: {', '.join(words)}"


def _check_label(body: Json) -> None:
    """Check a label's fields.

    Raises:
        ApiError: If one is unknown, missing or of another type.
    """
    wrong = [
        name for name, value in body.items() if name not in _LABEL_FIELDS or type(value) not in _LABEL_FIELDS[name]
    ]
    if wrong or "id" not in body or not {"rating", "up"} & body.keys():
        text = 'a label has "id" (refine.id of a reply) and "up" or "rating"; it may have attempt, by and note'
        raise ApiError(400, text, code="invalid", param=wrong[0] if wrong else None)


def _refuse_label(error: Exception) -> ApiError:
    if isinstance(error, ConfigurationError):
        return ApiError(400, str(error), code="invalid")
    return report_unexpected(error)


def make_page(
    settings: ServerSettings,
    service: Service,
    record: Recorder | None,
    link: OneTimeLink,
    promises: Mapping[str, PromiseWatch],
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
    try_out = None if all(guard.upstream is None for guard in service.guards) else partial(_try_out, service)
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


def _try_out(service: Service, question: TryQuestion) -> AsyncIterator[Event]:
    """Answer a question of the page's try box, with the operator's key."""
    try:
        guard = service.guards.choose(question.guard or None, question.model)
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
