"""The report as Markdown, in which no text of a row is markup."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from html import escape

from judges import Verdict
from refine.report import document as doc

_MARKUP = re.compile(r"([\\`*_\[\]{|~$]|^[#+=-]+(?=\s|$)|^\d+(?=[.)](?:\s|$)))")
"""What means something to Markdown: within a line, or where one begins."""


def markdown(document: doc.Document) -> str:
    """Return the report in GitHub's Markdown, without the table of all rows."""
    parts = [
        f"# {_escape_markup(document.title)}",
        _escape_markup(document.headline),
        *map(_section, document.sections),
    ]
    return "\n\n".join(parts) + "\n"


def _escape_markup(text: str) -> str:
    """Return a text on one line, in which nothing is markup, nor HTML."""
    return _MARKUP.sub(_neutral, escape(" ".join(doc.clean(text).split()), quote=False))


def _neutral(match: re.Match[str]) -> str:
    return f"&#{ord(match[1][0])};{match[1][1:]}" if match[1][0].isdigit() else f"\\{match[1]}"


def _section(part: doc.Section) -> str:
    return "\n\n".join([f"## {_escape_markup(part.title)}", *map(_block, part.blocks)])


def _block(block: doc.Block) -> str:
    match block:
        case doc.ReportTable():
            return "\n".join(_table(block))
        case doc.Paragraph(text, _):
            return _escape_markup(text)
        case doc.Charts(charts):
            return "\n".join(
                f"- {_escape_markup(chart.caption)}: {_escape_markup(chart.text)}" for chart in charts
            )
        case doc.WorstRow():
            return "\n".join(_worst_row(block))
        case doc.RowList():
            return "\n".join(_row_list(block))
        case doc.FoldedText(title, text):
            lines = (f"> {_escape_markup(line)}".rstrip() for line in text.splitlines())
            return "\n".join([f"### {_escape_markup(title)}\n", *lines])


def _table(table: doc.ReportTable) -> Iterator[str]:
    if table.caption:
        yield f"{_escape_markup(table.caption)}:\n"
    yield _line([_escape_markup(name) for name in table.columns])
    yield _line(["---:" if place in table.numeric else "---" for place in range(len(table.columns))])
    for row in table.rows:
        yield _line(map(_cell, row))


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _cell(cell: doc.TableCell) -> str:
    return f"{_escape_markup(cell.text)} ({_escape_markup(cell.more)})" if cell.more else _escape_markup(cell.text)


def _row_list(block: doc.RowList) -> Iterator[str]:
    yield f"### {_escape_markup(block.title)}\n"
    for index, text in block.rows:
        yield f"- row {index}: {_escape_markup(text)}"
    if block.left_out:
        yield f"- and {block.left_out:,} more"


def _worst_row(row: doc.WorstRow) -> Iterator[str]:
    yield f"### Row {row.index}\n"
    yield f"> **Asked:** {_escape_markup(row.question)}\n>"
    yield f"> **Answered:** {_escape_markup(row.answer)}\n"
    for verdict in row.verdicts:
        yield from _verdict(verdict, verdict.judge, 0)


def _verdict(verdict: Verdict, name: str, depth: int) -> Iterator[str]:
    outcome = doc.reason(verdict.unscored or "") if verdict.score is None else doc.number(verdict.score, ".2f")
    mark = "" if verdict.score is None else ", passed" if verdict.passed else ", not passed"
    reasons = " ".join(filter(None, dict.fromkeys([verdict.rationale, verdict.feedback, verdict.detail])))
    why = f": {_escape_markup(reasons)}" if reasons else ""
    yield f"{'  ' * depth}- **{_escape_markup(name)}** {outcome}{mark}{why}"
    for item in verdict.items:
        yield from _verdict(item, item.subject or item.judge or "part", depth + 1)
