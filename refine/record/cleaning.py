"""Values as every database takes them: no NUL, no half of a surrogate pair, no NaN, nothing without an end."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from itertools import islice

LONGEST_NAME = 200
"""Characters of an id, a name or a code; more would not fit into an index."""
LONGEST_TEXT = 1_000_000
"""Characters of one text."""
_DEEPEST = 100
_MOST_PARTS = 10_000
_LARGEST = 2**63 - 1
_CUT = " [...]"


def text_of(value: object, longest: int = LONGEST_TEXT) -> str:
    """Return a text that can be stored; what is longer than `longest` is cut, and says so."""
    text = value if type(value) is str else str(value)
    if len(text) > longest:
        text = text[: longest - len(_CUT)] + _CUT
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def name_of(value: object) -> str | None:
    """Return an id or a name that can be stored; None stays None."""
    return None if value is None else text_of(value, LONGEST_NAME)


def count_of(value: int) -> int:
    """Return a number that fits into 64 bits."""
    return min(value, _LARGEST)


def number_of(value: float | None) -> float | None:
    """Return a finite number; None for one that is not."""
    return None if value is None or not math.isfinite(value) else float(value)


def json_of(value: object) -> str:
    """Return data as JSON that can be stored and read back; NaN and infinity, no JSON, become null."""
    return json.dumps(clean(value), ensure_ascii=False, allow_nan=False)


def clean(value: object, depth: int = _DEEPEST) -> object:
    """Return JSON-like data with every text and number in it as it can be stored."""
    match value:
        case str():
            return text_of(value)
        case bool() | None:
            return value
        case int() | float():
            return number_of(value) if isinstance(value, float) else value
        case _ if depth == 0:
            return _CUT.strip()
        case Mapping():
            return {text_of(name): clean(part, depth - 1) for name, part in islice(value.items(), _MOST_PARTS)}
        case list() | tuple():
            return [clean(part, depth - 1) for part in value[:_MOST_PARTS]]
        case _:
            return text_of(value)
