"""The log of requests: one line each, whatever became of it."""

from __future__ import annotations

import logging
from typing import Any

import structlog

from judges.runtime.faults import logging_safely
from refine.server.service import ServedRequest

LOGGER = "refine.access"
_LOGGER = logging.getLogger(LOGGER)
_LEFT = 499
"""What servers write for a client that left before it was answered."""


class AccessLog:
    """Writes a line at INFO for every request served; an observer of the service."""

    def __call__(self, served: ServedRequest) -> None:
        """Write the line of one request, without any text of it."""
        if not _LOGGER.isEnabledFor(logging.INFO):
            return
        fields = {name: _printable(value) for name, value in _fields(served).items() if value not in ("", None)}
        with logging_safely():
            if structlog.is_configured():
                structlog.get_logger(LOGGER).info("request", **fields)
            else:
                _LOGGER.info("request %s", " ".join(f"{name}={_word(value)}" for name, value in fields.items()))


def _printable(value: Any) -> Any:
    """Return what a client sent without what could begin a line of its own, or that no log can write."""
    if not isinstance(value, str) or value.isprintable():
        return value
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in value)


def _word(value: Any) -> Any:
    """Return a value as one word of a line, in quotes where it could pass for several fields."""
    return repr(value) if isinstance(value, str) and (" " in value or "=" in value) else value


def _fields(served: ServedRequest) -> dict[str, Any]:
    outcomes = [record.outcome for record in served.records]
    last = outcomes[0] if outcomes else None
    ratings = [attempt.rating for one in outcomes for attempt in one.attempts if attempt.number == one.released]
    verdicts = [verdict.rating for verdict in served.verdicts]
    usage, who = served.usage, served.requester
    return {
        "status": _LEFT if served.status is None else served.status,
        "method": served.method,
        "path": served.path,
        "seconds": round(served.seconds, 4),
        "key": served.caller,
        "user": who.user,
        "session": who.session,
        "thread": who.thread,
        "guard": served.guard,
        "model": served.model,
        "ended": "left" if served.status is None else last.stop_reason if last else served.ended,
        "reason": served.code or (last.detail if last else ""),
        "rating": min((rating for rating in (*ratings, *verdicts) if rating is not None), default=None),
        "attempts": sum(len(one.attempts) for one in outcomes) if outcomes else None,
        "tokens": usage.tokens or None,
        "cost": usage.cost or None,
        "request_id": served.request_id,
        "trace_id": served.trace_id,
    }
