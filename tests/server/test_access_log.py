"""The log of requests, and requests without an answer in the record: what became of each, and why."""

from __future__ import annotations

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from refine.logs import log_json_lines
from refine.record import DatabaseRecord
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
    """Answered, passed through, refused and unknown requests have a line each, which quotes no text of them."""
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
