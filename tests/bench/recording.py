"""Measure what a record costs: `uv run --group dev python -m tests.bench.recording`.

Shown is the CPU time of this process for each outcome of two attempts with about 3 kB of texts: in `add`, which is
all that an answer waits for, and in all, with the thread that writes.
"""

from __future__ import annotations

import logging
import statistics
import tempfile
import time
from pathlib import Path

from graphs import Outcome
from judges.testing import ScriptedJudge
from refine import SelfRefine
from refine.record import DatabaseRecord
from tests.postgres import cluster

OUTCOMES = 5_000
PER_SECOND = 1_000
ROUNDS = 3


def measure(url: str, outcome: Outcome, *, texts: bool) -> tuple[float, float]:
    """Return the CPU microseconds of an outcome in `add`, and in all; offered at a steady rate."""
    adding = 0.0
    with DatabaseRecord(url, texts=texts) as record:
        record.check()
        outcomes = [outcome.model_copy(update={"id": f"{time.time_ns()} {number}"}) for number in range(OUTCOMES)]
        before = time.process_time()
        for number, one in enumerate(outcomes):
            started = time.thread_time()
            record.add(one)
            adding += time.thread_time() - started
            if number % (PER_SECOND // 100) == 0:
                time.sleep(0.01)
        record.flush(60)
        total = time.process_time() - before
        assert record.stats().written == OUTCOMES, record.stats()
    return adding / OUTCOMES * 1e6, total / OUTCOMES * 1e6


def main() -> None:
    """Print a table."""
    logging.disable()
    text = "word " * 150
    judge = ScriptedJudge([(2, text), 4], cycle=True)
    outcome = SelfRefine(lambda _: text, judge).refine(text)
    with cluster() as server, tempfile.TemporaryDirectory() as folder:
        urls = {"SQLite": f"sqlite:///{Path(folder)}/record.db", "PostgreSQL": server.make_database("bench")}
        print(f"{'':24}{'in add, us':>12}{'in all, us':>12}   ({OUTCOMES} outcomes, {PER_SECOND}/s offered)")
        for name, url in urls.items():
            for texts in (False, True):
                rounds = [measure(url, outcome, texts=texts) for _ in range(ROUNDS)]
                adding, total = (statistics.median(values) for values in zip(*rounds, strict=True))
                print(f"{name + (', texts' if texts else ''):24}{adding:12.1f}{total:12.1f}")


if __name__ == "__main__":
    main()
