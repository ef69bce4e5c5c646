"""Numbers as a reader sees them; a dash stands for what is not known."""

from __future__ import annotations

import re
from datetime import datetime

from judges.offline.statistics.intervals import Figure

DASH = "–"

_NOT_TEXT = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")

_REASONS = {
    "too_few": "too few rows",
    "one_class": "all rows are of one kind",
    "zero_variance": "nothing varies",
    "no_overlap": "no row has both",
    "not_identified": "the data cannot tell",
}


def clean(text: str) -> str:
    """Return a text without characters that a page cannot hold."""
    return _NOT_TEXT.sub("\ufffd", text)


def number(value: float | None, form: str = ".3f") -> str:
    """Return a number in a format of Python's."""
    return DASH if value is None else format(value, form)


def percent(value: float | None) -> str:
    """Return a share as a percentage; one that is not 0 or 100 % never reads as if it were."""
    if value is None:
        return DASH
    text = f"{value:.1%}"
    if text == "100.0%" and value < 1 - _ROUNDING:
        return "> 99.9%"
    return "< 0.1%" if text == "0.0%" and value > _ROUNDING else text


_ROUNDING = 1e-9
"""By how much an end of an interval that is 0 or 1 may miss it."""


def count(value: float) -> str:
    """Return a count with its thousands apart."""
    return f"{value:,.0f}"


def dollars(value: float | None) -> str:
    """Return US dollars, with as many digits as a small sum needs."""
    if value is None:
        return "unknown"
    return f"${value:,.2f}" if value >= 1 or value == 0 else f"${value:.2g}" if value < 0.001 else f"${value:.4f}"  # noqa: PLR2004 - a tenth of a cent


def seconds(value: float | None) -> str:
    """Return a duration."""
    if value is None:
        return DASH
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s"


def span(low: float | None, high: float | None, form: str = ".3f") -> str:
    """Return an interval in words; empty where there is none."""
    return "" if low is None or high is None else f"{format(low, form)} to {format(high, form)}"


def span_percent(low: float | None, high: float | None) -> str:
    """Return an interval of a share in words; empty where there is none."""
    return "" if low is None or high is None else f"{percent(low)} to {percent(high)}"


def why(figure: Figure) -> str:
    """Return why a figure has no value, and over how many rows."""
    reason = "" if figure.reason is None else _REASONS[figure.reason]
    return f"undefined: {reason} (n = {figure.n:,})" if reason else DASH


def reason(code: str) -> str:
    """Return a code such as `no_contexts` as words."""
    return code.replace("_", " ")


def p_value(p: float | None) -> str:
    """Return a p-value; a tiny one never reads as if it were 0."""
    return "< 0.001" if p is not None and p < 0.001 else number(p)  # noqa: PLR2004 - three digits are shown


def moment(time: str | None) -> str:
    """Return a time of ISO 8601 as a reader writes it."""
    if time is None:
        return "at an unknown time"
    when = datetime.fromisoformat(time)
    return f"{when.day} {when:%B %Y, %H:%M} {when.tzname() or ''}".strip()
