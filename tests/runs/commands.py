"""What the tests of runs have in common: rows, and the command line in this process."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Sequence
from pathlib import Path

from typer.testing import CliRunner, Result

from refine.cli.app import app

RATED = json.dumps({"rationale": "It says so.", "rating": 3, "feedback": "Say more."})
"""A model's reply that rates an answer."""

IN_FLIGHT = 8


def write_rows(path: Path, number: int) -> Path:
    """Write rows with answers of their own."""
    path.write_text("".join(json.dumps({"question": f"q {i}", "answer": f"a {i}"}) + "\n" for i in range(number)))
    return path


def refine(*arguments: object) -> Result:
    """Run the command line in this process."""
    return CliRunner().invoke(app, [str(one) for one in arguments])


def begin(rows: Path, run: Path, url: str, *more: object) -> list[object]:
    """Return the command that begins a run of two judges, one of which asks a model."""
    judges = ["--judge", "helpfulness", "--judge", "length:at_most=3"]
    model = ["--model", "m", "--base-url", url, "--max-concurrency", IN_FLIGHT]
    return ["evaluate", rows, *judges, *model, "--out", run, *more]


def line_of(result: Result, code: int = 2) -> str:
    """Return the one line on stderr of a command that ended with a code."""
    assert (result.exit_code, result.stdout) == (code, ""), result.output
    (line,) = result.stderr.splitlines()
    assert line.startswith("refine: ")
    return line


def killed(arguments: Sequence[object], journal: Path, more: int) -> bool:
    """Run the command line in a forked child, which starts at once, and kill it when its journal has grown so far.

    Returns:
        Whether it was killed; False where it ended by itself before.
    """
    before = journal.read_bytes().count(b"\n") if journal.exists() else 0
    child = os.fork()
    if child == 0:  # pragma: no cover - the child is killed
        code = 1
        try:
            os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
            code = refine(*arguments).exit_code
        finally:
            os._exit(code)
    until = time.monotonic() + 60
    while time.monotonic() < until:
        ended, status = os.waitpid(child, os.WNOHANG)
        if ended:
            assert os.waitstatus_to_exitcode(status) == 0
            return False
        if journal.exists() and journal.read_bytes().count(b"\n") >= before + more:
            break
        time.sleep(0.001)
    else:
        more = 0
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
    assert more, "the run did not get on"
    return True
