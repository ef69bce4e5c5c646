"""Spans and events for OpenTelemetry: a question, its attempts, its judges, and what these said.

Only the API is used, and only once the application has set up tracing; until then nothing is loaded and nothing
costs anything. Texts are not sent, but for a verdict's rationale where the policy says `log_texts`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from contextvars import ContextVar
from functools import lru_cache
from typing import TYPE_CHECKING

import structlog
from langgraph.errors import GraphBubbleUp

from graphs import Outcome, outcome_of
from graphs.answers import Draft
from graphs.drivers import Watcher, watcher
from graphs.redaction import withhold
from judges import Sample, Verdict
from judges.requests import Deliberates
from judges.runtime.observation import Observer, observing, setting
from judges.verdict import Usage

if TYPE_CHECKING:
    from opentelemetry._logs import Logger
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, Tracer, TracerProvider
    from opentelemetry.util.types import AttributeValue

_EVALUATION = "gen_ai.evaluation"
"""Prefix of the evaluation's attributes; their convention is still in development, hence constants of our own."""
_NAME = "refine"


def trace_question(refiner: str, *, texts: bool = False) -> AbstractContextManager[Callable[[Outcome], None]]:
    """Trace all that happens to one question in a `with` block, which yields what to call with the outcome.

    Args:
        refiner: Name of the refiner or guard.
        texts: Whether rationales may be sent.
    """
    tracer = _tracer()
    return _NOTHING if tracer is None else _trace(tracer, refiner, texts=texts)


def continued_trace(headers: Mapping[str, str]) -> AbstractContextManager[None]:
    """Go on, in a `with` block, with the trace that a caller's headers name (`traceparent`)."""
    return nullcontext() if _tracer() is None else _continue(headers)


class _RequestSpan:
    """The span of one request to a server.

    Args:
        span: The span; None where nothing is traced.

    Attributes:
        trace_id: Id of its trace; empty where nothing is traced.
    """

    def __init__(self, span: Span | None = None) -> None:
        self._span = span
        context = None if span is None else span.get_span_context()
        self.trace_id = f"{context.trace_id:032x}" if context is not None and context.is_valid else ""

    def ask(self, *, model: str, provider: str) -> None:
        """Say which model of whom is asked."""
        if self._span is not None:
            _set(
                self._span,
                {
                    "gen_ai.operation.name": "chat",
                    "gen_ai.request.model": model or None,
                    "gen_ai.provider.name": provider or None,
                },
            )

    def answer(self, status: int | None) -> None:
        """Say with which status it was answered; None where the client left."""
        if self._span is None:
            return
        from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 - loaded already, by the application

        _set(self._span, {"http.response.status_code": status})
        if status is None or status >= 500:  # noqa: PLR2004 - HTTP's errors of servers
            _set(self._span, {"error.type": "client_left" if status is None else str(status)})
            self._span.set_status(Status(StatusCode.ERROR))


UNTRACED = _RequestSpan()


def trace_request(
    method: str, path: str, headers: Mapping[str, str], *, route: str = ""
) -> AbstractContextManager[_RequestSpan]:
    """Trace a request to a server in a `with` block, as part of the trace that its headers name, if any.

    The span is named after `route`, or the path where that is one of few.
    """
    tracer = _tracer()
    return nullcontext(UNTRACED) if tracer is None else _trace_request(tracer, method, path, headers, route)


@contextmanager
def _trace_request(
    tracer: Tracer, method: str, path: str, headers: Mapping[str, str], route: str
) -> Iterator[_RequestSpan]:
    from opentelemetry.trace import SpanKind  # noqa: PLC0415 - loaded already, by the application

    attributes = {"http.request.method": method, "url.path": path}
    with (
        _continue(headers),
        tracer.start_as_current_span(
            f"{method} {route or path}",
            kind=SpanKind.SERVER,
            attributes=attributes,
            record_exception=False,
        ) as span,
    ):
        yield _RequestSpan(span)


