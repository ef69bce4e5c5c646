"""Keeping the path and query of an address out of what an HTTP client logs: a key may stand in either."""

from __future__ import annotations

import logging
from contextvars import ContextVar

from judges.runtime.context import setting

_LOGGERS = ("urllib3.connectionpool", "urllib3.connection", "urllib3.util.retry")
_HIDDEN = "/..."
_target: ContextVar[str | None] = ContextVar("target", default=None)


def hide_targets() -> None:
    """Let urllib3's loggers hide the targets of `hidden_target`; other requests are logged as ever."""
    for name in _LOGGERS:
        logging.getLogger(name).addFilter(_hide)


def hidden_target(target: str) -> setting[str | None]:
    """Hide a request's path and query in what is logged within a `with` block."""
    return setting(_target, target)


def _hide(record: logging.LogRecord) -> bool:
    """Replace the current target in a record's arguments; keep the record."""
    target = _target.get()
    if target is not None and isinstance(record.args, tuple):
        record.args = tuple(_without(argument, target) for argument in record.args)
    return True


def _without(argument: object, target: str) -> object:
    if isinstance(argument, int | float | None):
        return argument
    text = str(argument)
    return text.replace(target, _HIDDEN) if target in text else argument
