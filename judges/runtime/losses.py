"""What could not be written, a row of a record or a line of the log: counted, never at the cost of an answer."""

from __future__ import annotations

import logging
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Literal

Kind = Literal["rows", "outcomes", "log_lines"]

_log = logging.getLogger("refine")
_counts: Counter[Kind] = Counter({"rows": 0, "outcomes": 0, "log_lines": 0})
"""Counts of this process: a log belongs to the process, so its losses do too."""
_lock = threading.Lock()


def losses() -> dict[Kind, int]:
    """Return what this process has lost since it began.

    These are `rows` of recorded files, `outcomes` of records in a database, and `log_lines` whose logger raised.
    """
    with _lock:
        return dict(_counts)


def count(kind: Kind, number: int = 1) -> int:
    """Count what was lost, and return the total of its kind."""
    with _lock:
        _counts[kind] += number
        return _counts[kind]


@contextmanager
def logging_safely() -> Iterator[None]:
    """Continue where a logger, handler, filter or processor raises in this block; the line is lost and counted.

    The first loss, the tenth, the hundredth and so on are a WARNING of the logger `refine`, or a line on standard
    error if that logger raises too.
    """
    try:
        yield
    except Exception as error:  # noqa: BLE001 - a log line is worth less than an answer, whatever raised
        total = count("log_lines")
        if str(total).rstrip("0") == "1":
            _report(
                f"the logger raised {type(error).__name__}, so a line is missing from the log ({total} so far)"
            )


def _report(message: str) -> None:
    try:
        _log.warning(message)
    except Exception:  # noqa: BLE001 - as above
        with suppress(Exception):
            sys.stderr.write(f"refine: {message}\n")
