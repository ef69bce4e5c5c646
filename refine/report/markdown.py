"""The report as Markdown, for a pull request or a wiki, and its rows as CSV; no text of a row becomes markup."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Iterator, Sequence
from html import escape

from judges import Verdict
from judges.offline import Row
from refine.report import wording
from refine.report.document import (
    Block,
    Charts,
    Document,
    Paragraph,
    ReportTable,
    RowList,
    RowPair,
    Section,
    TableCell,
    WorstRow,
)

_MARKUP = re.compile(r"([\\`*_\[\]{|~$]|^[#+=-]+(?=\s|$)|^\d+(?=[.)](?:\s|$)))")
"""What means something to Markdown: within a line, or where one begins."""


def markdown(document: Document) -> str:
    """Return the report in GitHub's Markdown, without the table of all rows."""
    parts = [
        f"# {escape_markup(document.title)}",
        escape_markup(document.headline),
        *map(_section, document.sections),
    ]
    return "\n\n".join(parts) + "\n"


def escape_markup(text: str) -> str:
    """Return a text on one line, in which nothing is markup, nor HTML."""
    return _MARKUP.sub(_neutral, escape(" ".join(wording.clean(text).split()), quote=False))


def _neutral(match: re.Match[str]) -> str:
    return f"&#{ord(match[1][0])};{match[1][1:]}" if match[1][0].isdigit() else f"\\{match[1]}"


def _section(part: Section) -> str:
    return "\n\n".join([f"## {escape_markup(part.title)}", *map(_block, part.blocks)])


def _block(block: Block) -> str:
    match block:
        case ReportTable():
            return "\n".join(_table(block))
        case Paragraph(text, _):
            return escape_markup(text)
        case Charts(charts):
            return "\n".join(f"- {escape_markup(chart.caption)}: {escape_markup(chart.text)}" for chart in charts)
        case WorstRow():
            return "\n".join(_worst_row(block))
        case RowList():
            return "\n".join(_row_list(block))


def _table(table: ReportTable) -> Iterator[str]:
    if table.caption:
        yield f"{escape_markup(table.caption)}:\n"
    yield _line([escape_markup(name) for name in table.columns])
    yield _line(["---:" if place in table.numeric else "---" for place in range(len(table.columns))])
    for row in table.rows:
        yield _line(map(_cell, row))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: TableCell) -> str:
    return f"{escape_markup(cell.text)} ({escape_markup(cell.more)})" if cell.more else escape_markup(cell.text)


def _row_list(block: RowList) -> Iterator[str]:
    yield f"### {escape_markup(block.title)}\n"
    for index, text in block.rows:
        yield f"- row {index}: {escape_markup(text)}"
    if block.left_out:
        yield f"- and {block.left_out:,} more"


def _worst_row(row: WorstRow) -> Iterator[str]:
    yield f"### Row {row.index}\n"
    yield f"> **Asked:** {escape_markup(row.question)}\n>"
    yield f"> **Answered:** {escape_markup(row.answer)}\n"
    for verdict in row.verdicts:
        yield from _verdict(verdict, verdict.judge, 0)


def _verdict(verdict: Verdict, name: str, depth: int) -> Iterator[str]:
    outcome = (
        wording.reason(verdict.unscored or "") if verdict.score is None else wording.number(verdict.score, ".2f")
    )
    mark = "" if verdict.score is None else ", passed" if verdict.passed else ", not passed"
    reasons = " ".join(filter(None, [verdict.rationale, verdict.feedback, verdict.detail]))
    why = f": {escape_markup(reasons)}" if reasons else ""
    yield f"{'  ' * depth}- **{escape_markup(name)}** {outcome}{mark}{why}"
    for item in verdict.items:
        yield from _verdict(item, item.subject or item.judge or "part", depth + 1)


_NOT_FIRST = ("=", "+", "-", "@", "\t", "\r", "\n", "'")


def csv_rows(document: Document) -> str:
    """Return a line for each row: what was asked and answered, and each judge's score, rating and reasons.

    A text that a spreadsheet could take for a formula begins with an apostrophe; so does one that begins with an
    apostrophe itself, so that taking the first apostrophe away gives back every text.
    """
    buffer = io.StringIO(newline="")
    writer = csv.writer(buffer)
    writer.writerow(map(csv_cell, _head(document)))
    writer.writerows(map(csv_cell, _csv_line(pair, document)) for pair in document.rows)
    return buffer.getvalue()


def csv_cell(value: object) -> object:
    """Return a value as a cell that is no formula; numbers stay numbers."""
    if value is None:
        return ""
    return f"'{value}" if isinstance(value, str) and value.startswith(_NOT_FIRST) else value


def _head(document: Document) -> Iterator[str]:
    yield from ("row", "question")
    for run in document.runs:
        prefix = f"{run.name}: " if len(document.runs) > 1 else ""
        yield f"{prefix}answer"
        for judge in run.judges:
            yield from (f"{prefix}{judge}{part}" for part in ("", " rating", " passed", " unscored", " reasons"))


def _csv_line(pair: RowPair, document: Document) -> Iterator[object]:
    sample = pair.row.sample
    yield pair.index
    yield pair.row.error if sample is None else sample.question
    for row, run in zip(pair.sides, document.runs, strict=True):
        yield from _side(row, run.judges)


def _side(row: Row | None, judges: Sequence[str]) -> Iterator[object]:
    yield None if row is None or row.sample is None else row.sample.answer
    for name in judges:
        verdict = None if row is None else row.verdicts[name]
        if verdict is None:
            yield from (None,) * 5
            continue
        yield from (verdict.score, verdict.rating, verdict.passed, verdict.unscored)
        yield "\n".join(filter(None, (verdict.rationale, verdict.feedback, verdict.detail)))
