"""Faults that must not cost anything: a judge's own errors, dropped lines and rows, files written by half."""

from __future__ import annotations

import logging
import os
import sys
import threading
import traceback
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Literal

from judges.runtime.observation import current, observing

_Kind = Literal["rows", "outcomes", "log_lines"]

_log = logging.getLogger("judges")
_dropped_log = logging.getLogger("refine")
_counts: Counter[_Kind] = Counter({"rows": 0, "outcomes": 0, "log_lines": 0})
"""Counts of this process: a log belongs to the process, so what it drops does too."""
_lock = threading.Lock()


def losses() -> dict[_Kind, int]:
    """Return what this process has lost since it began.

    These are `rows` of recorded files, `outcomes` of records in a database, and `log_lines` whose logger raised.
    """
    with _lock:
        return dict(_counts)


def count(kind: _Kind, number: int = 1) -> int:
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
            _warn_of_loss(
                f"the logger raised {type(error).__name__}, so a line is missing from the log ({total} so far)"
            )


def _warn_of_loss(message: str) -> None:
    try:
        _dropped_log.warning(message)
    except Exception:  # noqa: BLE001 - the logger of the warning may raise as well
        with suppress(Exception):
            sys.stderr.write(f"refine: {message}\n")


def outcome_label() -> str:
    """Return what a line of the log ends in: the outcome that it belongs to, if any."""
    outcome_id = current.get().outcome_id
    return f" (outcome_id={outcome_id!r})" if outcome_id else ""


def of_run(*, log_texts: bool) -> observing:
    """Warn of each fault once in a `with` block, however many samples meet it; all of them are logged on DEBUG."""
    return observing(logged_faults=set(), log_texts=log_texts, outcome_id="")


def report(error: Exception, place: str) -> str:
    """Log an error of a judge's own code, and return its kind and place, which quote no text.

    Args:
        error: The error.
        place: Whose code raised it, for instance the judge's name.

    Raises:
        Exception: The error itself where faults are raised, or if by it LangGraph stops for a human; or another
            one in its place, as `Observation.raised_instead` says.
    """
    here = current.get()
    if here.raises_faults or any(kind.__name__ == "GraphBubbleUp" for kind in type(error).__mro__):
        raise error
    other = None if here.raised_instead is None else here.raised_instead(error)
    if other is not None:
        raise other from error
    fault = f"{type(error).__name__} in {place}"
    line = f"{fault}{_innermost(error.__traceback__)}"
    is_repeated = here.logged_faults is not None and line in here.logged_faults
    if here.logged_faults is not None:
        here.logged_faults.add(line)
    with logging_safely():
        if not is_repeated:
            _log.warning(
                "%s%s; the verdict is unscored (judge_failed), the traceback is logged on DEBUG%s",
                line,
                f": {error}" if here.log_texts else "",
                outcome_label(),
            )
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s%s\n%s", line, outcome_label(), _rendered(error, with_texts=here.log_texts))
    return fault


def _innermost(frames: TracebackType | None) -> str:
    summary = traceback.extract_tb(frames)
    return f" ({summary[-1].filename}:{summary[-1].lineno}, {summary[-1].name})" if summary else ""


def _rendered(error: BaseException, *, with_texts: bool) -> str:
    """Render a traceback with its causes; messages, which may quote texts, only where these may be logged."""
    if with_texts:
        return "".join(traceback.format_exception(error))
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    before = "" if cause is None else f"{_rendered(cause, with_texts=False)}which led to\n"
    return f"{before}{''.join(traceback.format_tb(error.__traceback__))}{type(error).__name__}\n"


def write_whole(path: Path, text: str) -> None:
    """Write a text to a file in place of what it holds.

    A link stays a link, and what is no file, such as `/dev/null` or a pipe, is written to instead of replaced.

    Raises:
        OSError: If it cannot be written; an older file is as it was.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        target.write_text(text, encoding="utf-8", newline="\n")
        return
    draft = target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}")
    try:
        draft.write_text(text, encoding="utf-8", newline="\n")
        if target.exists():
            draft.chmod(target.stat().st_mode & 0o777)
        draft.replace(target)
    finally:
        with suppress(OSError):
            draft.unlink(missing_ok=True)
