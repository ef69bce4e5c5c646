"""The report as Markdown, for a pull request or a wiki; texts of rows are quoted, and none becomes markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape

from judges import Verdict
from refine.report import wording
from refine.report.document import Block, Cell, Charts, JudgedRow, Paragraph, RowList, Section, Table
from refine.report.markup import clean
from refine.report.sections import headline, sections, title
from refine.report.view import Report

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
