"""The report as one page: no script but its own, no style but its own, and nothing from anywhere else."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterator, Sequence
from importlib.resources import files
from itertools import accumulate
from xml.etree.ElementTree import Element

from judges import Message, Sample, Verdict
from judges.offline import Row
from refine.report import wording
from refine.report.document import (
    Block,
    Cell,
    Chart,
    Charts,
    Columns,
    JudgedRow,
    Mark,
    Paragraph,
    Part,
    Parts,
    Range,
    RowList,
    Section,
    Table,
    h,
    html,
)
from refine.report.sections import headline, sections, title
from refine.report.view import Entry, Report

_WIDTH, _HEIGHT = 190.0, 16.0
_COLUMN, _COLUMNS_HEIGHT, _LABEL = 34.0, 96.0, 16.0


def _draw(mark: Mark, text: str | None) -> Element:
    """Return a drawing, named by the text that says the same; None where that text stands beside it."""
    match mark:
        case Range():
            return _range(mark, text)
        case Parts():
            return _parts(mark, text)
        case Columns():
            return _columns(mark, text)


def _svg(width: float, height: float, text: str | None, kind: str, *children: Element) -> Element:
    return h(
        "svg",
        *children,
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role=None if text is None else "img",
        aria_label=text,
        aria_hidden="true" if text is None else None,
        class_=kind,
    )


def _range(mark: Range, text: str | None) -> Element:
    def place(value: float) -> float:
        share = (value - mark.least) / (mark.most - mark.least)
        return 4 + (_WIDTH - 8) * min(1.0, max(0.0, share))

    middle = _HEIGHT / 2
    parts = [h("line", class_="axis", x1=4.0, x2=_WIDTH - 4, y1=middle, y2=middle)]
    if mark.reference is not None:
        x = place(mark.reference)
        parts.append(h("line", class_="reference", x1=x, x2=x, y1=1.0, y2=_HEIGHT - 1))
    if mark.low is not None and mark.high is not None:
        left, right = place(mark.low), place(mark.high)
        parts.append(
            h("rect", class_="interval", x=left, y=middle - 4, width=max(1.0, right - left), height=8.0, rx=2.0)
        )
    if mark.value is not None:
        parts.append(h("circle", class_="value", cx=place(mark.value), cy=middle, r=3.5))
    return _svg(_WIDTH, _HEIGHT, text, "range", *parts)


def _parts(mark: Parts, text: str | None) -> Element:
    total = sum(part.size for part in mark.parts) or 1.0
    ends = accumulate(part.size for part in mark.parts)
    rects = [
        h(
            "rect",
            h("title", f"{part.name}: {wording.count(part.size)} ({wording.percent(part.size / total)})"),
            class_=part.kind,
            x=_WIDTH * (end - part.size) / total,
            y=2.0,
            width=_WIDTH * part.size / total,
            height=_HEIGHT - 4,
        )
        for part, end in zip(mark.parts, ends, strict=True)
        if part.size
    ]
    return _svg(_WIDTH, _HEIGHT, text, "parts", *rects)


def _columns(mark: Columns, text: str | None) -> Element:
    most = max((part.size for part in mark.parts), default=0.0) or 1.0
    return _svg(
        _COLUMN * len(mark.parts),
        _COLUMNS_HEIGHT + 2 * _LABEL,
        text,
        "columns",
        *(_column(part, place, most) for place, part in enumerate(mark.parts)),
    )


def _column(part: Part, place: int, most: float) -> Element:
    x, height = place * _COLUMN, _COLUMNS_HEIGHT * part.size / most
    middle = x + _COLUMN / 2
    return h(
        "g",
        h("title", f"{part.name}: {wording.count(part.size)}"),
        h(
            "rect",
            class_=part.kind,
            x=x + 3,
            y=_LABEL + _COLUMNS_HEIGHT - height,
            width=_COLUMN - 6,
            height=max(height, 0.8),
            rx=1.5,
        ),
        h("text", wording.count(part.size), class_="tick", x=middle, y=_LABEL + _COLUMNS_HEIGHT - height - 4)
        if part.size
        else None,
        h("text", part.name.partition(" ")[0], class_="tick", x=middle, y=2 * _LABEL + _COLUMNS_HEIGHT - 4),
    )


_PORTION = 500
"""Rows whose texts are read at once."""

_LONGEST_TEXT = 20_000
"""Most characters of one text in the page; longer ones end with how long they are."""

_LONGEST_QUESTION = 160


def _index_json(report: Report) -> str:
    """Return what the table and its filters need, column by column, as JSON for inside a page."""
    entries = report.entries
    names = list(dict.fromkeys(judge.name for run in report.runs for judge in run.judges))
    columns = list(report.run.slices)
    return _page_json(
        {
            "judges": names,
            "runs": [run.name for run in report.runs],
            "portion": _PORTION,
            "rows": [entry.index for entry in entries],
            "questions": [_question(entry.row) for entry in entries],
            "labels": [entry.label for entry in entries] if any(entry.label for entry in entries) else [],
            "cells": [[_cells(entries, name, side) for side in range(len(report.runs))] for name in names],
            "groups": {column: [_group(entry.row, column) for entry in entries] for column in columns},
        }
    )


def _portions_json(entries: Sequence[Entry]) -> Iterator[str]:
    """Yield the texts and verdicts of rows, as JSON for inside a page, some hundred rows at a time."""
    for start in range(0, len(entries), _PORTION):
        yield _page_json([_details(entry) for entry in entries[start : start + _PORTION]])


def _page_json(value: object) -> str:
    """Return JSON that can stand inside a script element of a page: it holds no `<`, and no line separator."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029\x7f":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "backslashreplace").decode()


