"""Attempts are written down as rows of a dataset."""

from __future__ import annotations

import itertools
import json
import logging
import shutil
import sqlite3
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
import structlog

from graphs import GeneratorFailed, JudgeFailed, NotAccepted, Outcome, Unanswered
from judges import ConfigurationError, Sample
from judges.messages import ToolCall
from judges.offline import evaluate
from judges.offline.dataset.reading import read_rows
from judges.testing import ScriptedJudge, ScriptedModel
from refine import SelfRefine, losses
from refine.record import DatabaseRecord
from refine.record.rows import Record
from tests.guarding import wait_until
from tests.refine.records import run_sql

LONE = "half a pair \ud83d, and the other \ude00"
TWO = ["draft 1", "draft 2"]


def rows(path: Path) -> list[Sample]:
    """Read a record as the offline side does."""
    return list(read_rows(path))


def refiner(path: Path, *ratings: object, drafts: Sequence[str] = ("draft",), **settings: Any) -> SelfRefine:
    """Make a refiner that records."""
    said = itertools.cycle(drafts)
    return SelfRefine(lambda _: next(said), ScriptedJudge(ratings or [4], cycle=True), record=path, **settings)


def test_every_attempt_is_a_row(tmp_path: Path) -> None:
    """Each line is a sample that reads back as the outcome's own, with more of its attempt in the metadata.

    The file, which holds what people asked, is for its owner alone; it is continued, and a dataset as it is.
    """
    path = tmp_path / "attempts.jsonl"
    outcome = refiner(path, (1, "more"), 4, drafts=TWO).refine("what?", evidence={"reference": "truth"})
    assert [one.response for one in outcome.samples()] == TWO
    for row, sample in zip(rows(path), outcome.samples(), strict=True):
        assert row.model_copy(update={"metadata": {}}) == sample.model_copy(update={"metadata": {}})
        assert row.metadata.items() >= sample.metadata.items()
    assert len(path.read_text("utf-8").splitlines()) == 2
    assert path.stat().st_mode & 0o777 == 0o600
    refiner(path).invoke("second?")
    assert [one.question for one in rows(path)] == ["what?", "what?", "second?"]
    again = evaluate(read_rows(path), ScriptedJudge(lambda sample: sample.metadata["rating"]))
    assert [next(iter(one.verdicts.values())).rating for one in again.rows] == [1, 4, 4]


def test_threads_do_not_interleave(tmp_path: Path) -> None:
    """Attempts of one question stand together, whoever else writes at the same time, and no line is torn."""
    path = tmp_path / "attempts.jsonl"
    text = "long " * 5_000
    barrier = threading.Barrier(8)

    def ask(number: int) -> None:
        inner = SelfRefine(lambda _: f"{number} {text}", ScriptedJudge([1], cycle=True), record=path)
        barrier.wait()
        inner.batch([f"{number}?"] * 4)

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(ask, range(8)))
    attempts = [(str(one.response).split()[0], one.metadata["attempt"]) for one in rows(path)]
    assert len(attempts) == 8 * 4 * 3
    for first in range(0, len(attempts), 3):
        assert len({number for number, _ in attempts[first : first + 3]}) == 1
        assert [attempt for _, attempt in attempts[first : first + 3]] == [1, 2, 3]


async def test_errors_are_recorded(tmp_path: Path) -> None:
    """Runs that end in an error leave their attempts, with the reason, at every entrance."""
    path = tmp_path / "attempts.jsonl"
    strict = refiner(path, 1, max_attempts=1, on_exhausted="raise")
    with pytest.raises(NotAccepted):
        strict.invoke("invoke?")
    with pytest.raises(NotAccepted):
        await strict.ainvoke("ainvoke?")
    with pytest.raises(JudgeFailed):
        refiner(path, OSError(), on_judge_error="raise").refine("judge?")
    with pytest.raises(Unanswered):
        refiner(path, OSError(), on_judge_error="reject").invoke("reject?")
    assert [(one.question, one.metadata["stop_reason"]) for one in rows(path)] == [
        ("invoke?", "max_attempts"),
        ("ainvoke?", "max_attempts"),
        ("judge?", "judge_failed"),
        ("reject?", "judge_failed"),
    ]


def test_a_turn_without_a_rating(tmp_path: Path) -> None:
    """A generator that failed at once leaves nothing to write; a call of a tool is a row without a rating."""
    path = tmp_path / "attempts.jsonl"
    with pytest.raises(GeneratorFailed):
        SelfRefine(ScriptedModel([OSError()]), ScriptedJudge([4]), record=path).invoke("what?")
    assert not path.exists()
    SelfRefine(ScriptedModel([ToolCall(name="t")]), ScriptedJudge([]), record=path).invoke("what?")
    (row,) = rows(path)
    expected = {"attempt": 1, "kind": "tool_call", "stop_reason": "skipped"}
    assert row.metadata.items() >= expected.items()
    assert "rating" not in row.metadata


