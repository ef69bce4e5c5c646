"""Faults in a judge's own code: logged where a developer looks, or let through in tests.

An answer must not be lost because a judge has a bug, so such an error becomes an unscored verdict. The logger
`judges` then has a WARNING with the error's kind and place, and on DEBUG the traceback. What an error says may
quote the texts that are judged, so it is left out unless texts may be logged.
"""

from __future__ import annotations

import logging
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from types import TracebackType
from typing import Any, NamedTuple

from judges.runtime import losses
from judges.runtime.context import setting

_log = logging.getLogger("judges")


class _Logging(NamedTuple):
    """How faults are logged; see `logging_texts`."""

    log_texts: bool = False
    outcome_id: str = ""


_BY_DEFAULT = _Logging()
_logging: ContextVar[_Logging] = ContextVar("judges.logging", default=_BY_DEFAULT)
_raising: ContextVar[bool] = ContextVar("judges.raising", default=False)
_logged: ContextVar[set[str] | None] = ContextVar("judges.logged_faults", default=None)
_instead: ContextVar[Callable[[Exception], Exception | None] | None] = ContextVar("judges.instead", default=None)


def raising() -> setting[bool]:
    """Let errors of a judge's own code through in a `with` block; else they become unscored verdicts."""
    return setting(_raising, True)  # noqa: FBT003 - the variable's value


def letting_through(instead: Callable[[Exception], Exception | None]) -> setting[Any]:
    """Let errors that are no fault of a judge through in a `with` block.

    Args:
        instead: Returns what to raise instead of an error, or None where the error is a fault.
    """
    return setting(_instead, instead)


def logging_texts(*, log_texts: bool, outcome_id: str = "") -> setting[_Logging]:
    """Set how faults are logged in a `with` block.

    Args:
        log_texts: Whether what errors say, which may quote judged texts, is logged.
        outcome_id: Id of the outcome that the lines belong to, as lines of the logger `refine` have it.
    """
    return setting(_logging, _Logging(log_texts, outcome_id))


def outcome_label() -> str:
    """Return what a line of the log ends in: the outcome that it belongs to, if any."""
    outcome_id = _logging.get().outcome_id
    return f" (outcome_id={outcome_id!r})" if outcome_id else ""


@contextmanager
def of_run(*, log_texts: bool) -> Iterator[None]:
    """Warn of each fault once in this block, however many samples meet it; all of them are logged on DEBUG."""
    with setting(_logged, set()), logging_texts(log_texts=log_texts):
        yield


def report(error: Exception, place: str) -> str:
    """Log an error of a judge's own code, and return its kind and place, which quote no text.

    Args:
        error: The error.
        place: Whose code raised it, for instance the judge's name.

    Raises:
        Exception: The error itself within `raising()`, or if by it LangGraph stops for a human; or another one in
            its place, as set by `letting_through`.
    """
    if _raising.get() or _is_control_flow(error):
        raise error
    instead = _instead.get()
    other = None if instead is None else instead(error)
    if other is not None:
        raise other from error
    fault = f"{type(error).__name__} in {place}"
    line = f"{fault}{_innermost(error.__traceback__)}"
    seen = _logged.get()
    repeated = seen is not None and line in seen
    if seen is not None:
        seen.add(line)
    with losses.logging_safely():
        if not repeated:
            message = f": {error}" if _logging.get().log_texts else ""
            _log.warning(
                "%s%s; the verdict is unscored (judge_failed), the traceback is logged on DEBUG%s",
                line,
                message,
                outcome_label(),
            )
        if _log.isEnabledFor(logging.DEBUG):
            _log.debug("%s%s\n%s", line, outcome_label(), _rendered(error))
    return fault


def _is_control_flow(error: Exception) -> bool:
    """Check whether LangGraph, which is not imported here, stops for a human or leaves a graph by this error."""
    return any(kind.__name__ == "GraphBubbleUp" for kind in type(error).__mro__)


def _innermost(frames: TracebackType | None) -> str:
    summary = traceback.extract_tb(frames)
    return f" ({summary[-1].filename}:{summary[-1].lineno}, {summary[-1].name})" if summary else ""


def _rendered(error: BaseException) -> str:
    """Render a traceback with its causes; messages, which may quote texts, only where these may be logged."""
    if _logging.get().log_texts:
        return "".join(traceback.format_exception(error))
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    before = "" if cause is None else f"{_rendered(cause)}which led to\n"
    return f"{before}{''.join(traceback.format_tb(error.__traceback__))}{type(error).__name__}\n"