def _question(row: Row) -> str:
    text = row.error if row.sample is None else row.sample.question
    return " ".join(text[: 2 * _LONGEST_QUESTION].split())[:_LONGEST_QUESTION]


def _cells(entries: Sequence[Entry], name: str, side: int) -> dict[str, list[object]]:
    verdicts = [_verdict_cell(entry.sides[side], name) for entry in entries]
    return {
        "score": [None if v is None or v.score is None else round(v.score, 4) for v in verdicts],
        "rating": [None if v is None else v.rating for v in verdicts],
        "passed": [None if v is None or v.passed is None else int(v.passed) for v in verdicts],
        "unscored": [None if v is None else v.unscored for v in verdicts],
    }


def _verdict_cell(row: Row | None, name: str) -> Verdict | None:
    return None if row is None else row.verdicts.get(name)


def _group(row: Row, column: str) -> str:
    value = None if row.sample is None else row.sample.metadata.get(column)
    return "" if value is None else str(value)


def _details(entry: Entry) -> dict[str, object]:
    sample = entry.row.sample
    shared: dict[str, object] = {} if sample is None else _shared(sample)
    return {**shared, "sides": [None if row is None else _side(row) for row in entry.sides]}


def _shared(sample: Sample) -> dict[str, object]:
    earlier = sample.conversation[:-1] if len(sample.conversation) > 1 else ()
    metadata = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in sample.metadata.items()
    }
    fields = {
        "question": _cut(sample.question),
        "earlier": [_said(message) for message in earlier],
        "steps": [_said(message) for message in sample.steps],
        "reference": _cut(sample.reference or ""),
        "contexts": [_cut(context) for context in sample.retrieved_contexts or ()],
        "metadata": [[name, _cut(value)] for name, value in metadata.items()],
    }
    return {name: value for name, value in fields.items() if value}


def _said(message: Message) -> list[str]:
    calls = [f"{call.name}({json.dumps(call.args, ensure_ascii=False)})" for call in message.tool_calls]
    return [message.role, _cut("\n".join(filter(None, [message.content, *calls])))]


def _side(row: Row) -> dict[str, object]:
    answer = row.sample.answer if row.sample is not None else None
    return {
        "answer": None if answer is None else _cut(answer),
        "error": row.error,
        "verdicts": {name: _judged(verdict) for name, verdict in row.verdicts.items()},
    }


def _judged(verdict: Verdict) -> dict[str, object]:
    fields: dict[str, object] = {
        "score": verdict.score,
        "rating": verdict.rating,
        "passed": verdict.passed,
        "value": verdict.value if isinstance(verdict.value, str) else None,
        "unscored": verdict.unscored,
        "subject": _cut(verdict.subject),
        "rationale": _cut(verdict.rationale),
        "feedback": _cut(verdict.feedback),
        "detail": _cut(verdict.detail),
        "raw": _cut(verdict.raw),
        "items": [{**_judged(item), "judge": item.judge} for item in verdict.items],
    }
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [])}


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}… ({len(text):,} characters)"


_INERT = "application/json"


