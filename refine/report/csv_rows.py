"""All rows as a table for a spreadsheet, in which no cell is a formula."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator

from judges.offline import Row
from refine.report.view import Entry, Report

_NOT_FIRST = ("=", "+", "-", "@", "\t", "\r", "\n", "'")


def csv_rows(report: Report) -> str:
    """Return a line for each row: what was asked and answered, and each judge's score, rating and reasons.

    A text that a spreadsheet could take for a formula begins with an apostrophe; so does one that begins with an
    apostrophe itself, so that taking the first apostrophe away gives back every text.
    """
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(map(cell, _head(report)))
    writer.writerows(map(cell, _line(entry, report)) for entry in report.entries)
    return buffer.getvalue()


def cell(value: object) -> object:
    """Return a value as a cell that is no formula; numbers stay numbers."""
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value.startswith(_NOT_FIRST) else value


def _head(report: Report) -> Iterator[str]:
    yield from ("row", "question")
    for run in report.runs:
        prefix = f"{run.name}: " if len(report.runs) > 1 else ""
        yield f"{prefix}answer"
        for judge in run.judges:
            yield from (
                f"{prefix}{judge.name}{part}" for part in ("", " rating", " passed", " unscored", " reasons")
            )


def _line(entry: Entry, report: Report) -> Iterator[object]:
    sample = entry.row.sample
    yield entry.index
    yield entry.row.error if sample is None else sample.question
    for row, run in zip(entry.sides, report.runs, strict=True):
        yield from _side(row, [judge.name for judge in run.judges])


def _side(row: Row | None, judges: list[str]) -> Iterator[object]:
    yield None if row is None or row.sample is None else row.sample.answer
    for name in judges:
        verdict = None if row is None else row.verdicts[name]
        if verdict is None:
            yield from (None,) * 5
            continue
        yield from (verdict.score, verdict.rating, verdict.passed, verdict.unscored)
        yield "\n".join(filter(None, (verdict.rationale, verdict.feedback, verdict.detail)))