_NOTHING: AbstractContextManager[Callable[[Outcome], None]] = nullcontext(lambda _: None)


def _tracer() -> Tracer | None:
    """Return where to report spans; None while the application has not set up tracing."""
    trace = sys.modules.get("opentelemetry.trace")
    if trace is None:
        return None
    return _tracer_of(trace.get_tracer_provider())


@lru_cache(maxsize=4)
def _tracer_of(provider: TracerProvider) -> Tracer | None:
    from opentelemetry.trace import NoOpTracerProvider, ProxyTracerProvider  # noqa: PLC0415 - loaded already

    is_unset = isinstance(provider, ProxyTracerProvider | NoOpTracerProvider)
    return None if is_unset else provider.get_tracer(_NAME)


@contextmanager
def _continue(headers: Mapping[str, str]) -> Iterator[None]:
    from opentelemetry import context, propagate  # noqa: PLC0415 - loaded already, by the application

    token = context.attach(propagate.extract({name.lower(): text for name, text in headers.items()}))
    try:
        yield
    finally:
        context.detach(token)


@contextmanager
def _trace(tracer: Tracer, refiner: str, *, texts: bool) -> Iterator[Callable[[Outcome], None]]:
    question = _QuestionSpans(tracer, texts=texts)
    with ExitStack() as stack:
        span = stack.enter_context(_span(tracer, f"refine {refiner}"))
        attempts: Watcher = question.attempt
        stack.enter_context(setting(watcher, attempts))
        stack.enter_context(setting(_judged, None))
        judges: Observer = question.judge
        stack.enter_context(observing(observer=judges))
        bound = structlog.contextvars.get_contextvars()
        _set(span, {"refine.name": refiner, **{name: bound.get(field) for name, field in _REQUEST.items()}})
        try:
            yield lambda outcome: _set(span, _of_outcome(outcome))
        except BaseException as error:
            outcome = outcome_of(error)
            _set(span, {} if outcome is None else _of_outcome(outcome))
            raise


_REQUEST = {
    "refine.request_id": "request_id",
    "refine.key": "key",
    "user.id": "user",
    "session.id": "session",
    "gen_ai.conversation.id": "thread",
}
"""Attributes of a question's span, by the field of the log that they are."""


_Judged = tuple["Context | None", str | None]
"""The context of a draft's span, and the id of the reply that the draft is."""

_judged: ContextVar[_Judged | None] = ContextVar("refine.judged", default=None)


class _QuestionSpans:
    """The spans of one question.

    Args:
        tracer: Where they are reported.
        texts: Whether rationales may be sent.
    """

    def __init__(self, tracer: Tracer, *, texts: bool) -> None:
        self._tracer = tracer
        self._texts = texts
        self._last: _Judged = (None, None)

    @contextmanager
    def attempt(self, number: int) -> Iterator[Callable[[object], None]]:
        """Trace the generation of one draft, which is what the judges' evaluations are about."""
        with _span(self._tracer, "attempt") as span:
            _set(span, {"refine.attempt": number})
            self._be_judged(span, None)  # pieces are, while the rest is written

            def on_draft(draft: object) -> None:
                if isinstance(draft, Draft):
                    self._be_judged(span, _response_id(draft))
                    _set(span, _of_draft(draft))

            yield on_draft

    def _be_judged(self, span: Span, response_id: str | None) -> None:
        """Note which draft is judged from here on: in this context, where others are written beside it."""
        from opentelemetry.trace import set_span_in_context  # noqa: PLC0415 - loaded already, by the application

        self._last = (set_span_in_context(span), response_id)
        _judged.set(self._last)

    @contextmanager
    def judge(self, judge: Deliberates, sample: Sample) -> Iterator[Callable[[Verdict], None]]:
        """Trace one judge, members of a panel included, and report its evaluation of the draft."""
        with _span(self._tracer, f"judge {judge.name}") as span:

            def on_verdict(verdict: Verdict) -> None:
                figures = _of_verdict(verdict)
                _set(span, {**figures, **_of_usage(verdict.usage), "gen_ai.response.model": verdict.model})
                self._emit(verdict, figures, sample)

            yield on_verdict

    def _emit(self, verdict: Verdict, figures: Mapping[str, AttributeValue | None], sample: Sample) -> None:
        from opentelemetry._logs import LogRecord, SeverityNumber  # noqa: PLC0415 - loaded by the API itself

        context, response_id = _judged.get() or self._last  # a node of a graph has a context of its own
        attributes = {**figures, "gen_ai.response.id": response_id}
        if self._texts and verdict.rationale:
            evidence = sample.model_dump(mode="json", exclude_unset=True, exclude={"user_input", "response"})
            attributes[f"{_EVALUATION}.explanation"] = withhold(verdict.rationale, evidence)
        record = LogRecord(
            event_name=f"{_EVALUATION}.result",
            context=context,
            severity_number=SeverityNumber.INFO,
            attributes=_present(attributes),
        )
        _logger().emit(record)


