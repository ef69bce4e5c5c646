"""The progress of a run on stderr: a bar on a terminal, else a plain line every few seconds."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn
from rich.table import Column

from judges.offline import Progress as RunProgress
from judges.offline.run.progress import OnProgress

_LINE_EVERY_S = 5.0
_BAR_WIDTH = 16


@contextmanager
def reported() -> Iterator[OnProgress]:
    """Yield what shows the progress of a run while the block runs."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield _Lines()
        return
    text = TextColumn("{task.description}", markup=False, table_column=Column())  # wraps where it is too long
    columns = (BarColumn(bar_width=_BAR_WIDTH), text)
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("judging", total=None)
        yield lambda progress: bar.update(
            task, completed=progress.done, total=progress.total, description=str(progress)
        )


class _Lines:
    """Writes a line now and then, the first after some seconds: a short run says nothing."""

    def __init__(self) -> None:
        self._written = time.monotonic()

    def __call__(self, progress: RunProgress) -> None:
        if time.monotonic() - self._written >= _LINE_EVERY_S:
            self._written = time.monotonic()
            sys.stderr.write(f"refine: {progress}\n")
            sys.stderr.flush()
