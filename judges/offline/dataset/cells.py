"""The value of a cell, the same whatever file or table it stands in."""

from __future__ import annotations

import ast
import json
import math
from collections.abc import Mapping
from typing import Any

from judges.errors import BadSample
from judges.offline.dataset.json_text import parsed
from judges.sample import canonical_field

_TEXTS = frozenset({"user_input", "response", "reference"})
"""Fields that hold text; those of the others are lists or objects."""


def cell_value(column: str, value: Any) -> Any:
    """Return the value of a cell: an empty text is an empty answer, and in any other field a missing one."""
    return None if value == "" and canonical_field(column) not in {None, "response"} else value


def frame_value(column: str, value: Any) -> Any:
    """Return the value of a cell of a data frame as JSON has it.

    NaN, NaT and NA are missing; dates are ISO text. Frames have numbers where a file has text, so a number or a
    truth value in a field that holds text is read as its text.
    """
    value = _plain(value)
    if isinstance(value, bool | int | float) and canonical_field(column) in _TEXTS:
        return json.dumps(value)
    return cell_value(column, value)


def cell_of_text(column: str, text: str) -> Any:
    """Return the value of a cell in a file that holds text alone: lists and objects are JSON in it.

    Raises:
        BadSample: If a list or an object begins and is not valid.
    """
    field = canonical_field(column)
    begins = text.lstrip()[:1]
    if begins in {"[", "{"} and (field not in _TEXTS or column == "messages") and field is not None:
        return _structured(column, text)
    if field == "metadata" or column == "messages":
        return _structured(column, text) if text.strip() else None
    return cell_value(column, text)


def _structured(column: str, text: str) -> Any:
    try:
        return parsed(text)
    except BadSample as error:
        value = _python_literal(text)
        if value is None:
            raise BadSample(
                f'field {column!r}: in a CSV file it is written as JSON, for instance ["first", "second"]; '
                f"here it is {error} of the cell"
            ) from None
        return value


def _python_literal(text: str) -> Any:
    """Return a list or an object as Python shows it, which is how data frames are written to CSV; else None."""
    try:
        value = ast.literal_eval(text.strip())
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return value if isinstance(value, list | dict) else None


def _plain(value: Any) -> Any:
    """Return a value of a data frame as one of Python's, None where it is missing, dates as ISO text."""
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float):
        return None if math.isnan(value) else value
    if isinstance(value, Mapping):
        return {str(name): _plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    if hasattr(value, "tolist"):  # arrays and scalars of numpy
        return _plain(value.tolist())
    if type(value).__name__ in {"NaTType", "NAType"}:
        return None
    return value.isoformat() if hasattr(value, "isoformat") else value
