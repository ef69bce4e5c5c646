"""The report as Markdown, for a pull request or a wiki; texts of rows are quoted, and none becomes markup."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator
from html import escape

from judges import Verdict
from judges.offline import Row
from refine.report import wording
from refine.report.document import Block, Cell, Charts, JudgedRow, Paragraph, RowList, Section, Table, clean
from refine.report.sections import headline, sections, title
from refine.report.view import Entry, Report

_MARKUP = re.compile(r"([\\`*_\[\]{|~$]|^[#+=-]+(?=\s|$)|^\d+(?=[.)](?:\s|$)))")
"""What means something to Markdown: within a line, or where one begins."""


def markdown(report: Report) -> str:
    """Return the report in GitHub's Markdown, without the table of all rows."""
    parts = [f"# {escaped(title(report))}", escaped(headline(report)), *map(_section, sections(report))]
    return "\n\n".join(parts) + "\n"


def escaped(text: str) -> str:
    """Return a text on one line, in which nothing is markup, nor HTML."""
    return _MARKUP.sub(_neutral, escape(" ".join(clean(text).split()), quote=False))


def _neutral(match: re.Match[str]) -> str:
    return f"&#{ord(match[1][0])};{match[1][1:]}" if match[1][0].isdigit() else f"\\{match[1]}"


def _section(part: Section) -> str:
    return "\n\n".join([f"## {escaped(part.title)}", *map(_block, part.blocks)])


def _block(block: Block) -> str:
    match block:
        case Table():
            return "\n".join(_table(block))
        case Paragraph(text, _):
            return escaped(text)
        case Charts(charts):
            return "\n".join(f"- {escaped(chart.caption)}: {escaped(chart.text)}" for chart in charts)
        case JudgedRow():
            return "\n".join(_judged_row(block))
        case RowList():
            return "\n".join(_row_list(block))


def _table(table: Table) -> Iterator[str]:
    if table.caption:
        yield f"{escaped(table.caption)}:\n"
    yield _line([escaped(name) for name in table.columns])
    yield _line(["---:" if place in table.numeric else "---" for place in range(len(table.columns))])
    for row in table.rows:
        yield _line(map(_cell, row))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: Cell) -> str:
    return f"{escaped(cell.text)} ({escaped(cell.more)})" if cell.more else escaped(cell.text)


def _row_list(block: RowList) -> Iterator[str]:
    yield f"### {escaped(block.title)}\n"
    for index, text in block.rows:
        yield f"- row {index}: {escaped(text)}"
    if block.left_out:
        yield f"- and {block.left_out:,} more"


def _judged_row(row: JudgedRow) -> Iterator[str]:
    yield f"### Row {row.index}\n"
    yield f"> **Asked:** {escaped(row.question)}\n>"
    yield f"> **Answered:** {escaped(row.answer)}\n"
    for verdict in row.verdicts:
        yield from _verdict(verdict, verdict.judge, 0)


def _verdict(verdict: Verdict, name: str, depth: int) -> Iterator[str]:
    outcome = (
        wording.reason(verdict.unscored or "") if verdict.score is None else wording.number(verdict.score, ".2f")
    )
    mark = "" if verdict.score is None else ", passed" if verdict.passed else ", not passed"
    reasons = " ".join(filter(None, [verdict.rationale, verdict.feedback, verdict.detail]))
    yield f"{'  ' * depth}- **{escaped(name)}** {outcome}{mark}{f': {escaped(reasons)}' if reasons else ''}"
    for item in verdict.items:
        yield from _verdict(item, item.subject or item.judge or "part", depth + 1)


_NOT_FIRST = ("=", "+", "-", "@", "\t", "\r", "\n", "'")


def csv_rows(report: Report) -> str:
    """Return a line for each row: what was asked and answered, and each judge's score, rating and reasons.

    A text that a spreadsheet could take for a formula begins with an apostrophe; so does one that begins with an
    apostrophe itself, so that taking the first apostrophe away gives back every text.
    """
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(map(cell, _head(report)))
    writer.writerows(map(cell, _csv_line(entry, report)) for entry in report.entries)
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


def _csv_line(entry: Entry, report: Report) -> Iterator[object]:
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