def test_every_text_and_number_reads_back(tmp_path: Path) -> None:
    """Half a surrogate pair as its JSON escape, other scripts as they are, a line end in one row, NaN as null."""
    path = tmp_path / "attempts.jsonl"
    drafts = [LONE, f"{LONE}, again"]
    asked = refiner(path, (1, LONE), 4, drafts=drafts)
    assert asked.invoke(f"what is {LONE}?", evidence={"reference": LONE}).text == drafts[1]
    assert [(one.question, one.response, one.reference) for one in rows(path)] == [
        (f"what is {LONE}?", draft, LONE) for draft in drafts
    ]
    evidence = {"metadata": {"distance": float("nan"), "near": 1.5}}
    refiner(path, drafts=["巴黎\nПариж\u2028\\ud83d 😀"]).invoke("где?", evidence=evidence)
    *_, line, end = path.read_text("utf-8").split("\n")
    assert "巴黎" in line
    assert end == ""
    assert json.loads(line)["response"] == "巴黎\nПариж\u2028\\ud83d 😀"
    read = rows(path)[-1].metadata
    assert {name: read[name] for name in ("distance", "near")} == {"distance": None, "near": 1.5}


def test_a_record_alone_takes_outcomes(tmp_path: Path) -> None:
    """Without a refiner, too; a place that cannot be written is refused before any answer is paid for."""
    outcome: Outcome = SelfRefine(lambda _: "yes", lambda response: 4).refine("what?")
    record = Record(str(tmp_path / "attempts.jsonl"))
    record.add(outcome)
    record.add(outcome)
    assert len(rows(tmp_path / "attempts.jsonl")) == 2
    for place in (".", "missing/attempts.jsonl"):
        with pytest.raises(ConfigurationError, match="record is a file in a folder that exists, not"):
            refiner(tmp_path / place)


REASONS = {
    "full disk": "No space left on device",
    "deleted folder": "No such file or directory",
    "a folder in its place": "Is a directory",
}


@pytest.mark.parametrize("fault", REASONS)
async def test_a_record_that_cannot_be_written_costs_no_answer(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, fault: str
) -> None:
    """The answer goes out at every entrance; the lost rows are counted, and a WARNING names the file, no text."""
    path = tmp_path / "folder" / "attempts.jsonl"
    path.parent.mkdir()
    place = Path("/dev/full") if fault == "full disk" else path
    asked, strict = refiner(place, 1, 4), refiner(place, 1, max_attempts=1, on_exhausted="raise")
    if fault == "deleted folder":
        shutil.rmtree(path.parent)
    elif fault == "a folder in its place":
        path.mkdir()
    before = losses()["rows"]
    assert asked.invoke("secret question?").text == "draft"
    assert (await asked.ainvoke("secret question?")).text == "draft"
    with pytest.raises(NotAccepted):
        strict.invoke("secret question?")
    assert losses()["rows"] - before == 2 + 2 + 1
    assert [record.levelname for record in caplog.records] == ["WARNING"] * 3
    assert {record.name for record in caplog.records} == {"refine"}
    assert "attempts.jsonl" in caplog.text or "/dev/full" in caplog.text
    assert all(record.getMessage().endswith(f": {REASONS[fault]}") for record in caplog.records)
    assert "secret" not in caplog.text


def test_a_torn_line_swallows_no_row(tmp_path: Path) -> None:
    """After a line that a full disk or a killed process cut, the next row begins on its own line."""
    path = tmp_path / "attempts.jsonl"
    for torn in (b'{"user_input": "torn', b"\xe4\xb8", b"{}"):
        path.unlink(missing_ok=True)
        refiner(path).invoke("first?")
        with path.open("ab") as file:
            file.write(torn)
        refiner(path).invoke("second?")
        refiner(path).invoke("third?")
        read = [row.question for row in read_rows(path, errors="keep") if isinstance(row, Sample)]
        assert read == ["first?", "second?", "third?"]
        assert len(path.read_bytes().splitlines()) == 4


def test_a_rotated_record_goes_on_in_a_new_file(tmp_path: Path) -> None:
    """After the file was renamed or emptied, rows go into the one that now has the name."""
    path = tmp_path / "attempts.jsonl"
    asked = refiner(path)
    asked.invoke("first?")
    path.rename(tmp_path / "attempts.1.jsonl")
    asked.invoke("second?")
    path.write_bytes(b"")
    asked.invoke("third?")
    assert [one.question for one in rows(tmp_path / "attempts.1.jsonl")] == ["first?"]
    assert [one.question for one in rows(path)] == ["third?"]


