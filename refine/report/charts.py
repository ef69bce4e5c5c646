"""Small drawings in SVG, without styles of their own: each says in words what it shows."""

from __future__ import annotations

from itertools import accumulate
from xml.etree.ElementTree import Element

from refine.report import wording
from refine.report.document import Columns, Mark, Part, Parts, Range
from refine.report.markup import h

_WIDTH, _HEIGHT = 190.0, 16.0
_COLUMN, _COLUMNS_HEIGHT, _LABEL = 34.0, 96.0, 16.0


def draw(mark: Mark, text: str) -> Element:
    """Return a drawing, named by the text that says the same."""
    match mark:
        case Range():
            return _range(mark, text)
        case Parts():
            return _parts(mark, text)
        case Columns():
            return _columns(mark, text)


def _svg(width: float, height: float, text: str, kind: str, *children: Element) -> Element:
    return h(
        "svg",
        *children,
        viewBox=f"0 0 {width:g} {height:g}",
        width=width,
        height=height,
        role="img",
        aria_label=text,
        class_=kind,
    )


def _range(mark: Range, text: str) -> Element:
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


def _parts(mark: Parts, text: str) -> Element:
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


def _columns(mark: Columns, text: str) -> Element:
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
