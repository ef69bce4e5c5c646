"""What becomes of judged rows, in the order of the dataset: kept, reported, and written to the files of a run.

Results, cells and summary of a run are without times, which have a file of their own.
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from pydantic_core import PydanticSerializationError

from judges.errors import BadSample, ConfigurationError, plural, shortened
from judges.offline.results import Evaluation, JudgeTotals, Row, Summary, read_as
from judges.offline.run.journal import Journal, quoted, replacing, write_json
from judges.offline.run.manifest import Manifest
from judges.offline.run.source import row_json
from judges.sample import Sample
from judges.verdict import Verdict

_log = logging.getLogger("judges")
RESULTS = "results.jsonl"
CELLS = "cells.jsonl"
SUMMARY = "summary.json"
TIMING = "timing.json"
_JSON = json.JSONEncoder()
_TIMES = {"latency_s", "latency_percentiles_s"}


def verdict_json(verdict: Verdict) -> bytes:
    """Return a verdict as JSON without the seconds it took, those of its parts included."""
    if not verdict.items:
        try:
            return verdict.model_dump_json(exclude={"latency_s"}).encode()
        except PydanticSerializationError:  # half a surrogate pair is invalid in UTF-8, but can be escaped
            pass
    return json.dumps(_timeless(verdict.model_dump(mode="json")), separators=(",", ":")).encode()


def remove_results(folder: Path) -> None:
    """Remove what a finished run left, since cells are missing again."""
    for name in (RESULTS, CELLS, SUMMARY, TIMING):
        (folder / name).unlink(missing_ok=True)


def _is_faulty(verdict: Verdict) -> bool:
    if verdict.unscored is not None:
        return True
    return bool(verdict.items) and bool(verdict.contradicted or any(verdict.failed_parts()))


@dataclass(frozen=True, kw_only=True)
class RowOutput:
    """What becomes of rows once they are judged, beside the files of a run.

    Args:
        on_result: Called with each row in order, as soon as it is written.
        faults_only: Whether it is called with rows alone that have a cell without a score, or whose judge lacked
            a member or found a contradicted claim.
        keep_rows: Whether the evaluation holds the rows.
        facts: What else the summary of a run says.

    Attributes:
        rows: The rows kept.
    """

    on_result: Callable[[Row], object] | None = None
    faults_only: bool = False
    keep_rows: bool = True
    facts: Mapping[str, object] = field(default_factory=dict)
    rows: list[Row] = field(default_factory=list)

    def take(self, index: int, sample: Sample | BadSample, verdicts: Mapping[str, Verdict]) -> None:
        """Take a row that was written."""
        has_listener = self.on_result is not None and (
            not self.faults_only or any(map(_is_faulty, verdicts.values()))
        )
        if not (self.keep_rows or has_listener):
            return
        row = Row.of(index, sample, verdicts)
        if self.keep_rows:
            self.rows.append(row)
        if self.on_result is not None:
            self.on_result(row)


@dataclass(slots=True)
class _JudgedCells:
    """A row with what is judged of it so far; it waits for its other cells, or for its turn.

    Args:
        index: Number of the row.
        sample: The row.
        text: The sample as JSON, where files of a run need it.
        missing: How many cells will be added.
        cells: By judge, a verdict and its JSON.
    """

    index: int
    sample: Sample | BadSample
    text: bytes
    missing: int
    cells: dict[str, tuple[bytes, Verdict]] = field(default_factory=dict)


class OrderedRows:
    """Takes cells as they are judged, and passes each row on once it and all rows before it are complete.

    Args:
        judges: Names of the judges, in the order of the results.
        output: Takes the rows.
        files: Writes the rows of a run first; None where none is kept.
    """

    def __init__(self, judges: Iterable[str], output: RowOutput, files: _RunFiles | None = None) -> None:
        self._totals = {name: JudgeTotals() for name in judges}
        self._output, self._files = output, files
        self._waiting: deque[_JudgedCells] = deque()
        self._by_index: dict[int, _JudgedCells] = {}
        self._ids, self._repeated_ids = set[int](), Counter[str]()
        self._later: int | None = None
        self._is_closed = False
        self._lock = threading.Lock()

    def expect(self, row: int, sample: Sample | BadSample, text: bytes, missing: int) -> None:
        """Take note of the next row, of which some cells are missing still.

        Args:
            row: Its index.
            sample: The sample.
            text: The sample as JSON, where files of a run need it.
            missing: How many of its cells will be added.
        """
        with self._lock:
            if self._later is not None:
                return
            if self._files is not None and len(self._waiting) >= self._files.most_waiting:
                self._later = row
                return
            self._waiting.append(_JudgedCells(row, sample, text, missing))
            self._by_index[row] = self._waiting[-1]
            self._pass_on()

    def add(self, row: int, text: bytes, verdict: Verdict) -> None:
        """Take a cell, in any order, from any thread."""
        with self._lock:
            waiting = self._by_index.get(row)
            if waiting is not None:
                waiting.cells[verdict.judge] = text, verdict
                waiting.missing -= 1
                self._pass_on()

    def close(self) -> None:
        """Pass nothing on any more: what threads that still run will judge is discarded."""
        with self._lock:
            self._is_closed = True

    def finish(self, rows: Iterable[tuple[int, Sample | BadSample]]) -> None:
        """Pass on the rows that could not wait in memory; their cells are in the journal."""
        with self._lock:
            self._pass_on()
            for index, sample in rows if self._later is not None else ():
                if self._later is not None and index >= self._later:
                    self._write(_JudgedCells(index, sample, b"", 0))

    def finish_all(self, rows: Iterable[tuple[int, Sample | BadSample]]) -> None:
        """Pass on all rows, from a journal that has all their cells."""
        self._later = 0
        self.finish(rows)

    def summary(self) -> dict[str, Summary]:
        """Return the summary of each judge over the rows passed on."""
        return {name: totals.summary() for name, totals in self._totals.items()}

    def evaluation(self) -> Evaluation:
        """Return the evaluation of the rows passed on, and log which ids several of them have."""
        if self._repeated_ids:
            _log.warning(
                "repeated ids, of %s: %s; rows are told apart by their place, and all of them count",
                plural(self._repeated_ids.total(), "further row"),
                shortened(list(self._repeated_ids))[1:-1],
            )
        return Evaluation(rows=tuple(self._output.rows), summary=self.summary())

    def _pass_on(self) -> None:
        while self._waiting and self._waiting[0].missing == 0 and not self._is_closed:
            row = self._waiting.popleft()
            del self._by_index[row.index]
            self._write(row)

    def _write(self, row: _JudgedCells) -> None:
        if self._files is None:
            verdicts: Mapping[str, Verdict] = {name: row.cells[name][1] for name in self._totals}
        else:
            verdicts = self._files.write(row)
        for name, totals in self._totals.items():
            totals.add(verdicts[name], row.sample)
        self._note_id(row.sample)
        self._output.take(row.index, row.sample, verdicts)

    def _note_id(self, sample: Sample | BadSample) -> None:
        number = sample.metadata.get("id") if isinstance(sample, Sample) else None
        if number is None:
            return
        if hash(str(number)) in self._ids:
            self._repeated_ids[str(number)] += 1
        self._ids.add(hash(str(number)))


@contextmanager
def run_files(folder: Path, journal: Journal, judges: Iterable[str]) -> Iterator[_RunFiles]:
    """Yield what writes results and cells of a run; a `with` block that ends well puts the files in place.

    Args:
        folder: Folder of the run.
        journal: Its journal.
        judges: Names of the judges, in the order of the results.
    """
    with replacing(folder / RESULTS) as results, replacing(folder / CELLS) as cells:
        yield _RunFiles(journal, tuple(judges), results, cells)


class _RunFiles:
    """Writes results and cells of a run, row by row.

    Few rows wait for their turn in memory. If more would have to, the rest is written at the end, from the journal
    and the dataset, so that a slow row never makes the memory grow.
    """

    most_waiting = 1_000

    def __init__(self, journal: Journal, judges: tuple[str, ...], results: BinaryIO, cells: BinaryIO) -> None:
        self._journal, self._judges, self._results, self._cells = journal, judges, results, cells

    def write(self, row: _JudgedCells) -> Mapping[str, Verdict]:
        """Write a row, and return its verdicts; those that do not wait with it are read from the journal."""
        texts: list[bytes] = []
        verdicts: dict[str, Verdict] = {}
        for judge in self._judges:
            text, verdict = row.cells.get(judge) or _cell(self._journal, row.index, judge)
            self._cells.write(_cell_line(row.index, verdict))
            texts.append(b"%b:%b" % (quoted(judge), text))
            verdicts[judge] = verdict
        self._results.write(_row_line(row.index, row.sample, row.text or row_json(row.sample), texts))
        return verdicts


def sum_up(results: OrderedRows, folder: Path, output: RowOutput, *, seconds: float) -> Evaluation:
    """Write the summary of a run whose results are written, and return the evaluation."""
    evaluation = results.evaluation().judged_by(Manifest.read(folder).by_name)
    _write_summary(folder, evaluation.summary, {"rows": len(evaluation), **output.facts}, seconds=seconds)
    return evaluation


def _write_summary(
    folder: Path, summary: Mapping[str, Summary], facts: Mapping[str, object], *, seconds: float
) -> None:
    """Write the summary without times, and the times to a file of their own.

    Args:
        folder: Folder of the run.
        summary: Totals by judge.
        facts: What else the summary says.
        seconds: How long the last start of the run took.
    """
    figures = {judge: totals.model_dump(mode="json") for judge, totals in summary.items()}
    timeless = {judge: {k: v for k, v in part.items() if k not in _TIMES} for judge, part in figures.items()}
    times = {judge: {k: v for k, v in part.items() if k in _TIMES} for judge, part in figures.items()}
    write_json(folder / SUMMARY, {**facts, "judges": timeless}, ensure_ascii=False)
    finished = datetime.now(UTC).isoformat(timespec="seconds")
    timing = {"seconds": round(seconds, 3), "finished": finished, "judges": times}
    write_json(folder / TIMING, timing, ensure_ascii=False)


def _cell(journal: Journal, index: int, judge: str) -> tuple[bytes, Verdict]:
    try:
        cell = journal.cell(index, judge)
        verdict = None if cell is None else read_as(Verdict, cell[1]).model_copy(update={"latency_s": cell[0]})
    except (ValueError, TypeError, RecursionError):  # pydantic's errors are among them
        raise ConfigurationError(
            f"{journal.path}: the verdict of {judge!r} on row {index} cannot be read; it was changed, or written "
            f"by another version of selfrefine; delete its line, so that the row is judged again"
        ) from None
    if cell is None or verdict is None:
        raise ConfigurationError(
            f"row {index} was not judged by {judge!r}: the dataset changed while it was judged; run it again with "
            f"--accept-changes"
        )
    return cell[1], verdict


def _row_line(index: int, sample: Sample | BadSample, text: bytes, verdicts: Iterable[bytes]) -> bytes:
    content = text if isinstance(sample, Sample) else b"null"
    error = b'""' if isinstance(sample, Sample) else json.dumps(str(sample)).encode()
    return b'{"index":%d,"sample":%s,"verdicts":{%s},"error":%s}\n' % (index, content, b",".join(verdicts), error)


def _cell_line(index: int, verdict: Verdict) -> bytes:
    record: dict[str, object] = {
        "row": index,
        "judge": verdict.judge,
        "score": verdict.score,
        "rating": verdict.rating,
        "passed": verdict.passed,
        "value": verdict.value,
        "unscored": verdict.unscored,
        "calls": verdict.usage.calls,
        "tokens": verdict.usage.tokens,
        "cost": verdict.usage.cost,
        "model": verdict.model,
    }
    return _JSON.encode(record).encode() + b"\n"


def _timeless(verdict: dict[str, Any]) -> dict[str, Any]:
    items = [_timeless(item) for item in verdict["items"]]
    return {**{name: value for name, value in verdict.items() if name != "latency_s"}, "items": items}