@contextmanager
def _span(tracer: Tracer, name: str) -> Iterator[Span]:
    """Open a span; an error is reported by its kind alone, as its text may quote what must not leave."""
    from opentelemetry.trace import Status, StatusCode  # noqa: PLC0415 - loaded already, by the application

    with tracer.start_as_current_span(name, record_exception=False, set_status_on_exception=False) as span:
        try:
            yield span
        except GraphBubbleUp:  # it waits for a human, or goes on elsewhere
            raise
        except BaseException as error:
            _set(span, {"error.type": type(error).__name__})
            span.set_status(Status(StatusCode.ERROR))
            raise


def _logger() -> Logger:
    from opentelemetry._logs import get_logger  # noqa: PLC0415 - loaded by the API itself

    return get_logger(_NAME)


def _of_outcome(outcome: Outcome) -> dict[str, AttributeValue | None]:
    return {
        "refine.outcome_id": outcome.id,
        "refine.passed": outcome.passed,
        "refine.stop_reason": outcome.stop_reason,
        "refine.attempts": len(outcome.attempts),
        "refine.released": outcome.released,
        "refine.cost_dollars": outcome.usage.cost,
        **_of_usage(outcome.usage),
    }


def _of_draft(draft: Draft) -> dict[str, AttributeValue | None]:
    metadata = draft.answer.response_metadata
    finish = metadata.get("finish_reason") or metadata.get("stop_reason")
    return {
        "gen_ai.response.id": _response_id(draft),
        "gen_ai.response.model": next((model for model, _ in draft.calls if model), None),
        "gen_ai.response.finish_reasons": (str(finish),) if finish else None,
        **_of_usage(sum((usage for _, usage in draft.calls), Usage())),
    }


def _response_id(draft: Draft) -> str | None:
    """Return the provider's id of the reply, or LangChain's of the message."""
    provider_id = draft.answer.response_metadata.get("id")
    return provider_id if isinstance(provider_id, str) else draft.answer.id


def _of_verdict(verdict: Verdict) -> dict[str, AttributeValue | None]:
    label = "error" if verdict.passed is None else "pass" if verdict.passed else "fail"
    return {
        f"{_EVALUATION}.name": verdict.judge,
        f"{_EVALUATION}.score.value": verdict.score,
        f"{_EVALUATION}.score.label": label,
        "refine.rating": verdict.rating,
        "error.type": verdict.unscored,
    }


def _of_usage(usage: Usage) -> dict[str, AttributeValue | None]:
    has_tokens = usage.tokens_known and usage.tokens
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens if has_tokens else None,
        "gen_ai.usage.output_tokens": usage.output_tokens if has_tokens else None,
    }


def _present(attributes: Mapping[str, AttributeValue | None]) -> dict[str, AttributeValue]:
    return {name: value for name, value in attributes.items() if value is not None}


def _set(span: Span, attributes: Mapping[str, AttributeValue | None]) -> None:
    if span.is_recording():
        span.set_attributes(_present(attributes))
