"""The report as one page: no script but its own, no style but its own, and nothing from anywhere else."""

from __future__ import annotations

import hashlib
import json
from base64 import b64encode
from collections.abc import Iterable, Iterator, Sequence
from importlib.resources import files
from itertools import accumulate
from xml.etree.ElementTree import Element, tostring

from judges import Message, Sample, Verdict
from judges.errors import plural
from judges.offline import Row
from refine.report import document as doc

_WIDTH = 190.0
_HEIGHT = 16.0
_COLUMN = 34.0
_COLUMNS_HEIGHT = 96.0
_LABEL = 16.0


_Child = Element | str | None | Iterable["Element | str | None"]


def _h(tag: str, /, *children: _Child, **attributes: str | float | None) -> Element:
    """Return an element.

    Args:
        tag: Its name.
        children: Texts, elements, or several of them; None is nothing.
        attributes: Its attributes. `class_` is `class`, and `aria_label` is `aria-label`; None leaves one out.
    """
    element = Element(tag)
    for name, value in attributes.items():
        if value is not None:
            text = f"{value:.2f}".rstrip("0").rstrip(".") if isinstance(value, float) else str(value)
            element.set(name.rstrip("_").replace("_", "-"), doc.clean(text))
    for child in children:
        for part in [child] if child is None or isinstance(child, str | Element) else child:
            _append(element, part)
    return element


def _append(element: Element, part: Element | str | None) -> None:
    if part is None:
        return
    if not isinstance(part, str):
        element.append(part)
    elif len(element):
        element[-1].tail = (element[-1].tail or "") + doc.clean(part)
    else:
        element.text = (element.text or "") + doc.clean(part)


def _draw(mark: doc.Mark, text: str | None) -> Element:
    """Return a drawing, named by the text that says the same; None where that text stands beside it."""
    match mark:
        case doc.Scale():
            return _draw_scale(mark, text)
        case doc.Bars():
            return _draw_columns(mark.parts, text) if mark.are_columns else _draw_shares(mark.parts, text)
        case doc.ReliabilityDiagram():
            return _draw_reliability(mark, text)
        case doc.ScatterPlot():
            return _draw_scatter(mark, text)


