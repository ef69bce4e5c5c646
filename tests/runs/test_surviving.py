"""Runs that survive: killed at any time, they lose nothing, repeat little, and end byte for byte the same."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path

from tests.model_server import Reply, serving
from tests.runs.commands import RATED, begin, refine, write_rows

FILES = ("results.jsonl", "cells.jsonl", "summary.json")
ROWS, KILLS = (1_000, 20) if os.environ.get("SELFREFINE_LONG_RUNS") else (150, 20)
IN_FLIGHT = 8


def forked_kill(rows: Path, run: Path, url: str, more: int, *, resume: bool) -> bool:
    """Judge in a forked child, which starts at once, and kill it when the journal has grown by some lines."""
    journal = run / "journal.jsonl"
    before = journal.read_bytes().count(b"\n") if journal.exists() else 0
    child = os.fork()
    if child == 0:  # pragma: no cover - the child is killed
        code = 1
        try:
            devnull = os.open(os.devnull, os.O_WRONLY)
            os.dup2(devnull, 1)
            arguments = ["resume", run] if resume else begin(rows, run, url)
            code = refine(*arguments).exit_code
        finally:
            os._exit(code)
    until = time.monotonic() + 30
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert os.waitstatus_to_exitcode(status) == 0
            return False
        if journal.exists() and journal.read_bytes().count(b"\n") >= before + more:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            return True
        time.sleep(0.001)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    raise AssertionError("the run did not get on")


def test_twenty_kills_lose_nothing_and_change_no_byte(tmp_path: Path) -> None:
    """Killed 20 times, a run ends with the same bytes as one that was not, and repeats only calls in flight."""
    rows = write_rows(tmp_path / "rows.jsonl", ROWS)
    with serving(lambda _: Reply(text=RATED, delay_s=0.004)) as server:
        assert refine(*begin(rows, tmp_path / "whole", server.url)).exit_code == 0
        assert len(server.requests) == ROWS
        server.requests.clear()
        chance = random.Random(7)
        run = tmp_path / "killed"
        kills = 0
        for number in range(KILLS):
            more = chance.randint(1, 2 * ROWS // KILLS - 1)
            kills += forked_kill(rows, run, server.url, more, resume=number > 0)
        assert refine("resume", run).exit_code == 0
        assert kills >= KILLS * 3 // 4
        assert ROWS <= len(server.requests) <= ROWS + kills * IN_FLIGHT
    for name in FILES:
        assert (run / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (run / "lock").exists()
    modes = {path.name: path.stat().st_mode & 0o777 for path in run.iterdir()}
    assert set(modes.values()) == {0o600}
    assert run.stat().st_mode & 0o777 == 0o700
