"""What a record says of a database that fails: once when it begins, once when it ends, and what it cost."""

from __future__ import annotations

import logging
import sqlite3
import threading
import time
from pathlib import Path

import pytest

from graphs import Outcome
from judges.testing import ScriptedJudge
from refine import SelfRefine
from refine.record import DatabaseRecord
from tests.guarding import wait_until


def outcome(number: int) -> Outcome:
    """Return an outcome with an id of its own."""
    refined = SelfRefine(lambda _: "a draft", ScriptedJudge([4])).refine("what?")
    return refined.model_copy(update={"id": f"{number:06}"})


def run(file: Path, sql: str) -> None:
    """Change the database as anybody else would."""
    with sqlite3.connect(file) as connection:
        connection.execute(sql)
    connection.close()


def lines_of(caplog: pytest.LogCaptureFixture) -> list[str]:
    """Return what was warned of since the last call."""
    lines = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    caplog.clear()
    return lines


def test_an_outage_is_reported_with_what_it_cost(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What was lost before an outage is none of its cost; one that costs outcomes says how many."""
    file = tmp_path / "record.db"
    outcomes = [outcome(number) for number in range(24)]
    with DatabaseRecord(f"sqlite:///{file}", max_queue=4) as record:
        record.check()
        for one in outcomes[:10]:
            record.add(one)
        assert record.flush(10)
        assert record.stats().lost > 0
        lines_of(caplog)
        for first, lost in ((10, "none was"), (11, "8 outcomes were")):
            run(file, "ALTER TABLE outcome RENAME TO away")
            record.add(outcomes[first])
            wait_until(lambda: bool(record.stats().failing))
            for one in outcomes[12:24] if first == 11 else ():
                record.add(one)
            before = record.stats()
            assert before.queued + before.written + before.lost == before.offered
            run(file, "ALTER TABLE away RENAME TO outcome")
            assert record.flush(10)
            assert not record.stats().failing
            wait_until(lambda: "works again" in caplog.text)
            lines = lines_of(caplog)
            assert sum("the database fails (OperationalError" in line for line in lines) == 1
            assert lines[-1].endswith(f"the database works again; {lost} lost meanwhile"), lines


def test_what_cannot_be_deleted_keeps_no_outcome_waiting(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Retention that fails is reported as such, once; outcomes are written all the while."""
    file = tmp_path / "record.db"
    DatabaseRecord(f"sqlite:///{file}").check()
    run(file, "CREATE TRIGGER no BEFORE DELETE ON outcome BEGIN SELECT RAISE(ABORT, 'no'); END")
    with DatabaseRecord(f"sqlite:///{file}", keep_days=1e-9) as record:
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
