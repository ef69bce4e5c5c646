"""What a finished run leaves: results, cells and summary, in the order of the dataset and without times."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import ValidationError
from pydantic_core import PydanticSerializationError

from judges.errors import BadSample, ConfigurationError
from judges.offline.results import JudgedCells, Summary
from judges.offline.run.journal import Journal, quoted, replacing, write_json
from judges.offline.run.source import row_json
from judges.sample import Sample
from judges.verdict import Verdict

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


def whole_verdict_json(verdict: Verdict) -> bytes:
    """Return a verdict as JSON, with the seconds it took."""
    try:
        return verdict.model_dump_json().encode()
    except PydanticSerializationError:  # as above
        return json.dumps(verdict.model_dump(mode="json"), separators=(",", ":")).encode()


def read_verdict(text: str | bytes) -> Verdict:
    """Return the verdict that JSON holds."""
    try:
        return Verdict.model_validate_json(text)
    except ValidationError:
        return Verdict.model_validate(json.loads(text))  # half a surrogate pair


def remove_results(folder: Path) -> None:
    """Remove what a finished run left, since cells are missing again."""
    for name in (RESULTS, CELLS, SUMMARY, TIMING):
        (folder / name).unlink(missing_ok=True)


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

    def write(self, row: JudgedCells) -> Mapping[str, Verdict]:
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


def write_summary(
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
        verdict = None if cell is None else read_verdict(cell[1]).model_copy(update={"latency_s": cell[0]})
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