class BrokenHandler(logging.Handler):
    """A log handler that raises, as one that writes to a closed connection."""

    def emit(self, record: logging.LogRecord) -> None:
        """Raise."""
        raise OSError("no log")


@pytest.fixture
def broken_log() -> Iterator[None]:
    """Attach a handler that raises to the loggers of the library."""
    handler = BrokenHandler()
    loggers = [logging.getLogger(name) for name in ("refine", "judges")]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
    yield
    for logger in loggers:
        logger.removeHandler(handler)
        logger.setLevel(logging.NOTSET)


@pytest.mark.usefixtures("broken_log")
async def test_a_log_handler_that_raises_costs_no_answer() -> None:
    """Progress, faults of a judge and lost rows are logged in vain, and counted; every answer goes out."""

    def faulty(response: str) -> int:
        raise KeyError(response)

    before = losses()["log_lines"]
    asked = SelfRefine(lambda _: "draft", faulty, record="/dev/full")
    assert asked.invoke("what?").text == "draft"
    assert (await asked.ainvoke("what?")).text == "draft"
    assert losses()["log_lines"] - before >= 2 * 3


def test_a_structlog_processor_that_raises_costs_no_answer() -> None:
    """The same for the user's own structlog."""

    def processor(*_: object) -> str:
        raise ValueError("no log")

    structlog.configure(processors=[processor])
    before = losses()["log_lines"]
    try:
        assert SelfRefine(lambda _: "draft", lambda response: 4).invoke("what?").text == "draft"
    finally:
        structlog.reset_defaults()
    assert losses()["log_lines"] - before >= 3


def outcome(number: int) -> Outcome:
    """Return an outcome with an id of its own."""
    refined = SelfRefine(lambda _: "a draft", ScriptedJudge([4])).refine("what?")
    return refined.model_copy(update={"id": f"{number:06}"})


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was warned of since the last call."""
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    caplog.clear()
    return lines


def test_an_outage_is_reported_with_what_it_cost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What was lost before an outage is none of its cost; one that costs outcomes says how many."""
    url = f"sqlite:///{tmp_path}/record.db"
    outcomes = [outcome(number) for number in range(24)]
    with DatabaseRecord(url, max_queue=4) as record:
        record.check()
        for one in outcomes[:10]:
            record.add(one)
        assert record.flush(10)
        assert record.stats().lost > 0
        lines_of(caplog)
        for first, lost in ((10, "none was"), (11, "8 outcomes were")):
            run_sql(url, "ALTER TABLE outcome RENAME TO away")
            record.add(outcomes[first])
            wait_until(lambda: bool(record.stats().failing))
            for one in outcomes[12:24] if first == 11 else ():
                record.add(one)
            before = record.stats()
            assert before.queued + before.written + before.lost == before.offered
            run_sql(url, "ALTER TABLE away RENAME TO outcome")
            assert record.flush(10)
            assert not record.stats().failing
            wait_until(lambda: "works again" in caplog.text)
            lines = lines_of(caplog)
            assert sum("the database fails (OperationalError" in line for line in lines) == 1
            assert lines[-1].endswith(f"the database works again; {lost} lost meanwhile"), lines


def test_what_cannot_be_deleted_keeps_no_outcome_waiting(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Retention that fails is reported as such, once; outcomes are written all the while."""
    url = f"sqlite:///{tmp_path}/record.db"
    DatabaseRecord(url).check()
    run_sql(url, "CREATE TRIGGER no BEFORE DELETE ON outcome BEGIN SELECT RAISE(ABORT, 'no'); END")
    with DatabaseRecord(url, keep_days=1e-9) as record:
        for number in range(4):
            record.add(outcome(number))
            assert record.flush(10)
            time.sleep(0.01)
            wait_until(lambda: bool(record.stats().failing))
        assert record.stats().written == 4
        assert [line.partition(": ")[2] for line in lines_of(caplog)] == [
            "old outcomes cannot be deleted (IntegrityError SQLITE_CONSTRAINT_TRIGGER); it is tried again"
        ]


def test_what_is_written_after_closing_gave_it_up_counts_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """An outcome that waits for a lock when the record is closed is lost, even if it is written afterwards."""
    file = tmp_path / "record.db"
    record = DatabaseRecord(f"sqlite:///{file}")
    record.check()
    with sqlite3.connect(file, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        record.add(outcome(1))
        closing = threading.Thread(target=record.close, args=(0.3,))
        closing.start()
        wait_until(lambda: record.stats().lost == 1)
        other.execute("COMMIT")
        closing.join()
    other.close()
    wait_until(lambda: not any(thread.name == "refine-record" for thread in threading.enumerate()))
    stats = record.stats()
    assert (stats.offered, stats.written, stats.queued, stats.lost_closed, stats.lost) == (1, 0, 0, 1, 1)
