"""Columns of a CSV table compared as datacompy compares them after pandas has read them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from judges.catalogue.parts.csv_tables import INTEGER, is_missing, is_number, number_in

_TRUTHS = {"True": 1.0, "TRUE": 1.0, "true": 1.0, "False": 0.0, "FALSE": 0.0, "false": 0.0}
Same = Callable[[str, str], bool]


def as_pandas(one: Sequence[str], other: Sequence[str]) -> Same:
    """Give how datacompy compares two columns that pandas has read: as numbers, or as texts if one has texts."""
    both = min(len(one), len(other))
    kinds = _kind(one, joined_with=len(other)), _kind(other, joined_with=len(one))
    if kinds != ("text", "text") and _sized(one[:both], kinds[0]) and _sized(other[:both], kinds[1]):
        return lambda a, b: _size(a) == _size(b)
    if kinds == ("text", "text"):
        return lambda a, b: (None if is_missing(a) else a) == (None if is_missing(b) else b)
    return lambda a, b: _written(a, kinds[0]) == _written(b, kinds[1])


def _kind(cells: Sequence[str], *, joined_with: int) -> str:
    """Tell of what kind a column is; joined with a longer one, whole numbers become fractions."""
    given = [one for one in cells if not is_missing(one)]
    if all(is_number(one.strip()) for one in given):
        whole = len(given) == len(cells) >= joined_with and all(INTEGER.fullmatch(one.strip()) for one in given)
        return "whole" if whole else "number"
    return "truth" if all(one in _TRUTHS for one in given) else "text"


def _sized(cells: Sequence[str], kind: str) -> bool:
    """Tell whether cells can be read as numbers, although others of their column may be texts."""
    return kind != "text" or all(is_missing(one) or is_number(one.strip()) for one in cells)


def _size(text: str) -> float | None:
    if is_missing(text):
        return None
    return _TRUTHS[text] if text in _TRUTHS else number_in(text.strip())


def _written(text: str, kind: str) -> str:
    """Write a cell as pandas writes the value of a column of this kind."""
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
