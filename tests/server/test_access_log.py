"""The log of requests, and requests without an answer in the record: what became of each, and why."""

from __future__ import annotations

import io
import json
import logging
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from judges import ConfigurationError
from refine.logs import log_json_lines, log_line, request_log
from refine.record import DatabaseRecord
from refine.server.running import _trace_as_the_environment_says
from tests.guarding import guarding, wait_until
from tests.model_server import ModelServer, Reply, answered, in_turn, serving


@pytest.fixture
def upstream() -> Iterator[ModelServer]:
    """Start an upstream whose first answer is bad."""
    with serving(in_turn(Reply("bad"), Reply("good"))) as server:
        yield server


def lines_of(out: io.StringIO) -> list[dict[str, Any]]:
    """Return the lines of the log."""
    return [json.loads(line) for line in out.getvalue().splitlines()]


def test_one_line_a_request(upstream: ModelServer, tmp_path: Path) -> None:
    """Answered, passed through, refused and unknown requests have a line each: no text of them, no empty field."""
    out, record = io.StringIO(), tmp_path / "record.db"
    log_json_lines(out, level=logging.INFO)
    logging.getLogger("refine").setLevel(logging.WARNING)
    logging.getLogger("refine.access").setLevel(logging.INFO)
    with guarding(upstream.url, record=str(record), success_rating=4) as guard:
        guard.chat(headers={"x-request-id": "first"})
        upstream.reply = lambda _: answered({"data": []})
        guard.post("/v1/embeddings", {"input": "SECRET", "model": "e", "messages": []})
        guard.post("/v1/chat/completions", {"messages": "SECRET"})
        guard.post("/v1/files/../chat/completions", {"input": "SECRET"})
        wait_until(lambda: len(lines_of(out)) >= 4)
    lines = lines_of(out)
    assert {line["event"] for line in lines} == {"request"}
    assert not [name for line in lines for name, value in line.items() if value in (None, "")]
    first, passed, *refused = lines
    assert {name: first[name] for name in ("status", "path", "ended", "rating", "attempts", "request_id")} == {
        "status": 200,
        "path": "/v1/chat/completions",
        "ended": "accepted",
        "rating": 4,
        "attempts": 2,
        "request_id": "first",
    }
    assert first["seconds"] > 0
    assert (passed["ended"], passed["path"]) == ("passed_through", "/v1/embeddings")
    assert all(line["status"] >= 400 and line["ended"].startswith("error_") and line["reason"] for line in refused)
    assert "SECRET" not in out.getvalue()
    with DatabaseRecord(f"sqlite:///{record}") as kept:
        rows = {row["stop_reason"]: row for row in kept.outcomes()}
        figures = kept.figures()
        (table,) = kept.table("refiner")
    assert "passed_through" in rows
    assert rows["passed_through"]["detail"].startswith("POST /v1/embeddings")
    assert (figures["outcomes"], figures["passed"], figures["requests"]["passed_through"]) == (1, 1, 1)
    assert (table["outcomes"], table["passed_through"]) == (1, 1)


def test_a_line_is_the_same_past_the_machinery_of_logging() -> None:
    """Where a filter takes part, structlog writes the line, with the same fields in their order."""
    out, logger = io.StringIO(), logging.getLogger("refine.access")
    log_json_lines(out, level=logging.INFO)
    logger.setLevel(logging.INFO)
    with request_log("asked"):
        log_line(logger, "request", {"status": 200, "path": "é\u2028"})
        logger.addFilter(kept := logging.Filter())
        try:
            log_line(logger, "request", {"status": 200, "path": "é\u2028"})
        finally:
            logger.removeFilter(kept)
    first, second = ({**line, "timestamp": len(line["timestamp"])} for line in lines_of(out))
    assert list(first.items()) == list(second.items())
    assert first["request_id"] == "asked"


def test_the_reason_is_the_true_one(upstream: ModelServer) -> None:
    """An answer that passes unjudged says why: not that it was sampled."""
    out = io.StringIO()
    log_json_lines(out, level=logging.INFO)
    with guarding(upstream.url, record=None, unjudged="pass") as guard:
        guard.post("/v1/chat/completions", {"model": "m", "messages": [{"role": "assistant", "content": "I"}]})
        wait_until(lambda: any(line["event"] == "request" for line in lines_of(out)))
    (line,) = (line for line in lines_of(out) if line["event"] == "request")
    assert line["ended"] == "skipped"
    assert line["reason"]
    assert "sample_rate" not in line["reason"]


def test_a_request_is_a_span_of_a_server(
    upstream: ModelServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It continues the caller's trace, has status, model and provider, and its id stands in the record."""
    exporter, provider, record = InMemorySpanExporter(), TracerProvider(), tmp_path / "record.db"
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    parent = "0af7651916cd43dd8448eb211c80319c"
    with guarding(upstream.url, record=str(record), success_rating=4) as guard:
        guard.chat(headers={"traceparent": f"00-{parent}-b7ad6b7169203331-01"})
        guard.post("/v1/chat/completions", {"messages": "SECRET"})
        guard.post("/v1/embeddings", {"model": "m", "input": "S"}, headers={"content-type": "application/json"})
    served, refused, passed = (
        span for span in exporter.get_finished_spans() if span.kind is trace.SpanKind.SERVER
    )
    attributes = dict(served.attributes or {})
    assert served.name == "POST /v1/chat/completions"
    assert {name: attributes[name] for name in attributes if name.startswith(("gen_ai", "http.response"))} == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.provider.name": "openai",
        "http.response.status_code": 200,
    }
    assert dict(refused.attributes or {})["http.response.status_code"] == 400
    assert passed.name == "POST /v1/*"
    assert dict(passed.attributes or {})["http.response.status_code"] == 200
    with DatabaseRecord(f"sqlite:///{record}") as kept:
        traces = {row["stop_reason"]: (kept.outcome(row["id"]) or {})["trace_id"] for row in kept.outcomes()}
    assert traces["passed_through"] == f"{passed.context.trace_id:032x}"
    assert traces["accepted"] == parent == f"{served.context.trace_id:032x}"


def test_tracing_is_set_up_by_the_environment() -> None:
    """Without its variables nothing is; what cannot be done is said in a line."""
    for nothing in ({}, {"OTEL_TRACES_EXPORTER": "none"}, {"OTEL_SDK_DISABLED": "true", **OTLP}):
        _trace_as_the_environment_says(nothing)()
    with pytest.raises(ConfigurationError, match=r"zipkin.*set otlp, console or none"):
        _trace_as_the_environment_says({"OTEL_TRACES_EXPORTER": "zipkin"})
    with pytest.raises(ConfigurationError, match=r"grpc.*http/protobuf"):
        _trace_as_the_environment_says({**OTLP, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"})


OTLP = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}


def test_no_client_writes_a_line_of_its_own(upstream: ModelServer, caplog: pytest.LogCaptureFixture) -> None:
    """What a request names ends no line, passes for no other field, and can be written by every log."""
    caplog.set_level(logging.INFO, "refine.access")
    with guarding(upstream.url) as guard:
        guard.chat(model="m\nrequest status=200 \ud800")
        wait_until(lambda: bool(caplog.records))
    (line,) = [record.message for record in caplog.records]
    assert line.isprintable()
    assert line.encode()
    names = [word.partition("=")[0] for word in shlex.split(line)[1:]]
    assert len(names) == len({*names})
    assert "model" in names
