"""The command `refine show`: the table of a finished run, or how far another is."""

from __future__ import annotations

import json
import sys
from pathlib import Path

from rich.console import Console

from judges.offline import Evaluation, load_run
from judges.offline.run.outputs import SUMMARY, TIMING
from refine.cli.slicing import show_slices, slices_as_json, slices_of
from refine.cli.summary_table import Faults, show

_WIDTH = 100
"""Columns of the table if stdout is not a terminal."""


def run_show(folder: Path, *, slices: tuple[str, ...] = (), as_json: bool) -> int:
    """Print the table of a run, and return the exit code.

    Raises:
        ConfigurationError: If the folder holds no run, or one that has not finished, or no row has a column.
    """
    evaluation: Evaluation = load_run(folder)
    groups = slices_of(evaluation, slices)
    if as_json:
        text = (folder / SUMMARY).read_text(encoding="utf-8")
        if groups:
            summary = {**json.loads(text), "slices": slices_as_json(groups)}
            text = f"{json.dumps(summary, ensure_ascii=False, indent=2)}\n"
        sys.stdout.write(text)
        return 0
    faults = Faults()
    for row in evaluation.rows:
        faults.note(row)
    console = Console()
    if not console.is_terminal:
        console.width = _WIDTH
    timing = json.loads((folder / TIMING).read_bytes())
    summary = {name: one.model_copy(update=timing["judges"][name]) for name, one in evaluation.summary.items()}
    show(console, summary, faults, place=folder, seconds=timing["seconds"])
    show_slices(groups)
    return 0
