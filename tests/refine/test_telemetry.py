"""Spans, evaluation events and log lines, as an application with OpenTelemetry's SDK gets them."""

from __future__ import annotations

import io
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from threading import Barrier
from typing import Any

import pytest
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from opentelemetry import _logs, trace
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import StatusCode

from judges import Panel, Verdict
from judges.models.providers.http import with_trace
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine
from refine.logs import log_json_lines, request_log
from refine.telemetry import continued_trace, trace_question
from tests.snippets import ROOT

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


class Exported:
    """What the SDK exported."""

    def __init__(self) -> None:
        self.spans_exporter = InMemorySpanExporter()
        self.logs_exporter = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]  # the SDK's

    @property
    def spans(self) -> dict[str, list[ReadableSpan]]:
        """The spans by name, in the order of their start."""
        spans: dict[str, list[ReadableSpan]] = {}
        for span in sorted(self.spans_exporter.get_finished_spans(), key=lambda span: span.start_time or 0):
            spans.setdefault(span.name, []).append(span)
        return spans

    @property
    def events(self) -> list[Any]:
        """The evaluation events."""
        return [data.log_record for data in self.logs_exporter.get_finished_logs()]


@pytest.fixture
def exported(monkeypatch: pytest.MonkeyPatch) -> Iterator[Exported]:
    """Set up OpenTelemetry's SDK for one test."""
    exported = Exported()
    traces, logs = TracerProvider(), LoggerProvider()
    traces.add_span_processor(SimpleSpanProcessor(exported.spans_exporter))
    logs.add_log_record_processor(SimpleLogRecordProcessor(exported.logs_exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", traces)
    monkeypatch.setattr(_logs._internal, "_LOGGER_PROVIDER", logs)
    yield exported
    traces.shutdown()
    logs.shutdown()


def attributes(span: ReadableSpan) -> dict[str, Any]:
    """Return a span's attributes."""
    return dict(span.attributes or {})


@pytest.mark.parametrize("saved", [False, True])
async def test_a_question_is_a_trace(exported: Exported, saved: bool) -> None:  # noqa: FBT001 - pytest passes it
    """Loop, attempts and judges are spans of one trace, with and without a graph, sync and async."""
    model = ScriptedModel(["SECRET draft", "SECRET answer"], cycle=True)
    panel = Panel(
        [ScriptedJudge([(1, "SECRET feedback"), 4], cycle=True, name=name) for name in ("a", "b")], name="p"
    )
    asked = SelfRefine(model, panel, name="helpdesk", checkpointer=InMemorySaver() if saved else None)
    for number in range(2):
        config: Any = {"configurable": {"thread_id": str(number)}}
        outcome = await asked.arefine("SECRET?", config) if number else asked.refine("SECRET?", config)
    spans = exported.spans
    assert {name: len(group) for name, group in spans.items()} == {
        "refine helpdesk": 2,
        "attempt": 4,
        "judge p": 4,
        "judge a": 4,
        "judge b": 4,
    }
    loop = spans["refine helpdesk"][1]
    figures = attributes(loop)
    assert figures["refine.outcome_id"] == outcome.id
    assert (figures["refine.passed"], figures["refine.attempts"], figures["refine.stop_reason"]) == (
        True,
        2,
        "accepted",
    )
    for name in ("attempt", "judge p"):
        assert [span.parent.span_id for span in spans[name][2:] if span.parent] == [loop.context.span_id] * 2
    assert {span.parent.span_id for span in spans["judge a"] if span.parent} == {
        span.context.span_id for span in spans["judge p"]
    }
    assert [attributes(span)["refine.attempt"] for span in spans["attempt"]] == [1, 2, 1, 2]
    assert "SECRET" not in str([attributes(span) for group in spans.values() for span in group])


def test_evaluations_are_events_of_the_judged_attempt(exported: Exported) -> None:
    """Each verdict is `gen_ai.evaluation.result` with name, score and label; its words are left out."""
    judge = ScriptedJudge([(1, "more"), 4, OSError()], cycle=True, name="j")
    SelfRefine(ScriptedModel(["a", "b"]), judge).invoke("?")
    SelfRefine(ScriptedModel(["c"]), judge, log_texts=True).invoke("?")
    assert {event.event_name for event in exported.events} == {"gen_ai.evaluation.result"}
    assert [event.attributes["gen_ai.evaluation.score.label"] for event in exported.events] == [
        "fail",
        "pass",
        "error",
    ]
    assert [event.attributes.get("gen_ai.evaluation.score.value") for event in exported.events] == [0.0, 1.0, None]
    assert exported.events[2].attributes["error.type"] == "judge_failed"
    assert all(event.attributes["gen_ai.evaluation.name"] == "j" for event in exported.events)
    attempts = [span.context.span_id for span in exported.spans["attempt"]]
    assert [event.span_id for event in exported.events] == attempts
    assert not [event for event in exported.events if "gen_ai.evaluation.explanation" in event.attributes]


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_draft_beside_others_or_in_pieces_has_its_own_evaluations(
    exported: Exported, *, is_async: bool
) -> None:
    """What a judge says of one of several candidates, or of a piece, belongs to that draft, not to the last."""
    both = Barrier(2)
    first, second = ScriptedModel(["first"], name="first"), ScriptedModel(["second"], name="second")

    def judge(answer: str) -> bool:
        both.wait(60)  # both are drafted before one is judged
        return answer == "second"

    candidates = SelfRefine(first, judge, candidates=2, overrides={1: [{}, {"model": second}]})
    assert (await candidates.ainvoke("?") if is_async else candidates.invoke("?")).text == "second"
    assert _scores_of(exported) == {"first": [0.0], "second": [1.0]}

    script = [AIMessage(text, response_metadata={"model_name": text[:3]}) for text in ("One. BAD.", "Two.")]
    settings: Any = {"release": "pieces", "piece_chars": 1}
    pieces = SelfRefine(
        ScriptedModel(script), ScriptedJudge([4]), piece_judge=lambda answer: "BAD" not in answer, **settings
    )
    assert (await pieces.ainvoke("?") if is_async else pieces.invoke("?")).text == "One. Two."
    assert sorted(_scores_of(exported)["One"]) == [0.0, 1.0]
    assert _scores_of(exported)["Two"] == [1.0, 1.0]


def _scores_of(exported: Exported) -> dict[str, list[float]]:
    """Return what the events say of each attempt, by the model that its span names."""
    spans = {span.context.span_id: attributes(span)["gen_ai.response.model"] for span in exported.spans["attempt"]}
    scores: dict[str, list[float]] = {model: [] for model in spans.values()}
    for event in exported.events:
        scores[spans[event.span_id]].append(event.attributes["gen_ai.evaluation.score.value"])
    return scores


def test_a_rationale_is_sent_on_request_alone(exported: Exported) -> None:
    """With `log_texts` the explanation is there, without what only the judge may see."""
    judge = ScriptedJudge([Verdict.rated(4, rationale="It says the secret reference, as expected.")], cycle=True)
    for log_texts in (False, True):
        asked = SelfRefine(ScriptedModel(["x"]), judge, log_texts=log_texts)
        asked.invoke("?", evidence={"reference": "the secret reference"})
    first, second = (event.attributes.get("gen_ai.evaluation.explanation") for event in exported.events)
    assert first is None
    assert second is not None
    assert "as expected" in second
    assert "the secret reference" not in second


def test_errors_are_spans_without_their_text(exported: Exported) -> None:
    """A failing generator marks its attempt and the loop by the kind of the error."""
    with pytest.raises(Exception, match="generator"):
        SelfRefine(ScriptedModel([OSError("SECRET")]), ScriptedJudge([])).invoke("?")
    (loop,), (attempt,) = exported.spans["refine SelfRefine"], exported.spans["attempt"]
    assert attributes(attempt)["error.type"] == "OSError"
    assert attributes(loop)["error.type"] == "GeneratorFailed"
    assert attributes(loop)["refine.stop_reason"] == "generator_failed"
    assert loop.status.status_code is attempt.status.status_code is StatusCode.ERROR
    assert "SECRET" not in str([span.to_json() for span in (loop, attempt)])


def test_traces_come_in_and_go_out(exported: Exported) -> None:
    """A caller's `traceparent` becomes the parent; what is called gets the current span's, in its place."""
    inside: list[Any] = []

    def generate(messages: Any) -> str:
        inside.append(with_trace({"Traceparent": PARENT, "x": "y"}))
        return "draft"

    with continued_trace({"Traceparent": PARENT}), request_log("r-1"):
        SelfRefine(generate, ScriptedJudge([4])).invoke("?")
    (loop,), (attempt,) = exported.spans["refine SelfRefine"], exported.spans["attempt"]
    assert loop.parent is not None
    assert f"{loop.context.trace_id:032x}-{loop.parent.span_id:016x}" in PARENT
    assert attributes(loop)["refine.request_id"] == "r-1"
    assert inside == [
        {"x": "y", "traceparent": f"00-{loop.context.trace_id:032x}-{attempt.context.span_id:016x}-01"}
    ]
    assert with_trace({"x": "y"}) == {"x": "y"}
    assert with_trace(None) is None


def test_without_a_set_up_nothing_is_loaded() -> None:
    """A question loads nothing to report with; where only the API is there, one shared object does nothing."""
    program = (
        "import sys\nfrom refine import SelfRefine\nfrom judges.testing import ScriptedJudge\n"
        "from refine.telemetry import trace_question\n"
        "SelfRefine(lambda _: 'x', ScriptedJudge([4])).invoke('?')\n"
        "ours = ('opentelemetry._logs', 'opentelemetry.propagat')\n"
        "own = [name for name in sys.modules if name.startswith(ours)]\n"
        "same = trace_question('a') is trace_question('b')\n"
        "from opentelemetry import trace\nsame = same and trace_question('a') is trace_question('b')\n"
        "print(own, same)"
    )
    done = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] True"
    assert trace_question("a") is trace_question("b")


def test_the_log_is_json_lines_with_the_request(exported: Exported) -> None:
    """Progress, and warnings of the standard logger, are JSON, one line each, with request, trace and outcome."""
    out = io.StringIO()
    log_json_lines(out)
    with request_log("r-1"), continued_trace({"traceparent": PARENT}):
        outcome = SelfRefine(lambda _: "SECRET", ScriptedJudge([4])).refine("SECRET?")
        logging.getLogger("refine").warning("%d rows", 3)
    lines = [json.loads(line) for line in out.getvalue().splitlines()]
    assert [line["event"] for line in lines] == ["start", "attempt", "verdict", "finish", "3 rows"]
    assert {line["request_id"] for line in lines} == {"r-1"}
    assert {line["trace_id"] for line in lines} == {PARENT.split("-")[1]}
    assert {line.get("outcome_id") for line in lines[:4]} == {outcome.id}
    assert "SECRET" not in out.getvalue()
    logging.getLogger("refine").warning("later")
    assert "request_id" not in json.loads(out.getvalue().splitlines()[-1])
