"""The report as one page: no script but its own, no style but its own, and nothing from anywhere else."""

from __future__ import annotations

import hashlib
from base64 import b64encode
from collections.abc import Iterator
from importlib.resources import files
from xml.etree.ElementTree import Element

from judges import Verdict
from refine.report import wording
from refine.report.charts import draw
from refine.report.document import Block, Cell, Chart, Charts, JudgedRow, Paragraph, RowList, Section, Table
from refine.report.markup import h, html
from refine.report.sections import headline, sections, title
from refine.report.table_data import index_json, portions_json
from refine.report.view import Report

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
    yield h("script", index_json(report), type=_INERT, id="index")
    for text in portions_json(report.entries):
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
        yield draw(cell.mark, None)
    yield h("span", cell.text, class_="figure")
    if cell.more:
        yield h("small", cell.more)


def _chart(chart: Chart) -> Element:
    return h("figure", h("figcaption", chart.caption), draw(chart.mark, chart.text), class_="card chart")


def _row_list(block: RowList) -> Element:
    items = [h("li", row_link(index), f" {text}") for index, text in block.rows]
    more = (
        h("p", f"and {block.left_out:,} more, in the table of all rows", class_="note soft")
        if block.left_out
        else None
    )
    return h("div", h("h3", block.title), h("ul", *items, class_="rows-named"), more)


def row_link(index: int) -> Element:
    """Return a link that opens a row in the table of all rows."""
    return h("a", f"row {index}", href=f"#row={index}")


def _judged_row(row: JudgedRow) -> Element:
    return h(
        "article",
        h("header", row_link(row.index), h("p", row.question, class_="question")),
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
