"""Writing rows that finish in any order: in the order of the dataset, to a file and into totals."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import TextIO

from judges.offline.results import Evaluation, Row, Tally


class OrderedWriter:
    """Receives rows as they finish, and emits each as soon as all before it are there.

    Args:
        names: Names of the judges.
        out: Where each row is written as a line of JSON, flushed at once; None writes nothing.
        on_result: Called with each row, one at a time.
        keep_rows: Whether the rows stay in memory for the evaluation.
    """

    def __init__(
        self,
        names: Iterable[str],
        *,
        out: TextIO | None,
        on_result: Callable[[Row], object] | None,
        keep_rows: bool,
    ) -> None:
        self._tallies = {name: Tally() for name in names}
        self._out, self._on_result, self._keep_rows = out, on_result, keep_rows
        self._rows: list[Row] = []
        self._early: dict[int, Row] = {}
        self._next = 0
        self._closed = False
        self._lock = threading.Lock()

    def add(self, row: Row) -> None:
        """Accept a row, in any order, from any thread."""
        with self._lock:
            self._early[row.index] = row
            while not self._closed and (ready := self._early.pop(self._next, None)) is not None:
                self._next += 1
                self._emit(ready)

    def close(self) -> None:
        """Stop writing; results from threads that are still running are discarded."""
        with self._lock:
            self._closed = True

    def evaluation(self) -> Evaluation:
        """Return the evaluation of the rows written."""
        summary = {name: tally.summary() for name, tally in self._tallies.items()}
        return Evaluation(rows=tuple(self._rows), summary=summary)

    def _emit(self, row: Row) -> None:
        for name, verdict in row.verdicts.items():
            self._tallies[name].add(verdict, judged=row.sample is not None)
        if self._keep_rows:
            self._rows.append(row)
        if self._out is not None:
            self._out.write(f"{row.line()}\n")
            self._out.flush()
        if self._on_result is not None:
            self._on_result(row)
