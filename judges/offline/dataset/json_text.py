"""Reading JSON texts, with faults that name their place."""

from __future__ import annotations

import json
import re
from typing import Any, NoReturn

from judges.errors import BadSample, one_line

_CONSTANT = re.compile(r'"(?:[^"\\]|\\.)*"|(-?Infinity|NaN)')
"""A text in a JSON document, or one of the words that Python reads as a number, which is group 1."""


def parsed(text: str) -> Any:
    """Return the value of a JSON text.

    Raises:
        BadSample: If it is not valid JSON; the message names the column, counted in characters from 1.
    """
    try:
        return json.loads(text, parse_constant=_reject_constant)
    except json.JSONDecodeError as error:
        line = f" of line {error.lineno}" if error.lineno > 1 else ""
        hint = "; a row is one whole JSON object on one line" if error.pos >= len(text) else ""
        raise BadSample(f"not valid JSON: {error.msg.lower()} at column {error.colno}{line}{hint}") from None
    except _NotJson as error:
        column = next(match.start(1) for match in _CONSTANT.finditer(text) if match[1]) + 1
        raise BadSample(f"{error} is not a JSON number, at column {column}") from None
    except (ValueError, RecursionError) as error:
        raise BadSample(f"not readable JSON: {one_line(error)}") from None


def preview(value: object) -> str:
    """Return the beginning of a value as JSON."""
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:37]}..."  # noqa: PLR2004 - about half a line


class _NotJson(ValueError):  # noqa: N818 - carries a word that Python reads as a number
    """A number that JSON does not have: NaN or an infinity."""


def _reject_constant(name: str) -> NoReturn:
    raise _NotJson(name)
