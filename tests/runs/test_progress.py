"""What somebody who waits for a run sees on a terminal."""

from __future__ import annotations

import os
import select
import sys

import pytest

from judges.offline import Progress
from refine.cli.runs import show_progress


def test_a_narrow_terminal_shows_all_of_the_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is cut off at 80 columns, least of all the time that is left."""
    master, slave = os.openpty()
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "xterm")
    with os.fdopen(slave, "w") as terminal, monkeypatch.context() as patched:
        patched.setattr(sys, "stderr", terminal)
        with show_progress() as on_progress:
            on_progress(Progress(done=9, total=40, calls=12, cost=0.018, seconds=60, seconds_left=240))
        terminal.flush()
        text = _shown(master, until="0:04:00 left")
    os.close(master)
    for part in ("9 of 40 cells", "0 unscored", "0 in flight", "12 calls", "$0.0180", "0:04:00 left"):
        assert part in text


def _shown(master: int, *, until: str) -> str:
    """What the terminal was sent up to these words; a terminal hands its bytes out in pieces."""
    text = ""
    while until not in text and select.select([master], [], [], 5.0)[0]:
        text += os.read(master, 1 << 16).decode(errors="replace")
    return text
