"""Several processes judge one run: the bytes of one, divided limits, and nothing lost when some are killed."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from judges import ConfigurationError, Helpfulness, Length, OpenAICompatible
from judges.offline import Progress, RunSettings, evaluate
from tests.model_server import Reply, serving
from tests.runs.commands import RATED, begin, line_of, refine, write_rows

FILES = ("results.jsonl", "cells.jsonl", "summary.json", "run.json")
ROOT = Path(__file__).resolve().parents[2]


def same_bytes(run: Path, other: Path) -> bool:
    """Check that two runs have left the same."""
    return all((run / name).read_bytes() == (other / name).read_bytes() for name in FILES)


def test_processes_leave_the_bytes_of_one(tmp_path: Path) -> None:
    """The limits of all together hold, a run that stopped at one is resumed, and no call is made twice.

    So it is where judges are added and replaced.
    """
    rows, whole, run = write_rows(tmp_path / "rows.jsonl", 40), tmp_path / "whole", tmp_path / "run"
    with serving(lambda _: Reply(text=RATED, delay_s=0.005)) as server:
        assert refine(*begin(rows, whole, server.url)).exit_code == 0
        server.requests.clear()
        stopped = refine(*begin(rows, run, server.url, "--processes", 2, "--max-calls", 12))
        assert stopped.exit_code == 3
        line = stopped.stderr.splitlines()[-1]  # after lines of progress, where it takes long
        assert "stopped after 12 calls: a process used up its part of --max-calls 12" in line
        assert line.endswith(f"go on with `refine resume {run}`")
        assert len(server.requests) == 12
        assert not (run / "parts").exists()
        assert refine("resume", run, "--processes", 2).exit_code == 0
        assert len(server.requests) == 40
        assert same_bytes(run, whole)
        added = ["--judge", "helpfulness:name=again", "--judge", "length:at_most=1"]
        assert refine("rescore", whole, *added).exit_code == 0
        assert len(server.requests) == 80
        assert refine("rescore", run, *added, "--processes", 2, "--max-calls", 12).exit_code == 3
        assert refine("resume", run).exit_code == 0
        assert len(server.requests) == 120
        assert same_bytes(run, whole)
    line = line_of(refine(*begin(rows, tmp_path / "new", server.url, "--processes", 3, "--rate", 2)))
    assert "rate=2 cannot be divided between 3 workers" in line


def test_a_killed_process_is_reported_and_its_run_resumed(tmp_path: Path) -> None:
    """The line says which process died and how; going on pays for what is missing alone."""
    rows = [{"question": f"q {i}", "answer": f"a {i}"} for i in range(40)]

    def kill_one(progress: Progress) -> None:
        children = [one for one in multiprocessing.active_children() if one.name.startswith("judges-")]
        if progress.calls > 4 and len(children) == 2 and children[0].pid is not None:
            os.kill(children[0].pid, signal.SIGKILL)

    with (
        serving(lambda _: Reply(text=RATED, delay_s=0.3)) as server,
        OpenAICompatible(server.url, model="m", api_key="") as model,
    ):
        judges = [Helpfulness(model), Length(at_most=3)]
        settings = RunSettings(folder=tmp_path / "run", processes=2, on_progress=kill_one)
        with pytest.raises(ConfigurationError, match="of 2 of the run was killed by SIGKILL"):
            evaluate(rows, judges, run=settings)
        first = len(server.requests)
        resumed = evaluate(rows, judges, run=tmp_path / "run", resume=True)
        assert first < 40 <= len(server.requests) <= 40 + 8, "only calls in flight are repeated"
        server.reply = lambda _: Reply(text=RATED)
        whole = evaluate(rows, judges, run=tmp_path / "whole")
    assert resumed.scores == whole.scores
    assert same_bytes(tmp_path / "run", tmp_path / "whole")


def test_processes_end_with_the_one_that_started_them(tmp_path: Path) -> None:
    """Killed without a chance to clean up, a run is resumed at once, and what its processes judged is kept."""
    rows, whole, run = write_rows(tmp_path / "rows.jsonl", 60), tmp_path / "whole", tmp_path / "run"
    with serving(lambda _: Reply(text=RATED, delay_s=0.1)) as server:
        command = [str(part) for part in begin(rows, run, server.url, "--processes", 2)]
        starter = subprocess.Popen([sys.executable, "-m", "refine", *command], cwd=ROOT)
        until = time.monotonic() + 60
        while len(server.requests) < 12 and time.monotonic() < until:
            time.sleep(0.01)
        starter.kill()
        starter.wait()
        assert refine("resume", run).exit_code == 0
        assert 60 <= len(server.requests) <= 60 + 16
        server.reply = lambda _: Reply(text=RATED)
        assert refine(*begin(rows, whole, server.url)).exit_code == 0
    assert same_bytes(run, whole)


def test_what_cannot_be_sent_is_one_line(tmp_path: Path) -> None:
    """A judge that exists in this process alone, and a number that is none, say so before anything is judged."""
    rows = [{"question": "q", "answer": "a"}]
    with pytest.raises(ConfigurationError, match=r"'function' cannot be pickled: .*define its function by def"):
        evaluate(rows, lambda answer: 4, processes=2, run=tmp_path / "run")
    assert not (tmp_path / "run").exists()
    with pytest.raises(ConfigurationError, match="processes is a whole number from 1, not 0"):
        evaluate(rows, Length(at_most=3), processes=0)
    with pytest.raises(ConfigurationError, match="max_concurrency=1 cannot be divided between 2 workers"):
        evaluate(rows, Length(at_most=3), processes=2, max_concurrency=1)