def _svg(width: float, height: float, text: str | None, kind: str, *children: Element) -> Element:
    return _h(
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


def _draw_scale(mark: doc.Scale, text: str | None) -> Element:
    def place(value: float) -> float:
        share = (value - mark.least) / (mark.most - mark.least)
        return 4 + (_WIDTH - 8) * min(1.0, max(0.0, share))

    middle = _HEIGHT / 2
    parts = [_h("line", class_="axis", x1=4.0, x2=_WIDTH - 4, y1=middle, y2=middle)]
    if mark.reference is not None:
        x = place(mark.reference)
        parts.append(_h("line", class_="reference", x1=x, x2=x, y1=1.0, y2=_HEIGHT - 1))
    if mark.low is not None and mark.high is not None:
        left, right = place(mark.low), place(mark.high)
        parts.append(
            _h("rect", class_="interval", x=left, y=middle - 4, width=max(1.0, right - left), height=8.0, rx=2.0)
        )
    if mark.value is not None:
        parts.append(_h("circle", class_="value", cx=place(mark.value), cy=middle, r=3.5))
    return _svg(_WIDTH, _HEIGHT, text, "range", *parts)


def _draw_shares(parts: Sequence[doc.BarPart], text: str | None) -> Element:
    total = sum(part.size for part in parts) or 1.0
    ends = accumulate(part.size for part in parts)
    rects = [
        _h(
            "rect",
            _h("title", f"{part.name}: {doc.count(part.size)} ({doc.percent(part.size / total)})"),
            class_=part.kind,
            x=_WIDTH * (end - part.size) / total,
            y=2.0,
            width=_WIDTH * part.size / total,
            height=_HEIGHT - 4,
        )
        for part, end in zip(parts, ends, strict=True)
        if part.size
    ]
    return _svg(_WIDTH, _HEIGHT, text, "parts", *rects)


_SQUARE = 180.0
_MARGIN = 34.0


def _draw_reliability(mark: doc.ReliabilityDiagram, text: str | None) -> Element:
    """Draw said against true; the larger a point, the more answers it stands for."""
    most = max((point.n for point in mark.points), default=1)

    def point_at(point: doc.DiagramPoint) -> Element:
        caption = f"said {point.said:.2f}, true {point.true:.2f}, {plural(point.n, 'answer')}"
        return _dot(point.said, point.true, caption, 2.5 + 4 * (point.n / most) ** 0.5)

    def bounds_of(point: doc.DiagramPoint) -> Element:
        x = _across(point.said)
        return _h("line", class_="bound", x1=x, x2=x, y1=_up(point.low), y2=_up(point.high))

    points = (*map(bounds_of, mark.points), *map(point_at, mark.points))
    return _square(text, *points, *_axis_names("said", "good"))


def _draw_scatter(mark: doc.ScatterPlot, text: str | None) -> Element:
    """Draw before against after; what lies above the diagonal got better."""
    most = max((n for _, _, n in mark.points), default=1)
    dots = (
        _dot(before, after, f"{before:.2f} to {after:.2f}, {plural(n, 'row')}", 2 + 5 * (n / most) ** 0.5)
        for before, after, n in mark.points
    )
    return _square(text, *dots, *_axis_names("before", "after"))


def _axis_names(across: str, up: str) -> tuple[Element, Element]:
    return (
        _h("text", across, x=_across(0.25), y=_up(0) + 14, text_anchor="middle"),
        _h("text", up, x=_MARGIN - 9, y=_up(0.75) + 4, text_anchor="end"),
    )


def _across(share: float) -> float:
    return _MARGIN + _SQUARE * share


def _up(share: float) -> float:
    return _MARGIN / 2 + _SQUARE * (1 - share)


def _dot(x: float, y: float, caption: str, size: float) -> Element:
    return _h("circle", _h("title", caption), class_="value", cx=_across(x), cy=_up(y), r=size)


def _square(text: str | None, *drawn: Element) -> Element:
    """Return a square from 0 to 1 with its diagonal, and what is drawn into it."""
    ticks = [
        _h("text", f"{share:g}", x=x, y=y, text_anchor=anchor)
        for share in (0.0, 0.5, 1.0)
        for x, y, anchor in (
            (_across(share), _up(0) + 14, "middle"),
            (_MARGIN - 9, _up(share) + 4, "end"),
        )
    ]
    frame = _h("rect", class_="frame", x=_across(0), y=_up(1), width=_SQUARE, height=_SQUARE)
    diagonal = _h("line", class_="reference", x1=_across(0), y1=_up(0), x2=_across(1), y2=_up(1))
    side = _SQUARE + 2 * _MARGIN
    return _svg(side, side, text, "reliability", frame, diagonal, *drawn, *ticks)


def _draw_columns(parts: Sequence[doc.BarPart], text: str | None) -> Element:
    most = max((part.size for part in parts), default=0.0) or 1.0
    return _svg(
        _COLUMN * len(parts),
        _COLUMNS_HEIGHT + 2 * _LABEL,
        text,
        "columns",
        *(_column(part, place, most) for place, part in enumerate(parts)),
    )


def _column(part: doc.BarPart, place: int, most: float) -> Element:
    x, height = place * _COLUMN, _COLUMNS_HEIGHT * part.size / most
    middle = x + _COLUMN / 2
    return _h(
        "g",
        _h("title", f"{part.name}: {doc.count(part.size)}"),
        _h(
            "rect",
            class_=part.kind,
            x=x + 3,
            y=_LABEL + _COLUMNS_HEIGHT - height,
            width=_COLUMN - 6,
            height=max(height, 0.8),
            rx=1.5,
        ),
        _h("text", doc.count(part.size), class_="tick", x=middle, y=_LABEL + _COLUMNS_HEIGHT - height - 4)
        if part.size
        else None,
        _h("text", part.name.partition(" ")[0], class_="tick", x=middle, y=2 * _LABEL + _COLUMNS_HEIGHT - 4),
    )


_PORTION = 500
"""Rows whose texts are read at once."""

_LONGEST_TEXT = 20_000
"""Most characters of one text in the page; longer ones end with how long they are."""

_LONGEST_QUESTION = 160


def _index_json(document: doc.Document) -> str:
    """Return what the table and its filters need, column by column, as JSON for inside a page."""
    rows = document.rows
    names = list(dict.fromkeys(judge for run in document.runs for judge in run.judges))
    return _page_json(
        {
            "judges": names,
            "runs": [run.name for run in document.runs],
            "portion": _PORTION,
            "rows": [pair.index for pair in rows],
            "questions": [_question(pair.row) for pair in rows],
            "labels": [pair.label for pair in rows] if any(pair.label for pair in rows) else [],
            "cells": [[_cells(rows, name, side) for side in range(len(document.runs))] for name in names],
            "groups": {column: [_group(pair.row, column) for pair in rows] for column in document.columns},
        }
    )


def _page_json(value: object) -> str:
    """Return JSON that can stand inside a script element of a page: it holds no `<`, and no line separator."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    for character in "<>&\u2028\u2029\x7f":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text.encode("utf-8", "backslashreplace").decode()


def _question(row: Row) -> str:
    text = row.error if row.sample is None else row.sample.question
    return " ".join(text[: 2 * _LONGEST_QUESTION].split())[:_LONGEST_QUESTION]


def _cells(rows: Sequence[doc.RowPair], name: str, side: int) -> dict[str, list[object]]:
    sides = [pair.sides[side] for pair in rows]
    verdicts = [None if row is None else row.verdicts.get(name) for row in sides]
    return {
        "score": [None if v is None or v.score is None else round(v.score, 4) for v in verdicts],
        "rating": [None if v is None else v.rating for v in verdicts],
        "passed": [None if v is None or v.passed is None else int(v.passed) for v in verdicts],
        "unscored": [None if v is None else v.unscored for v in verdicts],
    }


def _group(row: Row, column: str) -> str:
    value = None if row.sample is None else row.sample.metadata.get(column)
    return "" if value is None else str(value)


def _row_fields(pair: doc.RowPair) -> dict[str, object]:
    sample = pair.row.sample
    shared: dict[str, object] = {} if sample is None else _sample_fields(sample)
    return {**shared, "sides": [None if row is None else _side_fields(row) for row in pair.sides]}


def _sample_fields(sample: Sample) -> dict[str, object]:
    earlier = sample.conversation[:-1] if len(sample.conversation) > 1 else ()
    metadata = {
        name: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for name, value in sample.metadata.items()
    }
    fields = {
        "question": _cut(sample.question),
        "earlier": [_role_and_text(message) for message in earlier],
        "steps": [_role_and_text(message) for message in sample.steps],
        "reference": _cut(sample.reference or ""),
        "contexts": [_cut(context) for context in sample.retrieved_contexts or ()],
        "metadata": [[name, _cut(value)] for name, value in metadata.items()],
    }
    return {name: value for name, value in fields.items() if value}


def _role_and_text(message: Message) -> list[str]:
    calls = [f"{call.name}({json.dumps(call.args, ensure_ascii=False)})" for call in message.tool_calls]
    return [message.role, _cut("\n".join(filter(None, [message.content, *calls])))]


def _side_fields(row: Row) -> dict[str, object]:
    answer = row.sample.answer if row.sample is not None else None
    return {
        "answer": None if answer is None else _cut(answer),
        "error": row.error,
        "verdicts": {name: _verdict_fields(verdict) for name, verdict in row.verdicts.items()},
    }


def _verdict_fields(verdict: Verdict) -> dict[str, object]:
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
        "items": [{**_verdict_fields(item), "judge": item.judge} for item in verdict.items],
    }
    return {name: value for name, value in fields.items() if value is not None and value not in ("", [])}


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST_TEXT else f"{text[:_LONGEST_TEXT]}… ({len(text):,} characters)"


_INERT = "application/json"


def page(document: doc.Document) -> str:
    """Return the report as an HTML document that can be opened from a file, sent by mail and printed."""
    style, script = _static("report.css"), f"{_diff_script()}{_static('report.js')}"
    head = _h(
        "head",
        _h("meta", charset="utf-8"),
        _h("meta", http_equiv="Content-Security-Policy", content=_policy(style, script)),
        _h("meta", name="viewport", content="width=device-width, initial-scale=1"),
        _h("meta", name="referrer", content="no-referrer"),
        _h("meta", name="color-scheme", content="light dark"),
        _h("title", f"{document.title} – report"),
        _h("style", style),
    )
    sections = map(_section, document.sections)
    if document.rows:
        body = _h(
            "body",
            _h("a", "To the rows", class_="skip", href="#rows"),
            _header(document),
            _h("main", *sections, _rows_section(document)),
            *_data(document),
            _h("script", script, type="module"),
        )
    else:
        body = _h("body", _header(document), _h("main", *sections))
    # the texts of script and style are written as they are
    whole = tostring(_h("html", head, body, lang="en"), encoding="unicode", method="html")
    return f"<!doctype html>\n{whole}\n"


def _static(name: str) -> str:
    return (files("refine.report") / "static" / name).read_text(encoding="utf-8")


def _diff_script() -> str:
    """Return the words that tell two texts apart, as the page of the record has them, in a scope of their own."""
    source = (files("refine.page") / "static" / "diff.js").read_text(encoding="utf-8")
    script = source.replace('import { h } from "./dom.js";', "").replace("export function", "function")
    return f"const diff = (() => {{\n{script}\nreturn diff;\n}})();\n"


def _policy(style: str, script: str) -> str:
    return (
        f"default-src 'none'; script-src {_digest(script)}; style-src {_digest(style)}; "
        f"base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    return f"'sha256-{b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _data(document: doc.Document) -> Iterator[Element]:
    yield _h("script", _index_json(document), type=_INERT, id="index")
    for start in range(0, len(document.rows), _PORTION):
        text = _page_json([_row_fields(pair) for pair in document.rows[start : start + _PORTION]])
        yield _h("script", text, type=_INERT, class_="portion")


def _header(document: doc.Document) -> Element:
    links = [_h("a", part.title, href=f"#{part.key}") for part in document.sections]
    links += [_h("a", "All rows", href="#rows")] if document.rows else []
    return _h(
        "header",
        _h("p", "Report", class_="kind"),
        _h("h1", document.title),
        _h("p", document.headline, class_="about"),
        _h("nav", *links, aria_label="Sections"),
    )


def _section(part: doc.Section) -> Element:
    heading = f"{part.key}-title"
    blocks = [_block(block) for block in part.blocks]
    return _h("section", _h("h2", part.title, id=heading), *blocks, id=part.key, aria_labelledby=heading)


def _block(block: doc.Block) -> Element:
    match block:
        case doc.ReportTable():
            return _table(block)
        case doc.Paragraph(text, tone):
            return _h("p", text, class_=f"note {tone}")
        case doc.Charts(charts):
            return _h("div", *map(_chart, charts), class_="charts")
        case doc.WorstRow():
            return _worst_row(block)
        case doc.RowList():
            return _row_list(block)
        case doc.FoldedText(title, text):
            return _h("details", _h("summary", title), _h("p", text, class_="answer"), class_="card")


def _table(table: doc.ReportTable) -> Element:
    numbers = ["number" if place in table.numeric else None for place in range(len(table.columns))]
    head = _h(
        "tr",
        *(_h("th", name, scope="col", class_=kind) for name, kind in zip(table.columns, numbers, strict=True)),
    )
    rows = [
        _h(
            "tr",
            _h("th", *_inside(row[0]), scope="row", class_=row[0].tone),
            *(
                _h("td", *_inside(cell), class_=" ".join(filter(None, (kind, cell.tone))), data_column=name)
                for cell, kind, name in zip(row[1:], numbers[1:], table.columns[1:], strict=True)
            ),
        )
        for row in table.rows
    ]
    caption = _h("caption", table.caption) if table.caption else None
    grid = _h("table", caption, _h("thead", head), _h("tbody", *rows))
    return _h(
        "div", grid, class_="card wide", tabindex=0, role="region", aria_label=table.caption or table.columns[0]
    )


def _inside(cell: doc.TableCell) -> Iterator[Element]:
    if cell.mark is not None:
        yield _draw(cell.mark, None)
    yield _h("span", cell.text, class_="figure")
    if cell.more:
        yield _h("small", cell.more)


def _chart(chart: doc.Chart) -> Element:
    return _h("figure", _h("figcaption", chart.caption), _draw(chart.mark, chart.text), class_="card chart")


def _row_list(block: doc.RowList) -> Element:
    items = [_h("li", _row_link(index), f" {text}") for index, text in block.rows]
    more = (
        _h("p", f"and {block.left_out:,} more, in the table of all rows", class_="note soft")
        if block.left_out
        else None
    )
    return _h("div", _h("h3", block.title), _h("ul", *items, class_="rows-named"), more)


def _row_link(index: int) -> Element:
    """Return a link that opens a row in the table of all rows."""
    return _h("a", f"row {index}", href=f"#row={index}")


def _worst_row(row: doc.WorstRow) -> Element:
    return _h(
        "article",
        _h("header", _row_link(row.index), _h("p", row.question, class_="question")),
        _h("p", row.answer, class_="answer"),
        _h("div", *map(_verdict, row.verdicts), class_="verdicts"),
        class_="card judged",
    )


def _verdict(verdict: Verdict) -> Element:
    return _h(
        "div",
        _h("p", _h("strong", verdict.judge), _badge(verdict), class_="who"),
        _h("p", verdict.rationale, class_="rationale")
        if verdict.rationale and verdict.rationale != verdict.feedback
        else None,
        _h("p", verdict.feedback, class_="feedback") if verdict.feedback else None,
        _h("p", verdict.detail, class_="detail soft") if verdict.detail else None,
        _h("ul", *map(_item, verdict.items), class_="items") if verdict.items else None,
        class_="verdict",
    )


def _item(item: Verdict) -> Element:
    """Return a part of a verdict in a line or two: its mark, what was judged, and why."""
    kind, mark = ("soft", "–") if item.score is None else ("good", "✓") if item.passed else ("bad", "✗")
    reasons = [*dict.fromkeys([item.rationale, item.feedback]), doc.reason(item.unscored or ""), item.detail]
    return _h(
        "li",
        _h("span", mark, class_=kind, role="img", aria_label=_outcome(item)),
        _h("span", item.subject or item.judge),
        _h("small", " ".join(filter(None, reasons))),
        _h("ul", *map(_item, item.items), class_="items") if item.items else None,
    )


def _outcome(verdict: Verdict) -> str:
    return "unscored" if verdict.score is None else "passed" if verdict.passed else "not passed"


def _badge(verdict: Verdict) -> Element:
    if verdict.score is None:
        return _h("span", doc.reason(verdict.unscored or "unscored"), class_="badge runscored")
    text = f"{doc.number(verdict.score, '.2f')} {_outcome(verdict)}"
    return _h("span", text, class_=f"badge r{verdict.rating}")


def _rows_section(document: doc.Document) -> Element:
    return _h(
        "section",
        _h("h2", "All rows", id="rows-title"),
        _h("div", id="filter", class_="filter", role="search"),
        _h("p", id="count", class_="note soft", role="status"),
        _h(
            "div",
            _h("div", id="grid", class_="card"),
            _h("div", id="detail", class_="card", tabindex=-1, role="region", aria_label="The chosen row"),
            class_="split",
        ),
        _h(
            "p",
            f"{plural(len(document.rows), 'row')}: the table needs a screen, and JavaScript.",
            class_="note soft on-paper",
        ),
        id="rows",
        aria_labelledby="rows-title",
    )
