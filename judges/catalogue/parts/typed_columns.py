"""Columns of a CSV table compared as datacompy compares them after pandas has read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from judges.catalogue.parts.csv_tables import INTEGER, is_missing, is_number, number_in

_TRUTHS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
Same = Callable[[str, str], bool]


def column_comparison(first: Sequence[str], second: Sequence[str]) -> Same:
    """Return how datacompy compares two columns read by pandas: as numbers, or as texts if one has texts."""
    shared = min(len(first), len(second))
    kinds = _kind(first, joined_with=len(second)), _kind(second, joined_with=len(first))
    if (
        kinds != ("text", "text")
        and _is_numeric(first[:shared], kinds[0])
        and _is_numeric(second[:shared], kinds[1])
    ):
        return lambda a, b: _number(a) == _number(b)
    if kinds == ("text", "text"):
        return lambda a, b: (None if is_missing(a) else a) == (None if is_missing(b) else b)
    return lambda a, b: _as_text(a, kinds[0]) == _as_text(b, kinds[1])


def _kind(cells: Sequence[str], *, joined_with: int) -> str:
    """Return the kind of a column; whole numbers become fractions when joined with a longer column."""
    present = [cell for cell in cells if not is_missing(cell)]
    if all(is_number(cell.strip()) for cell in present):
        complete = len(present) == len(cells) >= joined_with
        whole = complete and all(INTEGER.fullmatch(cell.strip()) for cell in present)
        return "whole" if whole else "number"
    return "truth" if all(cell in _TRUTHS for cell in present) else "text"


def _is_numeric(cells: Sequence[str], kind: str) -> bool:
    """Whether cells can be read as numbers, although others of their column may be texts."""
    return kind != "text" or all(is_missing(cell) or is_number(cell.strip()) for cell in cells)


def _number(text: str) -> float | None:
    if is_missing(text):
        return None
    return _TRUTHS[text] if text in _TRUTHS else number_in(text.strip())


def _as_text(text: str, kind: str) -> str:
    """Return a cell as pandas writes the value of a column of this kind."""
    if is_missing(text):
        return "nan"
    match kind:
        case "whole":
            return str(int(text))
        case "number":
            return str(float(text))
        case "truth":
            return str(bool(_TRUTHS[text]))
        case _:
            return text
