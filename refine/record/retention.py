"""Deleting what is older than it may be kept, little by little."""

from __future__ import annotations

import time

from sqlalchemy import Connection, delete, select

from refine.record.rows import now_ms
from refine.record.schema import ATTEMPT, LABEL, OUTCOME

_DAY_MS = 24 * 60 * 60 * 1_000
_SLICE = 1_000
_PAUSE_S = 60.0


class Retention:
    """How long outcomes are kept.

    Args:
        days: Days after which an outcome is deleted, with its attempts and labels; None keeps all.
    """

    def __init__(self, days: float | None) -> None:
        self._days = days
        self._due_at = 0.0

    def is_due(self) -> bool:
        """Check whether it is time to look for what is too old."""
        return self._days is not None and time.monotonic() >= self._due_at

    def delete(self, connection: Connection) -> bool:
        """Delete the oldest outcomes of those that are too old, 1,000 at most, and return whether there are more.

        The next time is at once while there are, else in a minute.
        """
        before = now_ms() - int((self._days or 0) * _DAY_MS)
        oldest = select(OUTCOME.c.id).where(OUTCOME.c.at < before).order_by(OUTCOME.c.at).limit(_SLICE)
        identifiers = connection.execute(oldest).scalars().all()
        if identifiers:
            for table, column in ((ATTEMPT, ATTEMPT.c.outcome), (LABEL, LABEL.c.outcome), (OUTCOME, OUTCOME.c.id)):
                connection.execute(delete(table).where(column.in_(identifiers)))
        more = len(identifiers) == _SLICE
        self._due_at = 0.0 if more else time.monotonic() + _PAUSE_S
        return more