def page(report: Report) -> str:
    """Return the report as an HTML document that can be opened from a file, sent by mail and printed."""
    style, script = _static("report.css"), _static("report.js")
    parts = sections(report)
    head = h(
        "head",
        h("meta", charset="utf-8"),
        h("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        h("meta", name="referrer", content="no-referrer"),
        h("meta", name="color-scheme", content="light dark"),
        h("title", f"{title(report)} – report"),
        h("style", style),
    )
    body = h(
        "body",
        h("a", "To the rows", class_="skip", href="#rows"),
        _header(report, parts),
        h("main", *map(_section, parts), _rows_section(report)),
        *_data(report),
        h("script", script, type="module"),
    )
    return f"<!doctype html>\n{html(h('html', head, body, lang='en'))}\n"


def _static(name: str) -> str:
    return (files("refine.report") / "static" / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        f"base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _data(report: Report) -> Iterator[Element]:
    yield h("script", _index_json(report), type=_INERT, id="index")
    for text in _portions_json(report.entries):
        yield h("script", text, type=_INERT, class_="portion")


def _header(report: Report, parts: tuple[Section, ...]) -> Element:
    links = [h("a", part.title, href=f"#{part.key}") for part in parts]
    return h(
        "header",
        h("p", "Report", class_="kind"),
        h("h1", title(report)),
        h("p", headline(report), class_="about"),
        h("nav", *links, h("a", "All rows", href="#rows"), aria_label="Sections"),
    )


def _section(part: Section) -> Element:
    heading = f"{part.key}-title"
    blocks = [_block(block) for block in part.blocks]
    return h("section", h("h2", part.title, id=heading), *blocks, id=part.key, aria_labelledby=heading)


def _block(block: Block) -> Element:
    match block:
        case Table():
            return _table(block)
        case Paragraph(text, tone):
            return h("p", text, class_=f"note {tone}")
        case Charts(charts):
            return h("div", *map(_chart, charts), class_="charts")
        case JudgedRow():
            return _judged_row(block)
        case RowList():
            return _row_list(block)


def _table(table: Table) -> Element:
    numbers = ["number" if place in table.numeric else None for place in range(len(table.columns))]
    head = h(
        "tr", *(h("th", name, scope="col", class_=kind) for name, kind in zip(table.columns, numbers, strict=True))
    )
    rows = [
        h(
            "tr",
            h("th", *_inside(row[0]), scope="row", class_=row[0].tone),
            *(
                h("td", *_inside(cell), class_=" ".join(filter(None, (kind, cell.tone))), data_column=name)
                for cell, kind, name in zip(row[1:], numbers[1:], table.columns[1:], strict=True)
            ),
        )
        for row in table.rows
    ]
    caption = h("caption", table.caption) if table.caption else None
    grid = h("table", caption, h("thead", head), h("tbody", *rows))
    return h(
        "div", grid, class_="card wide", tabindex=0, role="region", aria_label=table.caption or table.columns[0]
    )


def _inside(cell: Cell) -> Iterator[Element]:
    if cell.mark is not None:
        yield _draw(cell.mark, None)
    yield h("span", cell.text, class_="figure")
    if cell.more:
        yield h("small", cell.more)


def _chart(chart: Chart) -> Element:
    return h("figure", h("figcaption", chart.caption), _draw(chart.mark, chart.text), class_="card chart")


def _row_list(block: RowList) -> Element:
    items = [h("li", _row_link(index), f" {text}") for index, text in block.rows]
    more = (
        h("p", f"and {block.left_out:,} more, in the table of all rows", class_="note soft")
        if block.left_out
        else None
    )
    return h("div", h("h3", block.title), h("ul", *items, class_="rows-named"), more)


def _row_link(index: int) -> Element:
    """Return a link that opens a row in the table of all rows."""
    return h("a", f"row {index}", href=f"#row={index}")


def _judged_row(row: JudgedRow) -> Element:
    return h(
        "article",
        h("header", _row_link(row.index), h("p", row.question, class_="question")),
        h("p", row.answer, class_="answer"),
        h("div", *map(_verdict, row.verdicts), class_="verdicts"),
        class_="card judged",
    )


def _verdict(verdict: Verdict) -> Element:
    return h(
        "div",
        h("p", h("strong", verdict.judge), _badge(verdict), class_="who"),
        h("p", verdict.rationale, class_="rationale") if verdict.rationale else None,
        h("p", verdict.feedback, class_="feedback") if verdict.feedback else None,
        h("p", verdict.detail, class_="detail soft") if verdict.detail else None,
        h("ul", *map(_item, verdict.items), class_="items") if verdict.items else None,
        class_="verdict",
    )


def _item(item: Verdict) -> Element:
    """Return a part of a verdict in a line or two: its mark, what was judged, and why."""
    kind, mark = ("soft", "–") if item.score is None else ("good", "✓") if item.passed else ("bad", "✗")
    reasons = [item.rationale, item.feedback, wording.reason(item.unscored or ""), item.detail]
    return h(
        "li",
        h("span", mark, class_=kind, role="img", aria_label=_outcome(item)),
        h("span", item.subject or item.judge),
        h("small", " ".join(filter(None, reasons))),
        h("ul", *map(_item, item.items), class_="items") if item.items else None,
    )


def _outcome(verdict: Verdict) -> str:
    return "unscored" if verdict.score is None else "passed" if verdict.passed else "not passed"


def _badge(verdict: Verdict) -> Element:
    if verdict.score is None:
        return h("span", wording.reason(verdict.unscored or "unscored"), class_="badge runscored")
    text = f"{wording.number(verdict.score, '.2f')} {_outcome(verdict)}"
    return h("span", text, class_=f"badge r{verdict.rating}")


def _rows_section(report: Report) -> Element:
    return h(
        "section",
        h("h2", "All rows", id="rows-title"),
        h("div", id="filter", class_="filter", role="search"),
        h("p", id="count", class_="note soft", role="status"),
        h(
            "div",
            h("div", id="grid", class_="card"),
            h("div", id="detail", class_="card", tabindex=-1, role="region", aria_label="The chosen row"),
            class_="split",
        ),
        h(
            "p",
            f"{wording.plural(len(report.entries), 'row')}: the table needs a screen, and JavaScript.",
            class_="note soft on-paper",
        ),
        id="rows",
        aria_labelledby="rows-title",
    )
