"""Runs that survive: killed at any time, they lose nothing, repeat little, and end byte for byte the same."""

from __future__ import annotations

import os
import random
from pathlib import Path

from tests.model_server import Reply, serving
from tests.runs.commands import RATED, begin, killed, refine, write_rows

FILES = ("results.jsonl", "cells.jsonl", "summary.json")
ROWS, KILLS = (1_000, 20) if os.environ.get("SELFREFINE_LONG_RUNS") else (150, 20)
IN_FLIGHT = 8


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
            arguments = ["resume", run] if number else begin(rows, run, server.url)
            kills += killed(arguments, run / "journal.jsonl", chance.randint(1, 2 * ROWS // KILLS - 1))
        assert refine("resume", run).exit_code == 0
        assert kills >= KILLS * 3 // 4
        assert ROWS <= len(server.requests) <= ROWS + kills * IN_FLIGHT
    for name in FILES:
        assert (run / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
    assert not (run / "lock").exists()
    modes = {path.name: path.stat().st_mode & 0o777 for path in run.iterdir()}
    assert set(modes.values()) == {0o600}
    assert run.stat().st_mode & 0o777 == 0o700
